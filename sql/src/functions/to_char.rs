//! `to_char`, `to_timestamp` and `to_date` with PostgreSQL's patterns.
//!
//! Source: PostgreSQL, "Data Type Formatting Functions" (9.8). Patterns for numbers and intervals
//! are refused.

use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeDelta, Timelike, Utc};
use datafusion::arrow::array::{ArrayRef, Date32Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;

use super::scalar::{Inputs, Scalar};
use super::time::{Times, Zones, instant_type};
use super::{TO_DATE, TO_TIMESTAMP};
use crate::time::literal::{self, Clock};
use crate::time::zone::Zone;

pub(super) fn functions() -> Vec<Scalar> {
    vec![
        Scalar::of_type("to_char", (2, 3), DataType::Utf8, to_char),
        Scalar::of_type(TO_TIMESTAMP, (2, 3), instant_type(TimeUnit::Microsecond), to_timestamp),
        Scalar::of_type(TO_DATE, (2, 3), DataType::Date32, to_date),
    ]
}

/// The patterns, longest first where one begins another. Case matters for words, not for numbers.
const PATTERNS: &[&str] = &[
    "SSSSS", "SSSS", "MONTH", "Month", "month", "YYYY", "IYYY", "HH24", "HH12", "A.M.", "P.M.", "a.m.",
    "p.m.", "YYY", "MON", "Mon", "mon", "DAY", "Day", "day", "DDD", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6",
    "YY", "MM", "DD", "DY", "Dy", "dy", "ID", "HH", "MI", "SS", "MS", "US", "AM", "PM", "am", "pm", "TZ",
    "tz", "OF", "WW", "IW", "CC", "W", "Y", "D", "Q", "J",
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// One piece of a format.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    /// A pattern, and whether FM stands before it: no padding.
    Pattern(&'static str, Fill),
    Literal(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fill {
    Padded,
    Compact,
}

fn pieces(format: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            pieces.push(Piece::Literal(&quoted[..end]));
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        let (fill, body) = match rest.get(..2) {
            // TM would translate names, which are English here, and drops their padding too.
            Some("FM" | "fm" | "TM" | "tm") => (Fill::Compact, &rest[2..]),
            _ => (Fill::Padded, rest),
        };
        let numeric = |pattern: &&&str| {
            body.get(..pattern.len()).is_some_and(|start| {
                start == **pattern || (is_numeric(pattern) && start.eq_ignore_ascii_case(pattern))
            })
        };
        if let Some(pattern) = PATTERNS.iter().find(numeric) {
            pieces.push(Piece::Pattern(pattern, fill));
            rest = &body[pattern.len()..];
            continue;
        }
        let end = body.char_indices().nth(1).map_or(body.len(), |(index, _)| index);
        pieces.push(Piece::Literal(&body[..end]));
        rest = &body[end..];
    }
    pieces
}

/// Whether a pattern writes a number, so that its case does not matter.
fn is_numeric(pattern: &str) -> bool {
    pattern.starts_with(['Y', 'I', 'H', 'S', 'U', 'W', 'C', 'Q', 'J', 'F'])
        || matches!(pattern, "MM" | "MI" | "MS" | "DD" | "DDD" | "D" | "OF")
}

fn to_char(inputs: &Inputs) -> Result<ArrayRef> {
    let data_type = inputs.array(0)?.data_type();
    if !matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null) {
        return exec_err!("to_char of a number or an interval is not supported");
    }
    let source = Times::of(inputs, 0)?;
    let formats = inputs.texts(1)?;
    let mut zones = if inputs.count() > 2 { Some(Zones::of(inputs, 2)?) } else { None };
    let values = inputs.rows().map(|row| {
        let (Some(time), Some(format)) = (source.get(row), formats.get(row)) else { return Ok(None) };
        let zone = match &mut zones {
            Some(zones) if source.is_instant => zones.get(row)?,
            _ => None,
        };
        formatted(time, zone, format)
    });
    Ok(Arc::new(values.collect::<Result<datafusion::arrow::array::StringArray>>()?))
}

fn formatted(time: DateTime<Utc>, zone: Option<Zone>, format: &str) -> Result<Option<String>> {
    let Some(local) = zone.unwrap_or(Zone::UTC).local(time) else { return Ok(None) };
    let mut text = String::new();
    for piece in pieces(format) {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Pattern("TZ" | "tz" | "OF", _) if zone.is_none() => {}
            Piece::Pattern(pattern @ ("TZ" | "tz" | "OF"), _) => {
                let zone = zone.unwrap_or(Zone::UTC);
                text.push_str(&zone_text(zone, time, pattern));
            }
            Piece::Pattern(pattern, fill) => write_field(&mut text, local, pattern, fill),
        }
    }
    Ok(Some(text))
}

fn zone_text(zone: Zone, time: DateTime<Utc>, pattern: &str) -> String {
    let offset = zone.offset_at(time);
    let seconds = offset.local_minus_utc();
    let shown = if seconds % 3600 == 0 { offset.to_string()[..3].to_owned() } else { offset.to_string() };
    match (pattern, zone) {
        ("OF", _) => shown,
        (_, Zone::Fixed(_)) if seconds != 0 => shown,
        (_, Zone::Fixed(_)) => "UTC".to_owned(),
        (_, Zone::Named(named)) => {
            let abbreviation = time.with_timezone(&named).format("%Z").to_string();
            if pattern == "tz" { abbreviation.to_lowercase() } else { abbreviation }
        }
    }
}

fn write_field(text: &mut String, time: NaiveDateTime, pattern: &str, fill: Fill) {
    let micros = time.nanosecond() % 1_000_000_000 / 1000;
    let half = |upper: &'static str, lower: &'static str| if time.hour() < 12 { upper } else { lower };
    let hour12 = (time.hour() + 11) % 12 + 1;
    let (number, width): (i64, usize) = match pattern {
        "YYYY" => (time.year().into(), 4),
        "YYY" => ((time.year() % 1000).into(), 3),
        "YY" => ((time.year() % 100).into(), 2),
        "Y" => ((time.year() % 10).into(), 1),
        "IYYY" => (time.iso_week().year().into(), 4),
        "CC" => ((time.year() - 1).div_euclid(100) as i64 + 1, 2),
        "MM" => (time.month().into(), 2),
        "DD" => (time.day().into(), 2),
        "DDD" => (time.ordinal().into(), 3),
        "D" => ((time.weekday().num_days_from_sunday() + 1).into(), 1),
        "ID" => (time.weekday().number_from_monday().into(), 1),
        "HH24" => (time.hour().into(), 2),
        "HH12" | "HH" => (hour12.into(), 2),
        "MI" => (time.minute().into(), 2),
        "SS" => (time.second().into(), 2),
        "SSSS" | "SSSSS" => (time.num_seconds_from_midnight().into(), 1),
        "MS" => ((micros / 1000).into(), 3),
        "US" | "FF6" => (micros.into(), 6),
        "FF5" => ((micros / 10).into(), 5),
        "FF4" => ((micros / 100).into(), 4),
        "FF3" => ((micros / 1000).into(), 3),
        "FF2" => ((micros / 10_000).into(), 2),
        "FF1" => ((micros / 100_000).into(), 1),
        "Q" => (((time.month() - 1) / 3 + 1).into(), 1),
        "W" => (((time.day() - 1) / 7 + 1).into(), 1),
        "WW" => (((time.ordinal() - 1) / 7 + 1).into(), 2),
        "IW" => (time.iso_week().week().into(), 2),
        "J" => (i64::from(time.date().num_days_from_ce()) + 1_721_425, 1),
        "AM" | "PM" => return text.push_str(half("AM", "PM")),
        "am" | "pm" => return text.push_str(half("am", "pm")),
        "A.M." | "P.M." => return text.push_str(half("A.M.", "P.M.")),
        "a.m." | "p.m." => return text.push_str(half("a.m.", "p.m.")),
        word => return text.push_str(&name_field(time, word, fill)),
    };
    let width = if fill == Fill::Compact { 1 } else { width };
    text.push_str(&format!("{number:0width$}"));
}

/// The name of a month or a day in the case of the pattern; full names are padded to 9.
fn name_field(time: NaiveDateTime, pattern: &str, fill: Fill) -> String {
    let lower = pattern.to_ascii_lowercase();
    let full = if lower.starts_with("mon") {
        MONTHS[time.month0() as usize]
    } else {
        DAYS[time.weekday().num_days_from_monday() as usize]
    };
    let short = matches!(lower.as_str(), "mon" | "dy");
    let name = if short { &full[..3] } else { full };
    let first_upper = pattern.starts_with(|first: char| first.is_ascii_uppercase());
    let all_upper = pattern.chars().all(|letter| letter.is_ascii_uppercase());
    let cased = match (all_upper, first_upper) {
        (true, _) => name.to_uppercase(),
        (_, true) => name.to_owned(),
        _ => name.to_lowercase(),
    };
    if short || fill == Fill::Compact { cased } else { format!("{cased:9}") }
}

/// `to_timestamp(seconds)` and `to_timestamp(text, format)`; the zone is the last argument.
fn to_timestamp(inputs: &Inputs) -> Result<ArrayRef> {
    let numbers: Int64Array = if inputs.count() == 2 {
        from_seconds(inputs)?
    } else {
        let (texts, formats) = (inputs.texts(0)?, inputs.texts(1)?);
        let mut zones = Zones::of(inputs, 2)?;
        let values = inputs.rows().map(|row| {
            let (Some(text), Some(format), Some(zone)) = (texts.get(row), formats.get(row), zones.get(row)?)
            else {
                return Ok(None);
            };
            let local = parse(text, format)?;
            Ok(zone.instant(local).map(|instant| instant.timestamp_micros()))
        });
        values.collect::<Result<_>>()?
    };
    let numbers: ArrayRef = Arc::new(numbers);
    Ok(cast(&numbers, &instant_type(TimeUnit::Microsecond))?)
}

fn from_seconds(inputs: &Inputs) -> Result<Int64Array> {
    if inputs.array(0)?.data_type().is_numeric() || *inputs.array(0)?.data_type() == DataType::Null {
        let seconds = inputs.floats(0)?;
        let micros = |seconds: f64| {
            let micros = (seconds * 1e6).round();
            if micros.is_finite() && micros.abs() < 9.2e18 {
                Ok(micros as i64)
            } else {
                exec_err!("timestamp out of range: {seconds}")
            }
        };
        return inputs.rows().map(|row| seconds.get(row).map(micros).transpose()).collect();
    }
    let texts = inputs.texts(0)?;
    let mut zones = Zones::of(inputs, 1)?;
    let values = inputs.rows().map(|row| {
        let (Some(text), Some(zone)) = (texts.get(row), zones.get(row)?) else { return Ok(None) };
        let clock = Clock { now_us: None, zone };
        literal::instant_us(text, clock).map(Some).map_err(|error| exec_datafusion_err!("{error}"))
    });
    values.collect()
}

fn to_date(inputs: &Inputs) -> Result<ArrayRef> {
    let texts = inputs.texts(0)?;
    let formats = if inputs.count() > 2 { Some(inputs.texts(1)?) } else { None };
    let values = inputs.rows().map(|row| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        let date = match &formats {
            Some(formats) => match formats.get(row) {
                Some(format) => parse(text, format)?.date(),
                None => return Ok(None),
            },
            None => literal::day(text, Clock { now_us: None, zone: Zone::UTC })
                .map_err(|error| exec_datafusion_err!("{error}"))?,
        };
        let days = date.signed_duration_since(DateTime::UNIX_EPOCH.date_naive()).num_days();
        Ok(i32::try_from(days).ok())
    });
    Ok(Arc::new(values.collect::<Result<Date32Array>>()?))
}

