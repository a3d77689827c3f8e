//! Intervals as text: `1 year 2 mons -3 days 04:05:06.7`, the form that PostgreSQL prints, with the
//! usual abbreviations of its units.

use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use super::ParameterError;

const NANOS_PER_SECOND: f64 = 1e9;

/// What has been added up so far.
#[derive(Default)]
struct Sum {
    months: f64,
    days: f64,
    nanos: f64,
}

pub(super) fn parse(text: &str) -> Result<ScalarValue, ParameterError> {
    let value =
        sum_of(text).and_then(Sum::finish).ok_or_else(|| ParameterError::datetime(PgType::Interval, text))?;
    Ok(ScalarValue::IntervalMonthDayNano(Some(value)))
}

fn sum_of(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    while let Some(word) = words.next() {
        if word.contains(':') {
            sum.nanos += clock(word)?;
            continue;
        }
        let unit_at = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (number, unit) = word.split_at(unit_at);
        let number: f64 = number.parse().ok()?;
        let unit = if unit.is_empty() { words.next()? } else { unit };
        sum.add(number, unit)?;
    }
    Some(sum)
}

/// `[-]HH:MM[:SS[.fraction]]` in nanoseconds.
fn clock(word: &str) -> Option<f64> {
    let (sign, digits) = match word.as_bytes().first()? {
        b'-' => (-1.0, &word[1..]),
        b'+' => (1.0, &word[1..]),
        _ => (1.0, word),
    };
    let parts: Vec<f64> = digits.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let seconds = match parts[..] {
        [hours, minutes] => hours * 3600.0 + minutes * 60.0,
        [hours, minutes, seconds] => hours * 3600.0 + minutes * 60.0 + seconds,
        _ => return None,
    };
    Some(sign * seconds * NANOS_PER_SECOND)
}

impl Sum {
    fn add(&mut self, number: f64, unit: &str) -> Option<()> {
        match unit.to_ascii_lowercase().as_str() {
            "year" | "years" | "y" | "yr" | "yrs" => self.months += number * 12.0,
            "mon" | "mons" | "month" | "months" => self.months += number,
            "week" | "weeks" | "w" => self.days += number * 7.0,
            "day" | "days" | "d" => self.days += number,
            "hour" | "hours" | "h" | "hr" | "hrs" => self.nanos += number * 3600.0 * NANOS_PER_SECOND,
            "minute" | "minutes" | "min" | "mins" | "m" => self.nanos += number * 60.0 * NANOS_PER_SECOND,
            "second" | "seconds" | "sec" | "secs" | "s" => self.nanos += number * NANOS_PER_SECOND,
            "millisecond" | "milliseconds" | "ms" => self.nanos += number * 1e6,
            "microsecond" | "microseconds" | "us" => self.nanos += number * 1e3,
            _ => return None,
        }
        Some(())
    }

    /// Whole months and days keep their fractions as the next smaller unit (30 days, 24 hours).
    fn finish(self) -> Option<IntervalMonthDayNano> {
        let days = self.days + self.months.fract() * 30.0;
        let nanos = self.nanos + days.fract() * 86_400.0 * NANOS_PER_SECOND;
        let (months, days) = (self.months.trunc(), days.trunc());
        let fits = |value: f64, bound: f64| value.is_finite() && value.abs() < bound;
        if !fits(months, 2_147_483_648.0) || !fits(days, 2_147_483_648.0) || !fits(nanos, 9.2e18) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked against the bounds just above")]
        let value = IntervalMonthDayNano::new(months as i32, days as i32, nanos.round() as i64);
        Some(value)
    }
}
