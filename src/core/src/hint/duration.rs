//! Durations with units: Go's `1h2m3.5s`, protobuf's `53.5s`, and prose such as `1 hour and 5 minutes`.

use super::plain_number;

/// A duration that fills the whole text, as Go's `time.ParseDuration` and protobuf JSON write it.
pub fn go_duration(text: &str) -> Option<f64> {
    let text = text.trim().trim_matches('"');
    let (seconds, used) = leading_duration(text, false)?;
    (used == text.len()).then_some(seconds)
}

/// A duration at the start of the text, and how many bytes it took. `prose` allows blanks between number and
/// unit, long unit names, and "and" or commas between members. A number without a unit is no duration.
pub(super) fn leading_duration(text: &str, prose: bool) -> Option<(f64, usize)> {
    let mut total = 0.0;
    let mut used = 0;
    let mut last_unit = f64::INFINITY;
    while let Some((seconds, unit, length)) = member(&text[used..], prose, used > 0) {
        // Members come largest first: "5 minutes. 3 requests s" must not run on.
        if unit >= last_unit {
            break;
        }
        total += seconds;
        used += length;
        last_unit = unit;
    }
    (used > 0 && total > 0.0).then_some((total, used))
}

/// One number and its unit: seconds, the unit's size, and bytes taken.
fn member(text: &str, prose: bool, follows: bool) -> Option<(f64, f64, usize)> {
    let start = if prose && follows { skip_joint(text) } else { 0 };
    let rest = &text[start..];
    let number_length = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let number = plain_number(&rest[..number_length])?;
    let rest = &rest[number_length..];
    let blanks = if prose { rest.len() - rest.trim_start_matches([' ', '-']).len() } else { 0 };
    let rest = &rest[blanks..];
    let word_length = rest.char_indices().find(|(_, c)| !c.is_alphabetic()).map_or(rest.len(), |(at, _)| at);
    let unit = UNITS.iter().find(|unit| unit_matches(unit, &rest[..word_length], prose));
    let (unit_length, size) = match unit {
        Some((_, size)) => (word_length, *size),
        // Go writes members without a gap ("1h2m"), so a word always ends at a digit; nothing else is a unit.
        None => return None,
    };
    Some((number * size, size, start + number_length + blanks + unit_length))
}

fn skip_joint(text: &str) -> usize {
    let trimmed = text.trim_start_matches([' ', ',']);
    let trimmed = trimmed.strip_prefix("and ").unwrap_or(trimmed);
    text.len() - trimmed.len()
}

fn unit_matches((name, _): &(&str, f64), word: &str, prose: bool) -> bool {
    word.eq_ignore_ascii_case(name) && (prose || name.chars().count() <= 2)
}

/// Unit names and their seconds. Days and weeks stand for prose; Go has none, and no harm is done.
const UNITS: &[(&str, f64)] = &[
    ("s", 1.0),
    ("ms", 1e-3),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ns", 1e-9),
    ("sec", 1.0),
    ("secs", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("min", 60.0),
    ("mins", 60.0),
    ("minute", 60.0),
    ("minutes", 60.0),
    ("hr", 3600.0),
    ("hrs", 3600.0),
    ("hour", 3600.0),
    ("hours", 3600.0),
    ("day", 86_400.0),
    ("days", 86_400.0),
    ("week", 604_800.0),
    ("weeks", 604_800.0),
    ("month", 2_592_000.0),
    ("months", 2_592_000.0),
    ("millisecond", 1e-3),
    ("milliseconds", 1e-3),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-9 * expected.max(1.0))
    }

    #[test]
    fn go_durations_of_every_unit_are_read() {
        let rows = [
            ("12ms", 0.012),
            ("20.1s", 20.1),
            ("6m0s", 360.0),
            ("2m59.56s", 179.56),
            ("1h2m3.5s", 3723.5),
            ("373.801628ms", 0.373801628),
            ("10h17m5.723541104s", 37025.723541104),
            ("5us", 5e-6),
            ("7µs", 7e-6),
            ("9ns", 9e-9),
            ("1m0.5s", 60.5),
        ];
        for (text, seconds) in rows {
            assert!(close(go_duration(text), seconds), "{text}: {:?}", go_duration(text));
        }
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for text in ["", "5", "-5s", "0s", "s", "5x", "1e3s", "5s later", "5 s", "NaNs", "infs", "1s2h"] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn prose_joins_members_and_stops_at_what_is_no_duration() {
        let read = |text| leading_duration(text, true).map(|(seconds, _)| seconds);
        assert_eq!(read("1 hour and 5 minutes."), Some(3900.0));
        assert_eq!(read("2 hours, 3 min 4 sec"), Some(7384.0));
        assert_eq!(read("16 days."), Some(1_382_400.0));
        assert_eq!(read("37 seconds. 5 requests"), Some(37.0));
        assert_eq!(read("20 requests"), None);
    }
}
