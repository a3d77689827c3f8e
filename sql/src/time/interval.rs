//! Intervals as people write them: `1 hour 30 min`, `01:30:00`, `P1DT2H`, `1-2`, `-30 days ago`.
//!
//! Source: PostgreSQL, "Interval Input" (8.5.4).

use crate::error::{SqlError, SqlErrorKind};

/// A length of time whose parts are kept apart, because months and days differ in length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) micros: i64,
}

impl Interval {
    /// The text that the planner reads as this interval.
    pub(crate) fn to_planner_text(self) -> String {
        format!("{} months {} days {} microseconds", self.months, self.days, self.micros)
    }
}

const DAY_US: f64 = 86_400_000_000.0;

/// The interval that a text names; a bare number counts `unit`.
///
/// # Errors
/// When the text is not an interval or too long for its parts.
pub(crate) fn parse(text: &str, unit: Option<&str>) -> Result<Interval, SqlError> {
    parse_parts(text, unit).and_then(Parts::interval).ok_or_else(|| {
        let shown: String = text.chars().take(100).collect();
        SqlError::new(
            SqlErrorKind::InvalidDatetime,
            format!("invalid input syntax for type interval: \"{shown}\""),
        )
        .with_hint("accepted are forms such as '1 day 2 hours', '90 min', '01:30:00' and 'P1DT2H'")
    })
}

/// Parts that may have fractions, which go down to the next smaller part.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    months: f64,
    days: f64,
    micros: f64,
}

impl Parts {
    fn add(&mut self, amount: f64, unit: &str) -> Option<()> {
        match singular(unit) {
            "microsecond" | "us" | "usec" => self.micros += amount,
            "millisecond" | "ms" | "msec" => self.micros += amount * 1e3,
            "second" | "sec" | "s" => self.micros += amount * 1e6,
            "minute" | "min" | "m" => self.micros += amount * 60e6,
            "hour" | "hr" | "h" => self.micros += amount * 3600e6,
            "day" | "d" => self.days += amount,
            "week" | "w" => self.days += amount * 7.0,
            "month" | "mon" => self.months += amount,
            "year" | "yr" | "y" => self.months += amount * 12.0,
            "decade" | "dec" => self.months += amount * 120.0,
            "century" | "centurie" | "c" => self.months += amount * 1_200.0,
            "millennium" | "millenniums" | "millennia" => self.months += amount * 12_000.0,
            _ => return None,
        }
        Some(())
    }

    fn interval(self) -> Option<Interval> {
        let months = self.months.trunc();
        let all_days = self.days + (self.months - months) * 30.0;
        let days = all_days.trunc();
        let micros = (self.micros + (all_days - days) * DAY_US).round();
        let fits = |value: f64, most: f64| value.is_finite() && value.abs() <= most;
        if !fits(months, f64::from(i32::MAX)) || !fits(days, f64::from(i32::MAX)) || !fits(micros, 9e18) {
            return None;
        }
        Some(Interval { months: months as i32, days: days as i32, micros: micros as i64 })
    }

    fn negated(self) -> Self {
        Self { months: -self.months, days: -self.days, micros: -self.micros }
    }
}

fn singular(unit: &str) -> &str {
    match unit {
        "s" | "ms" | "us" => unit,
        _ => unit.strip_suffix('s').unwrap_or(unit),
    }
}

fn parse_parts(text: &str, unit: Option<&str>) -> Option<Parts> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(iso) = text.strip_prefix('p') {
        return parse_iso(iso);
    }
    let text = text.strip_prefix('@').unwrap_or(&text);
    let (text, ago) = match text.trim_end().strip_suffix("ago") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut parts = Parts::default();
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        rest = parse_piece(rest, unit, &mut parts)?.trim_start();
    }
    Some(if ago { parts.negated() } else { parts })
}

