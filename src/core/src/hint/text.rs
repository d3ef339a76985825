//! Waits said in words: "Please retry in 53.0s", "Resets in 16 days", and delays inside quoted error texts.
//!
//! Deliberately strict: a number counts only behind one of the phrases below and with a unit. Messages are full
//! of other numbers - limits, token counts, prices - and a wait made from one of them is worse than none.

use super::{duration::leading_duration, go_duration, rfc3339, until};

/// What stands before a duration. Lower case; longer ones need not go first, since the largest find counts.
const LEADS: &[&str] = &[
    "again in ",
    "again after ",
    "again later in ",
    "retry in ",
    "retry after ",
    "retrying in ",
    "retry your request in ",
    "retry your request after ",
    "retry the request in ",
    "retry the request after ",
    "reset after ",
    "reset in ",
    "resets in ",
    "resets after ",
    "available in ",
    "available again in ",
    "wait ",
    "retry-after: ",
    "retry_after: ",
    "back off for ",
];

/// Words that may stand between the phrase and the number.
const FILLERS: &[&str] = &[
    "for ",
    "about ",
    "approximately ",
    "approx. ",
    "around ",
    "at least ",
    "another ",
    "up to ",
    "~",
    "an additional ",
];

/// The longest wait the text names behind one of the phrases; dates ("regain access on 2026-12-01 at 00:00
/// UTC") need `now`.
pub fn spoken(text: &str, now: Option<f64>) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let mut largest: Option<f64> = None;
    let mut keep = |found: Option<f64>| {
        if let Some(found) = found.filter(|f| *f > 0.0) {
            largest = Some(largest.map_or(found, |held: f64| held.max(found)));
        }
    };
    for lead in LEADS {
        for (at, _) in lower.match_indices(lead) {
            let mut rest = lower[at + lead.len()..].trim_start();
            while let Some(shorter) = FILLERS.iter().find_map(|filler| rest.strip_prefix(filler)) {
                rest = shorter;
            }
            keep(leading_duration(rest, true).map(|(seconds, _)| seconds));
        }
    }
    for lead in
        ["regain access on ", "resets on ", "resets at ", "reset at ", "try again at ", "available at "]
    {
        for (at, _) in lower.match_indices(lead) {
            keep(moment(&lower[at + lead.len()..]).and_then(|at| until(at, now)));
        }
    }
    largest
}

/// `2026-12-01 at 00:00 UTC`, `2026-12-01T00:00:00Z` or `2026-12-01 00:00:00 utc` at the start of the text.
fn moment(text: &str) -> Option<f64> {
    let day = text.get(..10)?;
    let rest = text.get(10..)?;
    let rest =
        rest.strip_prefix(" at ").or_else(|| rest.strip_prefix('t')).or_else(|| rest.strip_prefix(' '))?;
    let time_length = rest.bytes().take_while(|b| b.is_ascii_digit() || matches!(b, b':' | b'.')).count();
    let time = rest.get(..time_length)?.trim_end_matches('.');
    let zone = rest.get(time_length..)?.trim_start();
    if !(zone.starts_with("utc") || zone.starts_with("gmt") || zone.starts_with('z')) {
        return None;
    }
    let seconds = if time.len() == 5 { ":00" } else { "" };
    rfc3339(&format!("{day}T{time}{seconds}Z"))
}

/// Last resort: `"retryDelay": "44s"` somewhere in a text, whatever escaping the quotes went through.
pub fn embedded_delay(text: &str) -> Option<f64> {
    let mut largest: Option<f64> = None;
    for key in ["retryDelay", "quotaResetDelay", "retry_delay"] {
        for (at, _) in text.match_indices(key) {
            let rest = text[at + key.len()..].trim_start_matches(['"', '\'', '\\', ':', ' ', '=']);
            let end = rest.find(['"', '\'', '\\', ',', '}', ' ']).unwrap_or(rest.len());
            if let Some(found) = go_duration(&rest[..end]) {
                largest = Some(largest.map_or(found, |held: f64| held.max(found)));
            }
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_sentence_gives_its_wait() {
        let rows = [
            ("Please retry in 53.016342224s.", 53.016342224),
            ("Please try again in 1m12.5s. Visit", 72.5),
            ("Please retry after 37 seconds. To", 37.0),
            ("No deployments available, Try again in 60 seconds. Passed", 60.0),
            ("Your quota will reset after 2h7m23s.", 7643.0),
            ("Please wait 5631 seconds before retrying.", 5631.0),
            ("Monthly usage limit reached. Resets in 16 days.", 1_382_400.0),
            ("please try again after 1 seconds", 1.0),
            ("Try again in about 5 minutes", 300.0),
            ("Please retry in 10h17m5.723541104s.", 37025.723541104),
            ("wait for at least 1 hour and 30 minutes", 5400.0),
            ("Please try again in 6ms.", 0.006),
            ("Retry in 1s, or retry after 3s", 3.0),
        ];
        for (text, seconds) in rows {
            let found = spoken(text, None);
            assert!(
                found.is_some_and(|f| (f - seconds).abs() < 1e-9 * seconds.max(1.0)),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn other_numbers_are_no_wait() {
        for text in [
            "Limit 6000, Requested 6294",
            "please wait and try again later",
            "Rate limit of 50 per 86400s exceeded",
            "Your quota will reset after 0s.",
            "try again in 3 requests",
            "retry after that",
            "wait 5",
        ] {
            assert_eq!(spoken(text, None), None, "{text}");
        }
    }

    #[test]
    fn a_date_in_the_text_is_a_wait_when_the_time_is_known() {
        let text = "You will regain access on 2026-12-01 at 00:00 UTC.";
        let before = rfc3339("2026-11-30T23:00:00Z");
        assert_eq!(spoken(text, before), Some(3600.0));
        assert_eq!(spoken(text, None), None);
    }

    #[test]
    fn a_delay_inside_quoted_text_is_found_whatever_the_quotes() {
        for text in [
            r#"b'{"retryDelay": "44s"}'"#,
            r#"{\"retryDelay\": \"44s\"}"#,
            r#"{\\\"retryDelay\\\":\\\"44s\\\"}"#,
            "{'retryDelay': '44s'}",
        ] {
            assert_eq!(embedded_delay(text), Some(44.0), "{text}");
        }
        assert_eq!(embedded_delay(r#""retryDelay": "-5s""#), None);
    }
}
