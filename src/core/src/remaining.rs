//! What an answer's headers say is left: requests and tokens, for lowering our own buckets.
//!
//! One row for each provider that sends such headers. Their windows differ - Groq counts requests by the day and
//! tokens by the minute, Cerebras names the window, Cohere counts a trial month - and none is told reliably enough to
//! refill a bucket by. But no window can have less left than it says: the least counts, and it only ever lowers.
//! Resets are deliberately not read here: they tell when a bucket is full again, long after the next request fits;
//! what a refusal asks for is a hint.

use crate::classify::Dialect;
use crate::hint::{Headers, go_duration};

/// What is left; `None` when nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remaining {
    /// Requests.
    pub requests: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
}

enum Axis {
    Requests,
    Tokens,
}

/// Reads every header of the provider's row. -1 is unknown everywhere, and 0 at Azure, which sends it with answers
/// that were never limited.
pub fn remaining(headers: &Headers<'_>, dialect: Dialect) -> Remaining {
    let mut found = Remaining::default();
    for (name, value) in headers {
        let Some(axis) = axis(name, dialect) else { continue };
        let text = std::str::from_utf8(value).unwrap_or_default().trim();
        let Ok(left) = text.parse::<u64>() else { continue };
        if left == 0 && dialect == Dialect::Azure {
            continue;
        }
        let held = match axis {
            Axis::Requests => &mut found.requests,
            Axis::Tokens => &mut found.tokens,
        };
        *held = Some(held.map_or(left, |least| least.min(left)));
    }
    found
}

fn axis(name: &str, dialect: Dialect) -> Option<Axis> {
    if !name.get(..12).is_some_and(|start| {
        start.eq_ignore_ascii_case("x-ratelimit-")
            || start.eq_ignore_ascii_case("x-trial-endp")
            || start.eq_ignore_ascii_case("anthropic-ra")
    }) {
        return None;
    }
    match (dialect, name.to_ascii_lowercase().as_str()) {
        // The most restrictive of the limits in force, says Anthropic; input and output apart are not our axis.
        (Dialect::Anthropic, "anthropic-ratelimit-requests-remaining") => Some(Axis::Requests),
        (Dialect::Anthropic, "anthropic-ratelimit-tokens-remaining") => Some(Axis::Tokens),
        (Dialect::Anthropic, _) => None,
        // By the day.
        (Dialect::Groq, "x-ratelimit-remaining-requests") => Some(Axis::Requests),
        (_, "x-ratelimit-remaining-requests-day") => Some(Axis::Requests),
        (_, "x-ratelimit-remaining-tokens-day") => Some(Axis::Tokens),
        // By the month of a trial.
        (Dialect::Cohere, "x-trial-endpoint-call-remaining") => Some(Axis::Requests),
        // By the minute: OpenAI, Azure, Mistral and those who speak like OpenAI.
        (_, "x-ratelimit-remaining-requests" | "x-ratelimit-remaining-requests-minute") => {
            Some(Axis::Requests)
        }
        (_, "x-ratelimit-remaining-tokens" | "x-ratelimit-remaining-tokens-minute") => Some(Axis::Tokens),
        (_, "x-ratelimit-remaining-project-tokens") => Some(Axis::Tokens),
        // By a window of their own, but always requests.
        (Dialect::OpenRouter | Dialect::Moonshot | Dialect::Mistral, "x-ratelimit-remaining") => {
            Some(Axis::Requests)
        }
        _ => None,
    }
}

/// What the headers say may be asked for in a minute, for a client that was told no limits of its own.
///
/// Where a reset tells that what was used comes back more slowly than within minutes, the limit is one of a day and
/// says nothing about a minute.
pub fn limits(headers: &Headers<'_>, dialect: Dialect) -> Remaining {
    // Most servers tell of none.
    if !headers
        .iter()
        .any(|(name, _)| name.contains("limit") || name.contains("LIMIT") || name.contains("Limit"))
    {
        return Remaining::default();
    }
    let of = |axis: &str| {
        let [ours, theirs] = if dialect == Dialect::Anthropic {
            [format!("anthropic-ratelimit-{axis}-limit"), String::new()]
        } else {
            [format!("x-ratelimit-limit-{axis}"), format!("x-ratelimit-limit-{axis}-minute")]
        };
        let by_the_day = dialect == Dialect::Groq && axis == "requests";
        let limit = whole(headers, &ours).or_else(|| whole(headers, &theirs)).filter(|limit| *limit > 0)?;
        let left = whole(headers, &format!("x-ratelimit-remaining-{axis}")).unwrap_or(limit);
        let used = limit.saturating_sub(left);
        let reset = text(headers, &format!("x-ratelimit-reset-{axis}")).and_then(go_duration);
        let window = reset.map_or(60.0, |reset| reset * limit as f64 / used.max(1) as f64);
        (!by_the_day && window <= LONGEST_MINUTE).then_some(limit)
    };
    Remaining { requests: of("requests"), tokens: of("tokens") }
}

