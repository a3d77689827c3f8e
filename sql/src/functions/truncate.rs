//! `date_trunc`: the beginning of the unit that a time lies in.
//!
//! Invariant, as in PostgreSQL: days and longer units begin on the clock of the zone; within a day the
//! time keeps its own distance from UTC, so that the hour that a clock shows twice stays two hours.
//! Times keep the precision that they come in: one that only fits milliseconds is cut like any other.
//!
//! Source: `timestamptz_trunc_internal` in PostgreSQL's timestamp.c.

use chrono::{Datelike, Days, NaiveDate, NaiveTime};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::TimeUnit;
use datafusion::common::exec_err;
use datafusion::error::Result;

use super::DATE_TRUNC;
use super::scalar::{Inputs, Scalar};
use super::time::{Times, Zones, date_time, number, per_second, time_type, times};
use crate::time::zone::Zone;

pub(super) fn functions() -> Vec<Scalar> {
    vec![Scalar::new(DATE_TRUNC, (3, 3), |types| time_type(&types[1]), date_trunc)]
}

const DAY_SECONDS: i64 = 86_400;

/// What a time is cut to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// A part of a second, by how many there are in one.
    Fraction(i64),
    /// Up to a day, in seconds.
    Clock(i64),
    Date(DateUnit),
}

/// Units that are counted in days of the calendar.
#[derive(Debug, Clone, Copy, PartialEq)]
enum DateUnit {
    Week,
    Month,
    Quarter,
    /// So many years, of which the first is the one with this number.
    Years {
        count: i32,
        first: i32,
    },
}

impl Unit {
    fn parse(text: &str) -> Result<Self> {
        let text = text.to_ascii_lowercase();
        let years = |count, first| Self::Date(DateUnit::Years { count, first });
        Ok(match text.strip_suffix('s').unwrap_or(&text) {
            "microsecond" => Self::Fraction(1_000_000),
            "millisecond" => Self::Fraction(1_000),
            "second" => Self::Clock(1),
            "minute" => Self::Clock(60),
            "hour" => Self::Clock(3_600),
            "day" => Self::Clock(DAY_SECONDS),
            "week" => Self::Date(DateUnit::Week),
            "month" => Self::Date(DateUnit::Month),
            "quarter" => Self::Date(DateUnit::Quarter),
            "year" => years(1, 0),
            "decade" => years(10, 0),
            "century" | "centurie" => years(100, 1),
            "millennium" | "millennia" => years(1_000, 1),
            other => return exec_err!("unit \"{other}\" not recognized for date_trunc"),
        })
    }
}

/// The last unit is kept, because it rarely changes between rows.
struct Units {
    last: Option<(String, Unit)>,
}

impl Units {
    fn get(&mut self, text: &str) -> Result<Unit> {
        match &self.last {
            Some((last, unit)) if last == text => Ok(*unit),
            _ => {
                let unit = Unit::parse(text)?;
                self.last = Some((text.to_owned(), unit));
                Ok(unit)
            }
        }
    }
}

fn date_trunc(inputs: &Inputs) -> Result<ArrayRef> {
    let texts = inputs.texts(0)?;
    let source = Times::of(inputs, 1)?;
    let mut zones = Zones::of(inputs, 2)?;
    let mut units = Units { last: None };
    let data_type = time_type(inputs.array(1)?.data_type())?;
    let values = inputs.rows().map(|row| {
        let (Some(text), Some(value)) = (texts.get(row), source.values.get(row)) else { return Ok(None) };
        let Some(zone) = zones.get(row)? else { return Ok(None) };
        let zone = if source.is_instant { zone } else { Zone::UTC };
        // As everywhere, one record with a time that no calendar holds fails no query.
        Ok(truncate(value, source.unit, units.get(text)?, zone))
    });
    times(values, &data_type)
}

/// `None` for what no calendar holds.
fn truncate(value: i64, precision: TimeUnit, unit: Unit, zone: Zone) -> Option<i64> {
    match unit {
        Unit::Fraction(parts) if per_second(precision) <= parts => Some(value),
        Unit::Fraction(parts) => cut(value, per_second(precision) / parts, 0),
        Unit::Clock(seconds) => {
            let width = seconds.checked_mul(per_second(precision))?;
            if zone.is_utc() {
                return cut(value, width, 0);
            }
            let time = date_time(value, precision)?;
            if seconds == DAY_SECONDS {
                return begin_of(zone.local(time)?.date(), precision, zone);
            }
            let offset = i64::from(zone.offset_at(time).local_minus_utc());
            cut(value, width, offset.checked_mul(per_second(precision))?)
        }
        Unit::Date(unit) => {
            let day = zone.local(date_time(value, precision)?)?.date();
            begin_of(first_day(day, unit)?, precision, zone)
        }
    }
}

