//! Dates and times as text: ISO 8601 and PostgreSQL's own output, with or without time and zone.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone as _};
use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use super::ParameterError;
use crate::encode::TimeZone;

/// The parts of a time literal.
struct Parts {
    local: NaiveDateTime,
    zone: Option<TimeZone>,
}

pub(super) fn date(text: &str) -> Result<ScalarValue, ParameterError> {
    let parts = split(text).ok_or_else(|| ParameterError::datetime(PgType::Date, text))?;
    let days = (parts.local.date() - NaiveDate::default()).num_days();
    let days = i32::try_from(days).map_err(|_| out_of_range(text))?;
    Ok(ScalarValue::Date32(Some(days)))
}

pub(super) fn time(text: &str) -> Result<ScalarValue, ParameterError> {
    let parsed = parse_time(text).ok_or_else(|| ParameterError::datetime(PgType::Time, text))?;
    let micros = (parsed - NaiveTime::MIN).num_microseconds().ok_or_else(|| out_of_range(text))?;
    Ok(ScalarValue::Time64Microsecond(Some(micros)))
}

/// A zone in the text is read and ignored, as in PostgreSQL.
pub(super) fn timestamp(text: &str) -> Result<ScalarValue, ParameterError> {
    let parts = split(text).ok_or_else(|| ParameterError::datetime(PgType::Timestamp, text))?;
    Ok(ScalarValue::TimestampMicrosecond(Some(micros(parts.local)), None))
}

pub(super) fn timestamptz(text: &str, session_zone: &TimeZone) -> Result<ScalarValue, ParameterError> {
    let parts = split(text).ok_or_else(|| ParameterError::datetime(PgType::Timestamptz, text))?;
    let zone = parts.zone.as_ref().unwrap_or(session_zone);
    let offset = i64::from(offset_of_local(zone, &parts.local));
    let instant = micros(parts.local).checked_sub(offset * 1_000_000).ok_or_else(|| out_of_range(text))?;
    Ok(ScalarValue::TimestampMicrosecond(Some(instant), Some("UTC".into())))
}

fn out_of_range(text: &str) -> ParameterError {
    ParameterError::DatetimeOutOfRange { value: super::shown(text) }
}

fn micros(local: NaiveDateTime) -> i64 {
    local.and_utc().timestamp_micros()
}

/// Seconds east of Greenwich at a wall-clock time. What a change of the clocks skips is read with
/// the offset before it, what it repeats with the offset after it (PostgreSQL's rule).
fn offset_of_local(zone: &TimeZone, local: &NaiveDateTime) -> i32 {
    use chrono::offset::LocalResult;
    let zone = match zone {
        TimeZone::Fixed(seconds) => return *seconds,
        TimeZone::Named(zone) => zone,
    };
    match zone.offset_from_local_datetime(local) {
        LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => offset.fix().local_minus_utc(),
        LocalResult::None => {
            let before = *local - chrono::TimeDelta::days(1);
            zone.offset_from_utc_datetime(&before).fix().local_minus_utc()
        }
    }
}

fn split(text: &str) -> Option<Parts> {
    let date_end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (date_text, rest) = text.split_at(date_end);
    // A date may carry a zone directly: 2015-09-12Z or 2015-09-12+02.
    let (date_text, date_zone) = split_date_zone(date_text);
    let date = parse_date(date_text)?;
    let rest = rest.get(1..).unwrap_or_default().trim();
    let (time_text, zone_text) = split_time_zone(rest);
    let time = if time_text.is_empty() { NaiveTime::MIN } else { parse_time(time_text)? };
    let zone = match date_zone.or(zone_text) {
        Some(zone) => Some(parse_zone(zone)?),
        None => None,
    };
    let local = match parse_is_midnight_after(time_text) {
        true => date.succ_opt()?.and_time(NaiveTime::MIN),
        false => date.and_time(time),
    };
    Some(Parts { local, zone })
}

/// 24:00 is the first moment of the next day.
fn parse_is_midnight_after(time: &str) -> bool {
    matches!(time, "24:00" | "24:00:00")
}

fn split_date_zone(text: &str) -> (&str, Option<&str>) {
    // Skip YYYY-MM-DD: a minus further right begins a zone.
    let zone_at = text.char_indices().skip(10).find(|(_, c)| matches!(c, 'Z' | 'z' | '+' | '-'));
    match zone_at {
        Some((at, _)) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    }
}

fn split_time_zone(text: &str) -> (&str, Option<&str>) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(text.len());
    let (time, zone) = text.split_at(end);
    let zone = zone.trim();
    (time, (!zone.is_empty()).then_some(zone))
}

fn parse_date(text: &str) -> Option<NaiveDate> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || year.len() < 4 || ![year, month, day].into_iter().all(all_digits) {
        return None;
    }
    NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
}

fn parse_time(text: &str) -> Option<NaiveTime> {
    if parse_is_midnight_after(text) {
        return Some(NaiveTime::MIN);
    }
    ["%H:%M:%S%.f", "%H:%M"].iter().find_map(|format| NaiveTime::parse_from_str(text, format).ok())
}

fn parse_zone(text: &str) -> Option<TimeZone> {
    match text {
        "Z" | "z" => Some(TimeZone::utc()),
        name => TimeZone::parse(name),
    }
}
