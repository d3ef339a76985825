//! Every spelling of "wait this long" to one `Hint`: seconds and where they were said.
//!
//! Decides which numbers are waits at all: zero, negative, past, NaN and garbled ones are no hint; digits too
//! many to hold are an endless one; a number that is plainly a point in time is read as one. Of several hints
//! about one failure the largest counts, because structured values are often rounded down and texts exact.
//! Which bodies are failures, and where in them a hint stands, is left to `classify`.

mod buckets;
mod date;
mod duration;
mod text;

pub use buckets::{Buckets, buckets};
pub use date::{http_date, rfc3339};
pub use duration::go_duration;
pub use text::{embedded_delay, spoken};

/// Header names and values in order, as an answer carries them.
pub type Headers<'a> = [(&'a str, &'a [u8])];

/// A wait the server asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// Seconds to wait, greater than zero. May be infinite: digits too many to hold.
    pub seconds: f64,
    /// Where it was said.
    pub source: Source,
}

/// Where a hint was said. `name()` is what users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// When the header `retry-after-ms` or `x-ms-retry-after-ms` says it, in milliseconds.
    RetryAfterMs,
    /// When the header `Retry-After` says it, in seconds or as a date.
    RetryAfter,
    /// When google.rpc.RetryInfo in the body says it.
    RetryInfo,
    /// When `quotaResetDelay` in the body says it.
    QuotaResetDelay,
    /// When a header tells when an exhausted bucket is filled again.
    RateLimitReset,
    /// When another field of the body says it, such as `estimated_time` or `resets_at`.
    BodyField,
    /// When only the message's text says it.
    Message,
    /// When the caller, or a library it uses, says it.
    Told,
}

impl Source {
    /// The source as users read it, for example `"Retry-After"`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetryAfterMs => "retry-after-ms",
            Self::RetryAfter => "Retry-After",
            Self::RetryInfo => "RetryInfo",
            Self::QuotaResetDelay => "quotaResetDelay",
            Self::RateLimitReset => "rate-limit reset header",
            Self::BodyField => "body field",
            Self::Message => "message text",
            Self::Told => "told",
        }
    }

    /// The source of that name; `Told` for a name that is none of ours.
    pub fn from_name(name: &str) -> Self {
        use Source::{
            BodyField, Message, QuotaResetDelay, RateLimitReset, RetryAfter, RetryAfterMs, RetryInfo,
        };
        let known =
            [RetryAfterMs, RetryAfter, RetryInfo, QuotaResetDelay, RateLimitReset, BodyField, Message];
        known.into_iter().find(|source| source.name() == name).unwrap_or(Self::Told)
    }
}

/// The largest hint met so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Largest(Option<Hint>);

impl Largest {
    /// Takes a wait in seconds; what is no wait is ignored, and the first of equals stays.
    pub fn observe(&mut self, seconds: Option<f64>, source: Source) {
        let Some(seconds) = seconds.filter(|s| *s > 0.0) else { return };
        if self.0.as_ref().is_none_or(|held| seconds > held.seconds) {
            self.0 = Some(Hint { seconds, source });
        }
    }

    /// The largest hint, if there was any.
    pub fn into_hint(self) -> Option<Hint> {
        self.0
    }

    /// Whether a hint was met.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// What the headers that name a wait outright say. `now` is the client's clock; the answer's own `Date` goes
/// before it, because the two clocks may differ.
pub fn from_headers(headers: &Headers<'_>, now: Option<f64>, into: &mut Largest) {
    for (name, value) in headers {
        let Some(value) = ascii(value) else { continue };
        if name.eq_ignore_ascii_case("retry-after-ms") || name.eq_ignore_ascii_case("x-ms-retry-after-ms") {
            for part in value.split(',') {
                into.observe(milliseconds(part.trim()), Source::RetryAfterMs);
            }
        } else if name.eq_ignore_ascii_case("retry-after") {
            into.observe(retry_after(value, now), Source::RetryAfter);
        }
    }
}

/// The clock to read points in time against: the answer's `Date`, else the client's.
pub fn clock(headers: &Headers<'_>, now: Option<f64>) -> Option<f64> {
    let date = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("date"));
    date.and_then(|(_, value)| http_date(ascii(value)?, now)).or(now)
}

/// One `Retry-After`: seconds, a date, a point in time as a number, or a list of these, whose largest counts.
pub fn retry_after(value: &str, now: Option<f64>) -> Option<f64> {
    if let Some(at) = http_date(value, now) {
        return until(at, now);
    }
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let mut largest = Largest::default();
    for (index, part) in parts.iter().enumerate() {
        largest.observe(delay_or_moment(part, now), Source::RetryAfter);
        // A date holds a comma of its own, so in a list it stands in two parts.
        if let Some(rest) = parts.get(index + 1) {
            let at = http_date(&format!("{part}, {rest}"), now);
            largest.observe(at.and_then(|at| until(at, now)), Source::RetryAfter);
        }
    }
    largest.into_hint().map(|hint| hint.seconds)
}

/// Seconds from `now` to a point in time; none when it is past or the clock is unknown.
pub fn until(at: f64, now: Option<f64>) -> Option<f64> {
    now.map(|now| at - now).filter(|wait| *wait > 0.0)
}

/// A plain number: seconds to wait, or, when that would be absurd, seconds or milliseconds since the epoch.
pub fn delay_or_moment(number: &str, now: Option<f64>) -> Option<f64> {
    delay_or_moment_of(plain_number(number)?, now)
}

