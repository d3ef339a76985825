//! Rate-limit headers: which bucket is empty, and when it is filled again.
//!
//! Only the bucket that refused this request may speak: a 429 for requests also carries the reset of a token
//! bucket that is half full. A bucket is empty when its `remaining` is 0. Where no `remaining` was sent but the
//! error names the bucket's axis, its reset is a guess, good only where nothing else names a wait: such resets
//! tell when the bucket is full again, long after the next request fits. `remaining` -1 and `reset` 0 mean
//! "unknown" (seen at Azure).

use super::{
    Headers, Largest, Source, ascii, clock, delay_or_moment, go_duration, http_date, plain_number, rfc3339,
    until,
};

/// What the rate-limit headers say about this failure.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Buckets {
    /// When an empty bucket is filled by the day or a longer window.
    pub daily: bool,
    /// When an empty bucket is filled by the minute.
    pub by_minute: bool,
    /// The longest reset of buckets the error names but that are not proven empty.
    pub guess: Option<f64>,
}

/// One bucket, its name being what is left of the header's name: "requests", "tokens-minute", or "".
#[derive(Debug, Default)]
struct Bucket {
    name: String,
    remaining: Option<f64>,
    reset: Option<f64>,
}

/// Reads all buckets, keeps the waits of the empty ones. `names_axis` tells whether the error speaks of this
/// axis ("requests", "tokens").
pub fn buckets(
    headers: &Headers<'_>,
    now: Option<f64>,
    names_axis: impl Fn(&str) -> bool,
    into: &mut Largest,
) -> Buckets {
    let now = clock(headers, now);
    let mut found: Vec<Bucket> = Vec::new();
    let mut windows = Buckets::default();
    for (name, value) in headers {
        let (Some(value), Some(lower)) = (ascii(value), lower_name(name)) else { continue };
        if lower == "ratelimit" {
            draft_items(value, into);
        } else if lower == "x-ratelimit-type" {
            let kind = value.to_ascii_lowercase();
            windows.daily |= kind.contains("byday") || kind.contains("bymonth");
            windows.by_minute |= kind.contains("byminute");
        } else if let Some((bucket, field)) = split_name(&lower) {
            let at = found.iter().position(|held| held.name == bucket).unwrap_or_else(|| {
                found.push(Bucket { name: bucket, ..Bucket::default() });
                found.len() - 1
            });
            let held = &mut found[at];
            match field {
                Field::Remaining => held.remaining = plain_number(value).or(held.remaining).or(Some(-1.0)),
                Field::Reset => held.reset = larger(held.reset, reset(value, now)),
            }
        }
    }
    for bucket in &found {
        if bucket.remaining.is_none() && !bucket.name.is_empty() && names_axis(&bucket.name) {
            windows.guess = larger(windows.guess, bucket.reset);
        }
        let is_the_only_one = bucket.name.is_empty() && bucket.reset.is_some();
        if bucket.remaining.map_or(is_the_only_one, |left| left == 0.0) {
            into.observe(bucket.reset, Source::RateLimitReset);
            windows.daily |= bucket.name.contains("day") || bucket.name.contains("month");
            windows.by_minute |= bucket.name.contains("minute");
        }
    }
    windows
}

enum Field {
    Remaining,
    Reset,
}

/// `x-ratelimit-reset-tokens`, `anthropic-ratelimit-tokens-reset`, `x-rate-limit-reset` to bucket and field.
fn split_name(lower: &str) -> Option<(String, Field)> {
    let at =
        ["ratelimit-", "rate-limit-"].iter().find_map(|stem| lower.find(stem).map(|at| at + stem.len()))?;
    let rest = &lower[at..];
    for (word, field) in [("remaining", Field::Remaining), ("reset", Field::Reset)] {
        let bucket = if rest == word {
            Some("")
        } else {
            rest.strip_prefix(word)
                .and_then(|r| r.strip_prefix('-'))
                .or_else(|| rest.strip_suffix(word).and_then(|r| r.strip_suffix('-')))
        };
        if let Some(bucket) = bucket {
            // "reset-after" is a spelling of the reset, not a bucket.
            return Some((if bucket == "after" { String::new() } else { bucket.to_owned() }, field));
        }
    }
    None
}

