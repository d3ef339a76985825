//! Which limit was hit: its window, whether it is zero, and whether the request alone is larger than it.
//!
//! These proofs go before every code and status. A daily quota may come with a wait of 20 s (Gemini, Groq), a
//! per-minute limit in billing words (Gemini), and a request larger than the limit as "try again in 50 s".

use super::facts::Facts;
use crate::failure::Reason;

/// How long the window of the limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// When it is a minute or less, so that a wait clears it whatever words go with it.
    Short,
    /// When it is a day or longer.
    Long,
}

/// Ways to say that a window is a day or longer.
const LONG: &[&str] = &[
    "per day",
    "perday",
    "per_day",
    "per-day",
    "/ day",
    "/day",
    "byday",
    "(rpd)",
    "(tpd)",
    "per 86400s",
    "per 24h",
    "per 24 hours",
    "daily limit",
    "daily quota",
    "daily request",
    "daily usage",
    "daily token",
    "daily free",
    "daily rate",
    "daily allocation",
    "daily cap",
    "_daily",
    "per week",
    "perweek",
    "per_week",
    "weekly limit",
    "weekly usage",
    "weekly quota",
    "weekly rate",
    "per month",
    "permonth",
    "per_month",
    "/ month",
    "/month",
    "monthly limit",
    "monthly usage",
    "monthly quota",
    "monthly request",
    "monthly token",
    "monthly cap",
    "monthly allocation",
    "bymonth",
    "this month",
    "next month",
    "per year",
    "billing cycle",
    "session usage limit",
];

/// Ways to say that a window is a minute or less.
const SHORT: &[&str] = &[
    "per min",
    "perminute",
    "per_minute",
    "per-min",
    "/ min",
    "/min",
    "byminute",
    "(rpm)",
    "(tpm)",
    "per second",
    "persecond",
    "per_second",
    "per-second",
    "/ sec",
    "/sec",
    "bysecond",
    "per 60s",
    "per 10s",
    "per 1s",
    "(rps)",
    "free-models-per-min",
];

/// Words without which a text does not speak about a limit at all.
const ABOUT_LIMITS: &[&str] =
    &["limit", "quota", "exceed", "exhaust", "too many", "reached", "used up", "allocation", "throttl"];

/// The same inside codes, which are written without blanks: `tokens_per_day_exceeded`.
const LONG_CODES: &[&str] = &["perday", "daily", "weekly", "monthly", "permonth"];
const SHORT_CODES: &[&str] = &["perminute", "persecond"];

/// What the named quotas, the headers or, last, the text say about the window.
pub(super) fn window(facts: &Facts) -> Option<Window> {
    let first = |text: &str, ways: &[&str]| ways.iter().filter_map(|way| text.find(way)).min();
    let coded = |ways: &[&str]| facts.words.iter().any(|word| ways.iter().any(|way| word.contains(way)));
    if first(&facts.limits, LONG).is_some() || facts.buckets.daily || coded(LONG_CODES) {
        return Some(Window::Long);
    }
    if first(&facts.limits, SHORT).is_some() || coded(SHORT_CODES) {
        return Some(Window::Short);
    }
    if !ABOUT_LIMITS.iter().any(|word| facts.text.contains(word)) {
        return facts.buckets.by_minute.then_some(Window::Short);
    }
    // "You are limited to 40 calls / minute; upgrade for 1000 per day": what was hit is named first.
    match (first(&facts.text, LONG), first(&facts.text, SHORT)) {
        (Some(long), Some(short)) if short < long => Some(Window::Short),
        (Some(_), _) => Some(Window::Long),
        (None, Some(_)) => Some(Window::Short),
        (None, None) => facts.buckets.by_minute.then_some(Window::Short),
    }
}

/// What no wait can clear, whatever status and codes say.
pub(super) fn proof(facts: &Facts, window: Option<Window>) -> Option<Reason> {
    if facts.zero_limit || says_zero(&facts.text) {
        return Some(Reason::ZeroLimit);
    }
    if requested_above_limit(&facts.text) {
        return Some(Reason::RequestTooLarge);
    }
    (window == Some(Window::Long)).then_some(Reason::QuotaSpent)
}

