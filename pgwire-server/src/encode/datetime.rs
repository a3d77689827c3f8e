//! date, time, timestamp, timestamptz and interval: PostgreSQL's ranges and its ISO text form.
//!
//! Instants outside PostgreSQL's range print and travel as `infinity` and `-infinity`: one odd
//! record never fails a query.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use chrono::{NaiveDateTime, Offset, TimeZone as _};
use datafusion::arrow::datatypes::{IntervalMonthDayNano, TimeUnit};

/// Days from 1970-01-01 to 2000-01-01, the day that PostgreSQL counts from.
pub(crate) const UNIX_TO_POSTGRES_DAYS: i64 = 10_957;
const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;
/// 4714-11-24 BC, the first instant that PostgreSQL holds, in microseconds since 2000-01-01.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// 294277-01-01, the first instant after its range.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

/// Microseconds since 2000-01-01 00:00 UTC; `i64::MIN` and `i64::MAX` are the infinities, as on
/// the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PgTimestamp(i64);

impl PgTimestamp {
    pub(crate) fn from_unix(value: i64, unit: TimeUnit) -> Self {
        let micros = to_micros(value, unit) - i128::from(UNIX_TO_POSTGRES_DAYS * MICROS_PER_DAY);
        if micros < i128::from(TIMESTAMP_MIN) {
            Self(i64::MIN)
        } else if micros >= i128::from(TIMESTAMP_END) {
            Self(i64::MAX)
        } else {
            Self(i64::try_from(micros).expect("checked against PostgreSQL's range"))
        }
    }

    /// As it is sent in the binary format.
    pub(crate) fn wire(self) -> i64 {
        self.0
    }

    /// Microseconds since 1970 for a value that came in the binary format; None out of range.
    pub(crate) fn unix_micros(wire: i64) -> Option<i64> {
        (TIMESTAMP_MIN..TIMESTAMP_END)
            .contains(&wire)
            .then(|| wire.checked_add(UNIX_TO_POSTGRES_DAYS * MICROS_PER_DAY))
            .flatten()
    }

    /// Writes the wall-clock time, in `zone` with its offset or as it is without one.
    pub(crate) fn write_text(self, zone: Option<&TimeZone>, out: &mut BytesMut) {
        match self.0 {
            i64::MIN => return out.put_slice(b"-infinity"),
            i64::MAX => return out.put_slice(b"infinity"),
            _ => {}
        }
        let since_1970 = self.0.div_euclid(MICROS_PER_SECOND) + UNIX_TO_POSTGRES_DAYS * SECONDS_PER_DAY;
        let micros = self.0.rem_euclid(MICROS_PER_SECOND);
        let offset = zone.map(|zone| zone.offset_seconds(since_1970));
        let local = since_1970 + i64::from(offset.unwrap_or(0));
        let date = CivilDate::from_days(local.div_euclid(SECONDS_PER_DAY));
        date.write_year_month_day(out);
        out.put_u8(b' ');
        write_clock(local.rem_euclid(SECONDS_PER_DAY) * MICROS_PER_SECOND + micros, out);
        if let Some(offset) = offset {
            write_offset(offset, out);
        }
        date.write_era(out);
    }
}

fn to_micros(value: i64, unit: TimeUnit) -> i128 {
    let value = i128::from(value);
    match unit {
        TimeUnit::Second => value * 1_000_000,
        TimeUnit::Millisecond => value * 1_000,
        TimeUnit::Microsecond => value,
        TimeUnit::Nanosecond => value.div_euclid(1_000),
    }
}

/// The zone that a session shows instants in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimeZone {
    Named(chrono_tz::Tz),
    /// Seconds east of Greenwich.
    Fixed(i32),
}

impl TimeZone {
    pub(crate) fn utc() -> Self {
        Self::Named(chrono_tz::UTC)
    }

    /// A name of the tz database (in any case) or an offset such as `+05:30`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some(offset) = parse_offset(name) {
            return Some(Self::Fixed(offset));
        }
        name.parse()
            .ok()
            .or_else(|| {
                chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name)).copied()
            })
            .map(Self::Named)
    }

    fn offset_seconds(&self, unix_seconds: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => *seconds,
            Self::Named(zone) => {
                // Beyond chrono's 262,000 years no zone has rules of its own.
                let utc =
                    chrono::DateTime::from_timestamp(unix_seconds, 0).map(|instant| instant.naive_utc());
                utc.map_or(0, |utc: NaiveDateTime| {
                    zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()
                })
            }
        }
    }
}