/// Resets are rounded, and requests of others run beside ours.
const LONGEST_MINUTE: f64 = 600.0;

fn text<'a>(headers: &Headers<'a>, wanted: &str) -> Option<&'a str> {
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
    std::str::from_utf8(value).ok().map(str::trim)
}

fn whole(headers: &Headers<'_>, wanted: &str) -> Option<u64> {
    text(headers, wanted)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(dialect: Dialect, headers: &[(&str, &str)]) -> [Option<u64>; 2] {
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let found = limits(&headers, dialect);
        [found.requests, found.tokens]
    }

    #[test]
    fn limits_of_a_minute_are_learned_and_those_of_a_day_are_not() {
        let openai = [
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", "499"),
            ("x-ratelimit-reset-requests", "120ms"),
            ("x-ratelimit-limit-tokens", "30000"),
        ];
        assert_eq!(learn(Dialect::OpenAi, &openai), [Some(500), Some(30_000)]);
        let by_the_day = [
            ("x-ratelimit-limit-requests", "200"),
            ("x-ratelimit-remaining-requests", "199"),
            ("x-ratelimit-reset-requests", "7m12s"),
        ];
        assert_eq!(learn(Dialect::OpenAi, &by_the_day), [None, None]);
        let groq = [("x-ratelimit-limit-requests", "14400"), ("x-ratelimit-limit-tokens", "6000")];
        assert_eq!(learn(Dialect::Groq, &groq), [None, Some(6_000)]);
        let cerebras = [("x-ratelimit-limit-requests-day", "900"), ("x-ratelimit-limit-tokens-minute", "60")];
        assert_eq!(learn(Dialect::Cerebras, &cerebras), [None, Some(60)]);
        let anthropic =
            [("anthropic-ratelimit-requests-limit", "50"), ("anthropic-ratelimit-tokens-limit", "0")];
        assert_eq!(learn(Dialect::Anthropic, &anthropic), [Some(50), None]);
    }

    fn read(dialect: Dialect, headers: &[(&str, &str)]) -> [Option<u64>; 2] {
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let found = remaining(&headers, dialect);
        [found.requests, found.tokens]
    }

    #[test]
    fn the_least_of_all_windows_counts() {
        let cerebras = [
            ("X-RateLimit-Remaining-Tokens-Minute", "9000"),
            ("x-ratelimit-remaining-tokens-day", "700"),
            ("x-ratelimit-remaining-requests-day", "14"),
        ];
        assert_eq!(read(Dialect::Generic, &cerebras), [Some(14), Some(700)]);
        let groq = [("x-ratelimit-remaining-requests", "14370"), ("x-ratelimit-remaining-tokens", "0")];
        assert_eq!(read(Dialect::Groq, &groq), [Some(14_370), Some(0)]);
    }

    #[test]
    fn azures_minus_one_and_zero_are_unknown() {
        let left = |value| read(Dialect::Azure, &[("x-ratelimit-remaining-tokens", value)]);
        assert_eq!([left("-1"), left("0"), left("8")], [[None, None], [None, None], [None, Some(8)]]);
    }

    #[test]
    fn anthropics_tokens_are_read_and_their_parts_are_not() {
        let headers = [
            ("anthropic-ratelimit-input-tokens-remaining", "10"),
            ("anthropic-ratelimit-tokens-remaining", "50"),
            ("anthropic-ratelimit-requests-remaining", "4"),
        ];
        assert_eq!(read(Dialect::Anthropic, &headers), [Some(4), Some(50)]);
    }

    #[test]
    fn what_nobody_can_read_is_unknown() {
        for value in ["", "many", "1.5", "99999999999999999999999999"] {
            assert_eq!(read(Dialect::OpenAi, &[("x-ratelimit-remaining-tokens", value)]), [None, None]);
        }
        assert_eq!(
            read(Dialect::Generic, &[("x-ratelimit-remaining", "3"), ("é-ratelimit-ab", "1")]),
            [None; 2]
        );
    }
}