fn lower_name(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    (lower.contains("ratelimit") || lower.contains("rate-limit")).then_some(lower)
}

/// A reset: seconds, a Go duration, seconds or milliseconds since the epoch, RFC 3339 or an HTTP date.
fn reset(value: &str, now: Option<f64>) -> Option<f64> {
    delay_or_moment(value, now)
        .or_else(|| go_duration(value))
        .or_else(|| until(rfc3339(value).or_else(|| http_date(value, now))?, now))
        .filter(|seconds| *seconds > 0.0)
}

/// The IETF draft: `"api";r=0;t=55`, several items apart by commas; or the older `remaining=0, reset=55`.
fn draft_items(value: &str, into: &mut Largest) {
    let (mut left, mut wait) = (None, None);
    for item in value.split(',') {
        let (mut item_left, mut item_wait) = (None, None);
        for part in item.split(';') {
            let Some((key, number)) = part.trim().split_once('=') else { continue };
            match key.trim() {
                "r" => item_left = plain_number(number.trim()),
                "t" => item_wait = plain_number(number.trim()),
                "remaining" => left = plain_number(number.trim()),
                "reset" => wait = plain_number(number.trim()),
                _ => {}
            }
        }
        if item_left == Some(0.0) {
            into.observe(item_wait, Source::RateLimitReset);
        }
    }
    if left == Some(0.0) {
        into.observe(wait, Source::RateLimitReset);
    }
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Option<f64> {
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let mut largest = Largest::default();
        let found = buckets(&headers, Some(1_549_179_280.0), |axis| axis == "requests", &mut largest);
        if !largest.is_some() {
            largest.observe(found.guess, Source::RateLimitReset);
        }
        largest.into_hint().map(|hint| hint.seconds)
    }

    #[test]
    fn only_the_empty_bucket_speaks() {
        let full = ("x-ratelimit-reset-tokens", "6m0s");
        assert_eq!(
            read(&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "20.1s"), full]),
            Some(20.1)
        );
        assert_eq!(read(&[("x-ratelimit-remaining-tokens", "5"), full]), None);
        assert_eq!(read(&[full]), None);
        assert_eq!(read(&[("x-ratelimit-reset-requests", "7m12s")]), Some(432.0));
    }

    #[test]
    fn azures_minus_one_and_zero_are_unknown() {
        assert_eq!(
            read(&[("x-ratelimit-remaining-requests", "-1"), ("x-ratelimit-reset-requests", "0")]),
            None
        );
        assert_eq!(
            read(&[("x-ratelimit-remaining-requests", "-1"), ("x-ratelimit-reset-requests", "9")]),
            None
        );
        assert_eq!(
            read(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "37")]),
            Some(37.0)
        );
    }

    #[test]
    fn every_form_of_reset_is_read() {
        assert_eq!(read(&[("X-Rate-Limit-Reset", "1549179300")]), Some(20.0));
        assert_eq!(
            read(&[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1549179300000")]),
            Some(20.0)
        );
        assert_eq!(
            read(&[
                ("x-ratelimit-remaining-tokens-minute", "0"),
                ("x-ratelimit-reset-tokens-minute", "26.5")
            ]),
            Some(26.5)
        );
        let anthropic = [
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2019-02-03T07:35:00Z"),
        ];
        assert_eq!(read(&anthropic), Some(20.0));
        assert_eq!(read(&[("ratelimit", "\"api\";r=0;t=55")]), Some(55.0));
        assert_eq!(read(&[("RateLimit", "\"api\";r=3;t=55, \"day\";r=0;t=70")]), Some(70.0));
        assert_eq!(read(&[("ratelimit", "limit=100, remaining=0, reset=50")]), Some(50.0));
        assert_eq!(read(&[("ratelimit-policy", "\"api\";q=500;w=300")]), None);
    }

    #[test]
    fn an_empty_daily_bucket_is_told_apart() {
        let mut largest = Largest::default();
        let headers: &Headers<'_> =
            &[("x-ratelimit-remaining-requests-day", b"0"), ("x-ratelimit-reset-requests-day", b"33011.4")];
        let windows = buckets(headers, None, |_| false, &mut largest);
        assert!(windows.daily && !windows.by_minute);
    }
}