/// `+HH`, `+HH:MM` or `+HHMM` in seconds east of Greenwich.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let digits: String = rest.chars().filter(|character| *character != ':').collect();
    if !matches!(digits.len(), 1 | 2 | 4) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = digits.split_at(digits.len().min(2));
    let hours: i32 = hours.parse().ok()?;
    let minutes: i32 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
    (hours <= 15 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// A day of the proleptic Gregorian calendar. Year 0 is 1 BC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CivilDate {
    year: i64,
    month: i64,
    day: i64,
}

impl CivilDate {
    /// Counts in eras of 400 years that begin on 1 March, where leap days come last.
    fn from_days(days_since_1970: i64) -> Self {
        const DAYS_PER_ERA: i64 = 146_097;
        const DAYS_TO_1970: i64 = 719_468;
        let days = days_since_1970.saturating_add(DAYS_TO_1970);
        let era = days.div_euclid(DAYS_PER_ERA);
        let day_of_era = days.rem_euclid(DAYS_PER_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }

    fn write_year_month_day(self, out: &mut BytesMut) {
        let year = if self.year > 0 { self.year } else { 1 - self.year };
        write!(out, "{year:04}-{:02}-{:02}", self.month, self.day).expect("a buffer takes any text");
    }

    fn write_era(self, out: &mut BytesMut) {
        if self.year <= 0 {
            out.put_slice(b" BC");
        }
    }
}

pub(crate) fn write_date(days_since_1970: i64, out: &mut BytesMut) {
    let date = CivilDate::from_days(days_since_1970);
    date.write_year_month_day(out);
    date.write_era(out);
}

pub(crate) fn write_time(micros: i64, out: &mut BytesMut) {
    write_clock(micros, out);
}

/// `HH:MM:SS` and the fraction without its trailing zeros; hours may exceed 24 in intervals.
fn write_clock(micros: i64, out: &mut BytesMut) {
    let seconds = micros / MICROS_PER_SECOND;
    let (hours, minutes, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{hours:02}:{minutes:02}:{second:02}").expect("a buffer takes any text");
    let fraction = micros % MICROS_PER_SECOND;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        out.put_u8(b'.');
        out.put_slice(digits.trim_end_matches('0').as_bytes());
    }
}

fn write_offset(seconds_east: i32, out: &mut BytesMut) {
    let sign = if seconds_east < 0 { '-' } else { '+' };
    let seconds = seconds_east.unsigned_abs();
    let (hours, minutes, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{sign}{hours:02}").expect("a buffer takes any text");
    if minutes != 0 || second != 0 {
        write!(out, ":{minutes:02}").expect("a buffer takes any text");
    }
    if second != 0 {
        write!(out, ":{second:02}").expect("a buffer takes any text");
    }
}

/// PostgreSQL's three parts of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) micros: i64,
}

impl Interval {
    pub(crate) fn from_arrow(value: IntervalMonthDayNano) -> Self {
        Self { months: value.months, days: value.days, micros: value.nanoseconds / 1_000 }
    }

    /// Whole days are days, as where PostgreSQL subtracts two times.
    pub(crate) fn from_duration(value: i64, unit: TimeUnit) -> Self {
        let micros = to_micros(value, unit);
        let days = (micros / i128::from(MICROS_PER_DAY)).clamp(i32::MIN.into(), i32::MAX.into());
        let rest = micros % i128::from(MICROS_PER_DAY);
        Self {
            months: 0,
            days: i32::try_from(days).expect("clamped"),
            micros: i64::try_from(rest).expect("less than a day"),
        }
    }

    /// The `postgres` interval style: `1 year 2 mons -3 days +04:05:06.5`.
    pub(crate) fn write_text(self, out: &mut BytesMut) {
        let mut parts = IntervalParts { is_first: true, is_before_negative: false };
        parts.write_part(self.months / 12, "year", out);
        parts.write_part(self.months % 12, "mon", out);
        parts.write_part(self.days, "day", out);
        if self.micros == 0 && !parts.is_first {
            return;
        }
        if !parts.is_first {
            out.put_u8(b' ');
        }
        if self.micros < 0 {
            out.put_u8(b'-');
        } else if parts.is_before_negative {
            out.put_u8(b'+');
        }
        // |i64::MIN| does not fit; the last microsecond of 292,000 years does not matter.
        write_clock(self.micros.checked_abs().unwrap_or(i64::MAX), out);
    }
}

struct IntervalParts {
    is_first: bool,
    /// A positive part that follows a negative one shows its sign.
    is_before_negative: bool,
}

impl IntervalParts {
    fn write_part(&mut self, value: i32, unit: &str, out: &mut BytesMut) {
        if value == 0 {
            return;
        }
        let separator = if self.is_first { "" } else { " " };
        let sign = if self.is_before_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        write!(out, "{separator}{sign}{value} {unit}{plural}").expect("a buffer takes any text");
        self.is_before_negative = value < 0;
        self.is_first = false;
    }
}