/// What was read so far.
#[derive(Debug)]
struct Fields {
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
}

/// Reads a text by a format. Separators match any separator, as in PostgreSQL.
fn parse(text: &str, format: &str) -> Result<NaiveDateTime> {
    let mut fields =
        Fields { year: 1, month: 1, day: 1, hour: 0, minute: 0, second: 0, micros: 0, afternoon: None };
    let mut rest = text.trim_start();
    for piece in pieces(format) {
        match piece {
            Piece::Literal(literal) => {
                for expected in literal.chars() {
                    let Some(first) = rest.chars().next() else { break };
                    let separators = !expected.is_alphanumeric() && !first.is_alphanumeric();
                    if separators || expected.is_alphabetic() {
                        rest = &rest[first.len_utf8()..];
                    }
                }
            }
            Piece::Pattern(pattern, _) => {
                rest = read_field(&mut fields, rest.trim_start(), pattern).ok_or_else(|| {
                    exec_datafusion_err!("invalid value \"{text}\" for the format \"{format}\"")
                })?;
            }
        }
    }
    let hour = match fields.afternoon {
        None => fields.hour,
        Some(afternoon) => fields.hour % 12 + if afternoon { 12 } else { 0 },
    };
    let date = NaiveDate::from_ymd_opt(fields.year, fields.month, fields.day);
    let time = date.and_then(|date| date.and_hms_opt(hour, 0, 0)).and_then(|time| {
        let rest = TimeDelta::minutes(fields.minute)
            + TimeDelta::seconds(fields.second)
            + TimeDelta::microseconds(fields.micros);
        time.checked_add_signed(rest)
    });
    time.ok_or_else(|| exec_datafusion_err!("date/time field value out of range: \"{text}\""))
}