/// The multiple of a width at or before a value, counted from a zero that lies so much earlier.
fn cut(value: i64, width: i64, earlier: i64) -> Option<i64> {
    let shifted = i128::from(value) + i128::from(earlier);
    let begin = shifted - shifted.rem_euclid(i128::from(width)) - i128::from(earlier);
    i64::try_from(begin).ok()
}

fn begin_of(day: NaiveDate, precision: TimeUnit, zone: Zone) -> Option<i64> {
    number(zone.instant(day.and_time(NaiveTime::MIN))?, precision)
}

fn first_day(date: NaiveDate, unit: DateUnit) -> Option<NaiveDate> {
    match unit {
        DateUnit::Week => date.checked_sub_days(Days::new(u64::from(date.weekday().num_days_from_monday()))),
        DateUnit::Month => NaiveDate::from_ymd_opt(date.year(), date.month(), 1),
        DateUnit::Quarter => NaiveDate::from_ymd_opt(date.year(), (date.month() - 1) / 3 * 3 + 1, 1),
        DateUnit::Years { count, first } => {
            NaiveDate::from_ymd_opt((date.year() - first).div_euclid(count) * count + first, 1, 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_in(zone: &str, unit: &str, time: &str) -> String {
        let zone = Zone::parse(zone).unwrap();
        let micros = time.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros();
        let cut = truncate(micros, TimeUnit::Microsecond, Unit::parse(unit).unwrap(), zone).unwrap();
        chrono::DateTime::from_timestamp_micros(cut).unwrap().format("%Y-%m-%dT%H:%M:%S%.fZ").to_string()
    }

    #[test]
    fn within_a_day_a_time_keeps_its_offset() {
        for (zone, unit, time, expected) in [
            ("America/Denver", "second", "2010-11-07T07:00:00.5Z", "2010-11-07T07:00:00Z"),
            ("America/Denver", "hour", "2010-11-07T07:59:00Z", "2010-11-07T07:00:00Z"),
            ("America/Denver", "hour", "2010-11-07T08:59:00Z", "2010-11-07T08:00:00Z"),
            ("America/Denver", "millisecond", "2010-11-07T07:30:00.1239Z", "2010-11-07T07:30:00.123Z"),
            // Half an hour is put back: 01:30 to 01:59 exist twice.
            ("Australia/Lord_Howe", "hour", "2024-04-06T14:59:00Z", "2024-04-06T14:00:00Z"),
            ("Australia/Lord_Howe", "hour", "2024-04-06T15:10:00Z", "2024-04-06T14:30:00Z"),
            ("America/St_Johns", "hour", "2024-07-01T12:00:00Z", "2024-07-01T11:30:00Z"),
            ("America/St_Johns", "minute", "2024-07-01T12:00:59Z", "2024-07-01T12:00:00Z"),
        ] {
            assert_eq!(cut_in(zone, unit, time), expected, "{unit} in {zone} of {time}");
        }
    }

    #[test]
    fn days_and_more_begin_on_the_clock_of_the_zone() {
        for (zone, unit, time, expected) in [
            ("America/Denver", "day", "2010-11-08T06:59:00Z", "2010-11-07T06:00:00Z"),
            ("America/Denver", "week", "2010-11-08T08:00:00Z", "2010-11-08T07:00:00Z"),
            ("UTC", "quarter", "2010-11-08T08:00:00Z", "2010-10-01T00:00:00Z"),
            ("UTC", "century", "2000-11-08T08:00:00Z", "1901-01-01T00:00:00Z"),
            ("UTC", "Decades", "2009-11-08T08:00:00Z", "2000-01-01T00:00:00Z"),
        ] {
            assert_eq!(cut_in(zone, unit, time), expected, "{unit} in {zone} of {time}");
        }
        assert!(Unit::parse("eon").is_err());
    }

    #[test]
    fn times_outside_of_nanoseconds_are_cut_too() {
        for (unit, time, expected) in [
            ("hour", "9999-12-31T23:59:59Z", "9999-12-31T23:00:00Z"),
            ("month", "9999-12-31T23:59:59Z", "9999-12-01T00:00:00Z"),
            ("second", "0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00Z"),
            ("day", "1600-01-01T13:00:00Z", "1600-01-01T00:00:00Z"),
        ] {
            assert_eq!(cut_in("UTC", unit, time), expected, "{unit} of {time}");
        }
        assert_eq!(truncate(i64::MIN, TimeUnit::Millisecond, Unit::Clock(60), Zone::UTC), None);
        assert_eq!(truncate(i64::MAX, TimeUnit::Millisecond, Unit::Date(DateUnit::Month), Zone::UTC), None);
    }
}
