//! Times as they stand in data: epoch milliseconds, or RFC 3339 with its zone.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use serde_json::Value;

/// A time, with how it was written, so that a person can check the reading.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedTimestamp {
    pub epoch_ms: i64,
    pub written_as: WrittenAs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenAs {
    EpochMilliseconds,
    /// With the zone's distance from UTC in seconds.
    Rfc3339 {
        zone_seconds: i32,
    },
}

/// Reads a JSON value as a time, or says why it is none.
pub fn parse_timestamp(value: &Value) -> Result<ParsedTimestamp, String> {
    match value {
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Err(format!("{number} is not whole milliseconds")), epoch)
        }
        Value::String(text) => match text.parse() {
            Ok(milliseconds) => epoch(milliseconds),
            Err(_) => rfc3339(text),
        },
        _ => Err("it is neither epoch milliseconds nor an RFC 3339 text".to_owned()),
    }
}

fn epoch(epoch_ms: i64) -> Result<ParsedTimestamp, String> {
    if epoch_ms < 0 {
        return Err(format!("{epoch_ms} is before 1970"));
    }
    Ok(ParsedTimestamp { epoch_ms, written_as: WrittenAs::EpochMilliseconds })
}

fn rfc3339(text: &str) -> Result<ParsedTimestamp, String> {
    match DateTime::parse_from_rfc3339(text) {
        Ok(time) => {
            let ParsedTimestamp { epoch_ms, .. } = epoch(time.timestamp_millis())?;
            let zone_seconds = time.offset().local_minus_utc();
            Ok(ParsedTimestamp { epoch_ms, written_as: WrittenAs::Rfc3339 { zone_seconds } })
        }
        Err(_) if lacks_zone(text) => {
            Err(format!("\"{text}\" does not say its time zone; RFC 3339 ends in Z or +hh:mm"))
        }
        Err(_) => Err(format!("\"{text}\" is neither epoch milliseconds nor RFC 3339")),
    }
}

fn lacks_zone(text: &str) -> bool {
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .iter()
        .any(|format| NaiveDateTime::parse_from_str(text, format).is_ok())
}

impl ParsedTimestamp {
    /// The time in UTC and how it was read.
    pub fn describe(&self) -> String {
        let utc = DateTime::<Utc>::from_timestamp_millis(self.epoch_ms);
        let utc = utc.map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true));
        let utc = utc.unwrap_or_else(|| format!("{} ms", self.epoch_ms));
        match self.written_as {
            WrittenAs::EpochMilliseconds => format!("{utc} (read as epoch milliseconds, zone UTC)"),
            WrittenAs::Rfc3339 { zone_seconds } => {
                format!("{utc} (read as RFC 3339, zone {})", zone(zone_seconds))
            }
        }
    }
}

fn zone(seconds: i32) -> String {
    if seconds == 0 {
        return "UTC".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn milliseconds_and_rfc_3339_name_the_same_moment() {
        for value in [
            json!(1_442_059_200_000_i64),
            json!("1442059200000"),
            json!("2015-09-12T12:00:00Z"),
            json!("2015-09-12T12:00:00.000Z"),
            json!("2015-09-12 17:30:00+05:30"),
            json!("2015-09-12T07:00:00-05:00"),
        ] {
            let parsed = parse_timestamp(&value).unwrap_or_else(|reason| panic!("{value}: {reason}"));
            assert_eq!(parsed.epoch_ms, 1_442_059_200_000, "{value}");
        }
    }

    #[test]
    fn the_reading_is_described_with_its_zone() {
        let described = |value: Value| parse_timestamp(&value).expect("a time").describe();
        assert_eq!(described(json!(0)), "1970-01-01T00:00:00.000Z (read as epoch milliseconds, zone UTC)");
        assert_eq!(
            described(json!("2015-09-12T17:30:00+05:30")),
            "2015-09-12T12:00:00.000Z (read as RFC 3339, zone +05:30)"
        );
        assert!(described(json!("2015-09-12T12:00:00Z")).ends_with("zone UTC)"));
        assert!(described(json!("2015-09-12T12:00:00-09:30")).ends_with("zone -09:30)"));
    }

    #[test]
    fn a_time_without_zone_is_refused_because_it_names_no_moment() {
        for text in ["2019-01-15T00:00:00", "2019-01-15 00:00:00.5"] {
            let reason = parse_timestamp(&json!(text)).expect_err(text);
            assert!(reason.contains("time zone"), "{reason}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for value in [
            json!(1.5),
            json!(-1),
            json!("1969-12-31T23:59:59Z"),
            json!("soon"),
            json!(null),
            json!({}),
            json!(true),
        ] {
            assert!(parse_timestamp(&value).is_err(), "{value}");
        }
    }
}
