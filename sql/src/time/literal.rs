//! Times as people write them in SQL: `2015-09-12 12:00`, `2015-09-12`, RFC 3339, `now`, `today`.
//!
//! Sources: PostgreSQL, "Date/Time Input" (8.5.1) and appendix B.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};

use crate::error::{SqlError, SqlErrorKind};
use crate::time::zone::Zone;

/// The forms that an error names.
const ACCEPTED: &str = "accepted are 'YYYY-MM-DD', 'YYYY-MM-DD HH:MM[:SS[.fraction]]' and RFC 3339, each with \
                        or without a zone such as Z, +02:00 or Europe/Berlin, and 'now', 'today', 'yesterday', \
                        'tomorrow', 'epoch'";

/// A time as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Instant(DateTime<Utc>),
    Local(NaiveDateTime, Option<Zone>),
}

/// What words like `today` and times without a zone mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Without it the words that need it are no times.
    pub(crate) now_us: Option<i64>,
    pub(crate) zone: Zone,
}

impl Clock {
    fn now(self) -> Option<DateTime<Utc>> {
        self.now_us.and_then(DateTime::from_timestamp_micros)
    }
}

/// The instant that a text names, in microseconds since 1970.
///
/// # Errors
/// When the text is not a time, or outside what 64 bits of microseconds hold.
pub(crate) fn instant_us(text: &str, clock: Clock) -> Result<i64, SqlError> {
    let written = parse(text, clock).ok_or_else(|| invalid("timestamp with time zone", text))?;
    let instant = match written {
        Written::Instant(instant) => Some(instant),
        Written::Local(local, zone) => zone.unwrap_or(clock.zone).instant(local),
    };
    instant.map(|instant| instant.timestamp_micros()).ok_or_else(|| invalid("timestamp with time zone", text))
}

/// The wall-clock time that a text names, in microseconds since 1970; a zone in it is ignored, as in
/// PostgreSQL.
///
/// # Errors
/// When the text is not a time.
pub(crate) fn local_us(text: &str, clock: Clock) -> Result<i64, SqlError> {
    let local = match parse(text, clock) {
        Some(Written::Local(local, _)) => Some(local),
        Some(Written::Instant(instant)) => clock.zone.local(instant),
        None => None,
    };
    local.map(|local| local.and_utc().timestamp_micros()).ok_or_else(|| invalid("timestamp", text))
}

/// The day that a text names.
///
/// # Errors
/// When the text is not a time.
pub(crate) fn day(text: &str, clock: Clock) -> Result<NaiveDate, SqlError> {
    let micros = local_us(text, clock).map_err(|_| invalid("date", text))?;
    DateTime::from_timestamp_micros(micros).map(|time| time.date_naive()).ok_or_else(|| invalid("date", text))
}

fn invalid(what: &str, text: &str) -> SqlError {
    let shown: String = text.chars().take(100).collect();
    SqlError::new(SqlErrorKind::InvalidDatetime, format!("invalid input syntax for type {what}: \"{shown}\""))
        .with_hint(ACCEPTED)
}

fn parse(text: &str, clock: Clock) -> Option<Written> {
    let text = text.trim();
    if let Some(written) = parse_word(text, clock) {
        return Some(written);
    }
    let (date, rest) = parse_date(text)?;
    let rest = rest.strip_prefix(['T', 't']).unwrap_or(rest).trim_start();
    let (since_midnight, rest) = match parse_time(rest) {
        Some((time, rest)) => (time, rest),
        None => (TimeDelta::zero(), rest),
    };
    let zone = match rest.trim() {
        "" => None,
        zone => Some(Zone::parse(zone)?),
    };
    let local = date.and_time(NaiveTime::MIN).checked_add_signed(since_midnight)?;
    Some(Written::Local(local, zone))
}

fn parse_word(text: &str, clock: Clock) -> Option<Written> {
    let today = |days: i64| {
        let local = clock.zone.local(clock.now()?)?;
        let day = local.date().checked_add_signed(TimeDelta::days(days))?;
        Some(Written::Local(day.and_time(NaiveTime::MIN), None))
    };
    match text.to_ascii_lowercase().as_str() {
        "now" => clock.now().map(Written::Instant),
        "today" => today(0),
        "yesterday" => today(-1),
        "tomorrow" => today(1),
        "epoch" => Some(Written::Instant(DateTime::UNIX_EPOCH)),
        _ => None,
    }
}

/// `2015-09-12`, `2015/09/12`, `20150912`, and what follows.
fn parse_date(text: &str) -> Option<(NaiveDate, &str)> {
    let (year, rest) = digits(text)?;
    if let Some(separator) = rest.chars().next().filter(|first| matches!(first, '-' | '/')) {
        let (month, rest) = digits(&rest[1..])?;
        let (day, rest) = digits(rest.strip_prefix(separator)?)?;
        if !(4..=6).contains(&year.len()) || month.len() > 2 || day.len() > 2 {
            return None;
        }
        return Some((date(year, month, day)?, rest));
    }
    if year.len() != 8 {
        return None;
    }
    Some((date(&year[..4], &year[4..6], &year[6..])?, rest))
}

fn date(year: &str, month: &str, day: &str) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
}