/// One `amount unit`, `hh:mm:ss` or `years-months`; answers what follows.
fn parse_piece<'a>(text: &'a str, unit: Option<&str>, parts: &mut Parts) -> Option<&'a str> {
    let end = text
        .char_indices()
        .find(|(index, value)| {
            !(value.is_ascii_digit() || matches!(value, '.' | ':') || is_sign(text, *index, *value))
        })
        .map_or(text.len(), |(index, _)| index);
    let (amount, rest) = text.split_at(end);
    if amount.is_empty() {
        return None;
    }
    if amount.contains(':') {
        parts.micros += clock_us(amount)?;
        return Some(rest);
    }
    let sign_free = amount.trim_start_matches(['+', '-']);
    if let Some((years, months)) = sign_free.split_once('-') {
        let months = years.parse::<f64>().ok()? * 12.0 + months.parse::<f64>().ok()?;
        parts.months += if amount.starts_with('-') { -months } else { months };
        return Some(rest);
    }
    let amount: f64 = amount.parse().ok()?;
    let rest = rest.trim_start();
    let end = rest.find(|value: char| !value.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (word, rest) = rest.split_at(end);
    let unit = if word.is_empty() { unit.unwrap_or("second") } else { word };
    parts.add(amount, unit)?;
    Some(rest)
}

/// A sign begins an amount; a hyphen inside one joins years and months.
fn is_sign(text: &str, index: usize, value: char) -> bool {
    value == '-' || (value == '+' && index == 0 && text.len() > 1)
}

/// `01:30`, `-01:30:00.5` in microseconds.
fn clock_us(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let mut fields = unsigned.split(':');
    let hours: f64 = fields.next()?.parse().ok()?;
    let minutes: f64 = fields.next()?.parse().ok()?;
    let seconds: f64 = fields.next().map_or(Some(0.0), |field| field.parse().ok())?;
    if fields.next().is_some() || minutes >= 60.0 || seconds > 60.0 {
        return None;
    }
    let micros = hours * 3600e6 + minutes * 60e6 + seconds * 1e6;
    Some(if text.starts_with('-') { -micros } else { micros })
}

/// ISO 8601 after the `p`: `1y2m3dt4h5m6.7s`.
fn parse_iso(text: &str) -> Option<Parts> {
    let mut parts = Parts::default();
    let (mut rest, mut after_t) = (text, false);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(next) = rest.strip_prefix('t') {
            (rest, after_t) = (next, true);
            continue;
        }
        let end = rest.find(|value: char| value.is_ascii_alphabetic())?;
        let amount: f64 = rest[..end].parse().ok()?;
        let unit = match (&rest[end..=end], after_t) {
            ("y", false) => "year",
            ("m", false) => "month",
            ("w", false) => "week",
            ("d", false) => "day",
            ("h", true) => "hour",
            ("m", true) => "minute",
            ("s", true) => "second",
            _ => return None,
        };
        parts.add(amount, unit)?;
        rest = &rest[end + 1..];
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(months: i32, days: i32, micros: i64) -> Interval {
        Interval { months, days, micros }
    }

    #[test]
    fn intervals_are_read_as_people_write_them() {
        const HOUR: i64 = 3_600_000_000;
        for (text, expected) in [
            ("1 hour", of(0, 0, HOUR)),
            ("1h", of(0, 0, HOUR)),
            ("1 day 2 hours", of(0, 1, 2 * HOUR)),
            ("1.5 hours", of(0, 0, HOUR * 3 / 2)),
            ("300.000s", of(0, 0, 300_000_000)),
            ("-30 day", of(0, -30, 0)),
            ("1 hour ago", of(0, 0, -HOUR)),
            ("01:30:00", of(0, 0, HOUR * 3 / 2)),
            ("1 day -00:00:01", of(0, 1, -1_000_000)),
            ("1-2", of(14, 0, 0)),
            ("P1DT2H", of(0, 1, 2 * HOUR)),
            ("PT0.5S", of(0, 0, 500_000)),
            ("1.5 months", of(1, 15, 0)),
            ("2 weeks", of(0, 14, 0)),
            ("5 mins 10 secs", of(0, 0, 310_000_000)),
            ("250 ms", of(0, 0, 250_000)),
        ] {
            assert_eq!(parse(text, None), Ok(expected), "{text}");
        }
        assert_eq!(parse("3", Some("day")), Ok(of(0, 3, 0)));
        assert_eq!(parse("3", None), Ok(of(0, 0, 3_000_000)));
    }

    #[test]
    fn what_is_not_an_interval_is_refused() {
        for text in
            ["", "x", "1 fortnight", "P", "1:2:3:4", "1e400 years", "99999999999 days", "-", "é", "1 é"]
        {
            assert!(parse(text, None).is_err(), "{text}");
        }
    }
}
