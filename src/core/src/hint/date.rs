//! Points in time as servers write them: the three dates of RFC 9110 5.6.7, and RFC 3339.
//!
//! The arithmetic is ours because it is a screen long and a date library is not.

/// One of the three HTTP dates to seconds since the epoch. `now` settles the century of a two-digit year: one
/// that would lie more than 50 years ahead is the most recent past year with the same digits.
pub fn http_date(text: &str, now: Option<f64>) -> Option<f64> {
    let text = text.trim();
    if let Some((weekday, rest)) = text.split_once(',') {
        let mut parts = rest.split_ascii_whitespace();
        let first = parts.next()?;
        let (day, month, year) = if first.contains('-') {
            // Wednesday, 21-Oct-15 07:28:00 GMT
            let mut fields = first.split('-');
            let (day, month, year) = (fields.next()?, fields.next()?, fields.next()?);
            if fields.next().is_some() || year.len() != 2 || weekday.len() < 6 {
                return None;
            }
            (day, month, full_year(number(year, 2)?, now))
        } else {
            // Wed, 21 Oct 2015 07:28:00 GMT
            let (month, year) = (parts.next()?, parts.next()?);
            (first, month, number(year, 4).filter(|_| year.len() == 4)?)
        };
        let time = parts.next()?;
        if !matches!(parts.next(), Some("GMT" | "UTC")) || parts.next().is_some() || !is_weekday(weekday) {
            return None;
        }
        return seconds(year, month_number(month)?, number(day, 2)?, clock_time(time)?);
    }
    // Wed Oct 21 07:28:00 2015
    let mut parts = text.split_ascii_whitespace();
    let (weekday, month, day, time, year) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !is_weekday(weekday) || year.len() != 4 {
        return None;
    }
    seconds(number(year, 4)?, month_number(month)?, number(day, 2)?, clock_time(time)?)
}

/// `2026-09-11T06:27:29Z`, with a fraction or an offset, to seconds since the epoch.
pub fn rfc3339(text: &str) -> Option<f64> {
    let text = text.trim();
    if !text.is_ascii() || text.len() < 20 {
        return None;
    }
    let (date, rest) = text.split_at(10);
    let mut fields = date.split('-');
    let (year, month, day) =
        (number(fields.next()?, 4)?, number(fields.next()?, 2)?, number(fields.next()?, 2)?);
    if !rest.starts_with(['T', 't', ' ']) {
        return None;
    }
    let (time, rest) = rest[1..].split_at(8);
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let fraction = match fraction.strip_prefix('.') {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            format!("0.{digits}").parse::<f64>().ok()?
        }
        None if fraction.is_empty() => 0.0,
        _ => return None,
    };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let size = number(hours, 2)? * 3600 + number(minutes, 2)? * 60;
            if zone.starts_with('-') { -size } else { size }
        }
    };
    Some(seconds(year, month, day, clock_time(time)?)? - offset as f64 + fraction)
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar (Howard Hinnant's `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn seconds(year: i64, month: i64, day: i64, time: i64) -> Option<f64> {
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day);
    in_range.then(|| (days(year, month, day) * 86_400 + time) as f64)
}

fn full_year(two_digits: i64, now: Option<f64>) -> i64 {
    // Seconds per mean year; only the year is asked for, and half a day at New Year does not matter here.
    let this_year =
        now.filter(|now| now.abs() < 1e11).map_or(2026, |now| 1970 + (now / 31_556_952.0).floor() as i64);
    let candidate = this_year - this_year.rem_euclid(100) + two_digits;
    if candidate > this_year + 50 { candidate - 100 } else { candidate }
}

fn clock_time(text: &str) -> Option<i64> {
    let mut fields = text.split(':');
    let (h, m, s) = (number(fields.next()?, 2)?, number(fields.next()?, 2)?, number(fields.next()?, 2)?);
    (fields.next().is_none() && h < 24 && m < 60 && s <= 60).then_some(h * 3600 + m * 60 + s)
}

fn number(text: &str, most_digits: usize) -> Option<i64> {
    let fits = (1..=most_digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

fn month_number(name: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month)).map(|index| index as i64 + 1)
}

fn is_weekday(name: &str) -> bool {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    DAYS.iter().any(|day| name.eq_ignore_ascii_case(day) || name.eq_ignore_ascii_case(&day[..3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_http_dates_are_the_same_second() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(http_date(text, Some(1.0e9)), Some(784_111_777.0), "{text}");
        }
    }

    #[test]
    fn a_two_digit_year_more_than_fifty_years_ahead_is_past() {
        let in_2026 = Some(1_790_000_000.0);
        let year = |text: &str| http_date(text, in_2026).map(|s| 1970.0 + (s / 31_556_952.0).floor());
        assert_eq!(year("Monday, 15-Jun-76 00:00:00 GMT"), Some(2076.0));
        assert_eq!(year("Monday, 15-Jun-77 00:00:00 GMT"), Some(1977.0));
    }

    #[test]
    fn leap_days_and_ends_of_centuries_are_counted() {
        assert_eq!(rfc3339("2000-02-29T00:00:00Z"), Some(951_782_400.0));
        assert_eq!(rfc3339("2100-03-01T00:00:00Z"), Some(4_107_542_400.0));
        assert_eq!(rfc3339("1970-01-01T00:00:00Z"), Some(0.0));
    }

    #[test]
    fn offsets_and_fractions_are_read() {
        assert_eq!(rfc3339("2026-09-11T08:27:29.5+02:00"), rfc3339("2026-09-11T06:27:29.5Z"));
        assert_eq!(rfc3339("1970-01-01T00:00:00.250Z"), Some(0.25));
        assert_eq!(rfc3339("1970-01-01T00:00:00-01:00"), Some(3600.0));
    }

    #[test]
    fn other_dates_are_not_guessed_at() {
        for text in [
            "Jan 1 2030",
            "2030-01-01",
            "01/01/2030",
            "Wed, 21 Oct 2015 07:28:00",
            "Wed, 21 Oct 2015 25:00:00 GMT",
            "xyz, 21 Oct 2015 07:28:00 GMT",
        ] {
            assert_eq!(http_date(text, None), None, "{text}");
        }
        for text in [
            "2026-09-11",
            "2026-13-11T06:27:29Z",
            "2026-09-11T06:27:29",
            "2026-09-11T06:27:29+2",
            "äöü6-09-11T06:27:29Z",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