/// "limit: 0", but not "limit: 0.5" or "limit: 05", and not "remaining limit: 0", which only waits.
fn says_zero(text: &str) -> bool {
    ["limit: 0", "limit 0,", "limit 0 ", "limit of 0 ", "limit_value: 0", "limit is 0"].iter().any(|way| {
        text.match_indices(way).any(|(at, _)| {
            if text[..at].ends_with("remaining ") {
                return false;
            }
            let rest = &text[at + way.len()..];
            let mut next = rest.chars();
            match (next.next(), next.next()) {
                (Some('.'), Some(c)) => !c.is_ascii_digit(),
                (Some(c), _) => !c.is_ascii_digit(),
                (None, _) => true,
            }
        })
    })
}

/// "Limit 6000, Requested 6294". "Limit L, Used U, Requested R" with R within L is an ordinary wait.
fn requested_above_limit(text: &str) -> bool {
    text.match_indices("limit").any(|(at, word)| {
        let rest = &text[at + word.len()..];
        let Some(limit) = count(rest) else { return false };
        let near = rest.char_indices().nth(120).map_or(rest, |(end, _)| &rest[..end]);
        let requested = near.find("requested").and_then(|at| count(&near[at + "requested".len()..]));
        requested.is_some_and(|requested| requested > limit)
    })
}

/// The number right behind a word: "limit: 8000", "requested ~12,903".
fn count(text: &str) -> Option<f64> {
    let rest = text.trim_start_matches([':', ' ', '~', '=']);
    if text.len() == rest.len() {
        return None;
    }
    let mut digits = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '0'..='9' => digits.push(c),
            ',' | '_' if chars.peek().is_some_and(char::is_ascii_digit) => {}
            _ => break,
        }
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> (Option<Window>, Option<Reason>) {
        let mut facts = Facts::default();
        facts.text = text.to_ascii_lowercase();
        let window = window(&facts);
        (window, proof(&facts, window))
    }

    #[test]
    fn a_request_larger_than_the_limit_is_proven_by_the_numbers() {
        for text in [
            "(TPM): Limit 6000, Requested 6294, please",
            "Limit 7000, Used 0, Requested ~12903.",
            "Limit: 30,000, Requested: 342,389",
        ] {
            assert_eq!(judged(text).1, Some(Reason::RequestTooLarge), "{text}");
        }
        for text in [
            "(TPM): Limit 10000, Used 8554, Requested 3082.",
            "Limit 3, Used 3, Requested 1.",
            "limit reached. requested 5",
        ] {
            assert_eq!(judged(text).1, None, "{text}");
        }
    }

    #[test]
    fn a_limit_of_zero_is_not_a_limit_that_starts_with_zero() {
        assert_eq!(judged("Quota exceeded for metric: m, limit: 0, model: x").1, Some(Reason::ZeroLimit));
        assert_eq!(judged("limit: 0\nPlease retry").1, Some(Reason::ZeroLimit));
        assert_eq!(judged("limit: 0.5").1, None);
        assert_eq!(judged("Rate limit reached. Remaining limit: 0").1, None);
        assert_eq!(judged("limit: 4000000").1, None);
    }

    #[test]
    fn the_window_named_first_is_the_one_that_was_hit() {
        assert_eq!(
            judged("limited to 40 API calls / minute. Upgrade for 1000 per day").0,
            Some(Window::Short)
        );
        assert_eq!(judged("Too many tokens per day, please wait").0, Some(Window::Long));
        assert_eq!(judged("Open every day. See per day prices.").0, None);
    }

    #[test]
    fn a_code_may_name_the_window() {
        let mut facts = Facts::default();
        facts.word("Tokens_Per_Day_Exceeded", 1);
        assert_eq!(window(&facts), Some(Window::Long));
    }

    #[test]
    fn a_named_daily_quota_beats_a_named_minute_quota() {
        let mut facts = Facts::default();
        facts.limits = "requestsperminute\nrequestsperday\n".into();
        assert_eq!(window(&facts), Some(Window::Long));
    }
}