/// The same for a number already read.
pub fn delay_or_moment_of(value: f64, now: Option<f64>) -> Option<f64> {
    if (1e9..1e11).contains(&value) {
        until(value, now)
    } else if (1e12..1e14).contains(&value) {
        until(value / 1000.0, now)
    } else if value >= 1e11 {
        Some(f64::INFINITY)
    } else {
        Some(value).filter(|v| *v > 0.0)
    }
}

/// ASCII digits with at most one dot between them: no sign, no exponent, no `inf`. Too many digits to hold
/// is infinity, as RFC 9111 1.2.2 asks for.
pub fn plain_number(text: &str) -> Option<f64> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let dots = text.bytes().filter(|b| *b == b'.').count();
    if digits == 0 || dots > 1 || digits + dots != text.len() {
        return None;
    }
    text.parse().ok()
}

fn milliseconds(text: &str) -> Option<f64> {
    plain_number(text).map(|ms| if ms >= 1e14 { f64::INFINITY } else { ms / 1000.0 })
}

fn ascii(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok().map(str::trim).filter(|text| text.is_ascii() && text.len() <= 4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(value: &str) -> Option<f64> {
        retry_after(value, Some(1_445_412_450.0)) // Wed, 21 Oct 2015 07:27:30 GMT
    }

    #[test]
    fn retry_after_reads_seconds_decimals_lists_and_dates() {
        assert_eq!(read("30"), Some(30.0));
        assert_eq!(read("2.5"), Some(2.5));
        assert_eq!(read("2814, 2"), Some(2814.0));
        assert_eq!(read("x, 7, -3"), Some(7.0));
        for date in
            ["Wed, 21 Oct 2015 07:28:00 GMT", "Wednesday, 21-Oct-15 07:28:00 GMT", "Wed Oct 21 07:28:00 2015"]
        {
            assert_eq!(read(date), Some(30.0), "{date}");
        }
        assert_eq!(read("5, Wed, 21 Oct 2015 07:28:00 GMT"), Some(30.0));
    }

    #[test]
    fn what_is_no_wait_is_no_hint() {
        for value in [
            "",
            "0",
            "0.0",
            "-1",
            "-5",
            "nan",
            "inf",
            "1e3",
            "+5",
            "soon",
            "Jan 1 2030",
            "1.2.3",
            ".",
            "0x10",
            "5 s",
        ] {
            assert_eq!(read(value), None, "{value}");
        }
        assert_eq!(read("Wed, 21 Oct 2015 07:27:00 GMT"), None);
        let mut largest = Largest::default();
        from_headers(&[("Retry-After", "²".as_bytes()), ("retry-after", b"\xff")], None, &mut largest);
        assert!(!largest.is_some());
    }

    #[test]
    fn digits_too_many_to_hold_are_an_endless_wait() {
        assert_eq!(read(&"9".repeat(500)), Some(f64::INFINITY));
    }

    #[test]
    fn a_number_that_is_plainly_a_point_in_time_is_read_as_one() {
        assert_eq!(read("1445412510"), Some(60.0));
        assert_eq!(read("1445412510000"), Some(60.0));
        assert_eq!(read("1445412400"), None);
        assert_eq!(retry_after("1445412510", None), None);
    }

    #[test]
    fn the_answers_own_date_goes_before_the_clients_clock() {
        let headers: &Headers<'_> = &[("date", b"Wed, 21 Oct 2015 07:27:30 GMT")];
        assert_eq!(clock(headers, Some(5.0)), Some(1_445_412_450.0));
        assert_eq!(clock(&[("date", b"yesterday")], Some(5.0)), Some(5.0));
    }

    #[test]
    fn an_empty_milliseconds_header_falls_through_to_retry_after() {
        let mut largest = Largest::default();
        from_headers(&[("retry-after-ms", b""), ("Retry-After", b"12")], None, &mut largest);
        assert_eq!(largest.into_hint(), Some(Hint { seconds: 12.0, source: Source::RetryAfter }));
    }

    #[test]
    fn the_largest_of_several_counts() {
        let mut largest = Largest::default();
        from_headers(
            &[("retry-after-ms", b"2000"), ("Retry-After", b"1"), ("x-ms-retry-after-ms", b"850")],
            None,
            &mut largest,
        );
        assert_eq!(largest.into_hint(), Some(Hint { seconds: 2.0, source: Source::RetryAfterMs }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_wait_of_zero_or_less(value in proptest::collection::vec(any::<u8>(), 0..60), now in any::<f64>()) {
            let mut largest = Largest::default();
            for name in ["retry-after", "retry-after-ms", "x-ms-retry-after-ms", "date"] {
                from_headers(&[(name, &value)], Some(now), &mut largest);
            }
            clock(&[("date", &value)], Some(now));
            prop_assert!(largest.into_hint().is_none_or(|hint| hint.seconds > 0.0));
        }

        #[test]
        fn no_text_makes_a_wait_of_zero_or_less(text in "(try again in |retry after |wait |Retry-After: )?[0-9.a-zµ ,:-]{0,40}") {
            for found in [spoken(&text, Some(1.7e9)), embedded_delay(&text), go_duration(&text), retry_after(&text, Some(1.7e9))] {
                prop_assert!(found.is_none_or(|seconds| seconds > 0.0));
            }
        }

        #[test]
        fn the_largest_number_of_a_list_counts(numbers in proptest::collection::vec(1u32..1_000_000, 1..6)) {
            let list = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            prop_assert_eq!(read(&list), numbers.iter().max().map(|n| f64::from(*n)));
        }
    }
}