/// `12:00`, `12:00:00.5`, `120000`, and what follows; the time since midnight, up to 24:00.
fn parse_time(text: &str) -> Option<(TimeDelta, &str)> {
    let (hour, rest) = digits(text)?;
    let (hour, minute, second, rest) = match rest.strip_prefix(':') {
        Some(rest) => {
            let (minute, rest) = digits(rest)?;
            match rest.strip_prefix(':') {
                Some(rest) => {
                    let (second, rest) = digits(rest)?;
                    (hour, minute, second, rest)
                }
                None => (hour, minute, "0", rest),
            }
        }
        None if hour.len() == 6 => (&hour[..2], &hour[2..4], &hour[4..], rest),
        None if hour.len() == 4 => (&hour[..2], &hour[2..], "0", rest),
        None => return None,
    };
    let (micros, rest) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => {
            let (fraction, rest) = digits(rest)?;
            (fraction_us(fraction), rest)
        }
        None => (0, rest),
    };
    let (hour, rest) = afternoon(two_digits(hour, 24)?, rest)?;
    let seconds = hour * 3600 + two_digits(minute, 59)? * 60 + two_digits(second, 60)?;
    let time = TimeDelta::microseconds(seconds * 1_000_000 + micros);
    (time <= TimeDelta::days(1)).then_some((time, rest))
}

/// `AM` and `PM` after an hour.
fn afternoon(hour: i64, rest: &str) -> Option<(i64, &str)> {
    let trimmed = rest.trim_start();
    let is = |word: &str| trimmed.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if !is("am") && !is("pm") {
        return Some((hour, rest));
    }
    if !(1..=12).contains(&hour) {
        return None;
    }
    Some((hour % 12 + if is("pm") { 12 } else { 0 }, &trimmed[2..]))
}

fn two_digits(text: &str, most: i64) -> Option<i64> {
    if text.len() > 2 {
        return None;
    }
    text.parse().ok().filter(|number| *number <= most)
}

/// The digits after the point as microseconds, rounded.
fn fraction_us(digits: &str) -> i64 {
    let mut padded: String = digits.chars().take(7).collect();
    while padded.len() < 7 {
        padded.push('0');
    }
    padded.parse::<i64>().map_or(0, |tenths| (tenths + 5) / 10)
}

fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 { None } else { Some(text.split_at(end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(zone: &str) -> Clock {
        // 2024-03-05 22:15:00 UTC
        Clock { now_us: Some(1_709_676_900_000_000), zone: Zone::parse(zone).unwrap() }
    }

    fn shown(text: &str, zone: &str) -> String {
        let micros = instant_us(text, clock(zone)).unwrap_or_else(|error| panic!("{text}: {error}"));
        DateTime::from_timestamp_micros(micros).unwrap().format("%Y-%m-%dT%H:%M:%S%.f").to_string()
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, expected) in [
            ("2015-09-12 12:00", "2015-09-12T12:00:00"),
            ("2015-09-12", "2015-09-12T00:00:00"),
            (" 2015-09-12T12:00:00Z ", "2015-09-12T12:00:00"),
            ("2015-09-12t12:00:00.5+02:00", "2015-09-12T10:00:00.500"),
            ("2015-09-12 12:00:00-0530", "2015-09-12T17:30:00"),
            ("2015-09-12 12:00 Europe/Berlin", "2015-09-12T10:00:00"),
            ("2015-09-12 12:00:00 UTC", "2015-09-12T12:00:00"),
            ("2015/9/2 3:04 PM", "2015-09-02T15:04:00"),
            ("20150912T120000Z", "2015-09-12T12:00:00"),
            ("2015-09-12 24:00", "2015-09-13T00:00:00"),
            ("2015-09-12 23:59:60", "2015-09-13T00:00:00"),
            ("2015-09-12 12:00:00.1234567", "2015-09-12T12:00:00.123457"),
            ("2015-09-12Z", "2015-09-12T00:00:00"),
            ("10000-01-01", "+10000-01-01T00:00:00"),
            ("epoch", "1970-01-01T00:00:00"),
            ("NOW", "2024-03-05T22:15:00"),
            ("yesterday", "2024-03-04T00:00:00"),
        ] {
            assert_eq!(shown(text, "UTC"), expected, "{text}");
        }
    }

    #[test]
    fn times_without_zone_are_in_the_session_zone() {
        assert_eq!(shown("2024-11-01 00:00:00", "Asia/Kolkata"), "2024-10-31T18:30:00");
        assert_eq!(shown("2024-11-01 00:00:00Z", "Asia/Kolkata"), "2024-11-01T00:00:00");
        assert_eq!(shown("today", "Asia/Kolkata"), "2024-03-05T18:30:00");
    }

    #[test]
    fn what_is_not_a_time_is_refused_with_the_accepted_forms() {
        for text in [
            "",
            "x",
            "2015",
            "2015-13-01",
            "2015-02-30",
            "2015-09-12 25:00",
            "2015-09-12 12:60",
            "12:00",
            "2015-09-12 12:00 Mars",
            "2015-09-12T",
            "2015-09-12 12:00:00.",
            "99999999999-01-01",
            "infinity",
            "2015-09-12 12:00:00+99:00",
            "２０１５-09-12",
        ] {
            match instant_us(text, clock("UTC")) {
                Ok(micros) => assert_eq!((text, micros), ("2015-09-12T", 1_442_016_000_000_000)),
                Err(error) => {
                    assert_eq!(error.kind, SqlErrorKind::InvalidDatetime, "{text}");
                    assert!(error.hint.unwrap().contains("YYYY-MM-DD"), "{text}");
                }
            }
        }
    }
}