fn read_field<'a>(fields: &mut Fields, text: &'a str, pattern: &str) -> Option<&'a str> {
    if matches!(pattern, "AM" | "PM" | "am" | "pm") {
        let half = text.get(..2)?;
        let afternoon = half.eq_ignore_ascii_case("pm");
        fields.afternoon = (afternoon || half.eq_ignore_ascii_case("am")).then_some(afternoon);
        return fields.afternoon.and_then(|_| text.get(2..));
    }
    if pattern.to_ascii_lowercase().starts_with("mon") {
        let month = MONTHS
            .iter()
            .position(|month| text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(&month[..3])))?;
        fields.month = u32::try_from(month).ok()? + 1;
        return Some(text.trim_start_matches(|letter: char| letter.is_alphabetic()));
    }
    let most = match pattern {
        "YYYY" => 4,
        "US" | "FF6" => 6,
        "MS" | "FF3" => 3,
        _ => 2,
    };
    let end = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let number: i64 = text.get(..end)?.parse().ok()?;
    let fraction = |digits: u32| number * 10_i64.pow(digits.saturating_sub(end as u32));
    match pattern {
        "YYYY" => fields.year = i32::try_from(number).ok()?,
        "YY" => fields.year = i32::try_from(if number < 70 { 2000 + number } else { 1900 + number }).ok()?,
        "MM" => fields.month = u32::try_from(number).ok()?,
        "DD" => fields.day = u32::try_from(number).ok()?,
        "HH24" | "HH12" | "HH" => fields.hour = u32::try_from(number).ok()?,
        "MI" => fields.minute = Some(number).filter(|minute| *minute < 60)?,
        "SS" => fields.second = Some(number).filter(|second| *second < 60)?,
        "MS" | "FF3" => fields.micros = fraction(3) * 1000,
        "US" | "FF6" => fields.micros = fraction(6),
        _ => return None,
    }
    text.get(end..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: &str) -> String {
        let time = DateTime::from_timestamp_micros(1_442_059_205_006_700).unwrap();
        formatted(time, Some(Zone::UTC), format).unwrap().unwrap()
    }

    #[test]
    fn formats_are_those_of_postgres() {
        for (format, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.MS TZ", "2015-09-12 12:00:05.006 UTC"),
            ("yyyy-mm-dd hh24:mi", "2015-09-12 12:00"),
            ("FMMonth DD, YYYY", "September 12, 2015"),
            ("Dy HH12:MI AM", "Sat 12:00 PM"),
            ("US", "006700"),
            ("IYYY-\"W\"IW", "2015-W37"),
            ("MON Q FMDDD", "SEP 3 255"),
            ("Day", "Saturday "),
        ] {
            assert_eq!(shown(format), expected, "{format}");
        }
    }

    #[test]
    fn texts_are_read_by_their_format() {
        for (text, format, expected) in [
            ("2015-09-12 12:00:05.25", "YYYY-MM-DD HH24:MI:SS.US", "2015-09-12T12:00:05.250"),
            ("12/Sep/2015:01:02:03", "DD/Mon/YYYY:HH24:MI:SS", "2015-09-12T01:02:03"),
            ("2015-09-12 01:00 PM", "YYYY-MM-DD HH12:MI AM", "2015-09-12T13:00:00"),
            ("20150912", "YYYYMMDD", "2015-09-12T00:00:00"),
        ] {
            let time = parse(text, format).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(time, expected.parse::<NaiveDateTime>().unwrap(), "{text}");
        }
        for (text, format) in [("x", "YYYY"), ("2015-13-01", "YYYY-MM-DD"), ("2015", "TZ"), ("é", "PM")] {
            assert!(parse(text, format).is_err(), "{text}");
        }
    }
}
