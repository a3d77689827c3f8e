//! What a line says about its record: key and time, from the fields that were named.

use serde_json::Value;

use super::input::InputLine;
use super::timestamp::{ParsedTimestamp, parse_timestamp};

/// The fields of a JSON line that become parts of its record.
#[derive(Clone, Debug, Default)]
pub struct LineFields {
    pub key: Option<String>,
    pub timestamp: Option<String>,
}

/// The parts of a record beside its value, which is the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineRecord {
    pub key: Option<Vec<u8>>,
    pub timestamp: Option<ParsedTimestamp>,
}

impl LineRecord {
    /// The most bytes that a record takes in a batch beside key and value.
    pub const OVERHEAD: usize = 40;
}

impl LineFields {
    /// Reads the fields, or says why the line cannot be taken.
    pub fn record(&self, line: &InputLine) -> Result<LineRecord, String> {
        if line.is_too_long {
            return Err(format!("the line has {} bytes, more than any record", line.length_bytes));
        }
        if self.key.is_none() && self.timestamp.is_none() {
            return Ok(LineRecord::default());
        }
        let object = match serde_json::from_slice(&line.bytes) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return Err("the line is JSON, but not an object".to_owned()),
            Err(error) => return Err(format!("the line is not JSON: {error}")),
        };
        let field = |name: &String| object.get(name).ok_or_else(|| format!("it has no field \"{name}\""));
        let key = self.key.as_ref().map(field).transpose()?.and_then(key_bytes);
        let timestamp = match &self.timestamp {
            Some(name) => {
                Some(parse_timestamp(field(name)?).map_err(|reason| format!("field \"{name}\": {reason}"))?)
            }
            None => None,
        };
        Ok(LineRecord { key, timestamp })
    }
}

/// A text is a key without its quotes, null is no key, anything else is a key as JSON.
fn key_bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        other => Some(other.to_string().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> InputLine {
        let length_bytes = text.len() as u64;
        InputLine { number: 1, bytes: text.as_bytes().to_vec(), length_bytes, is_too_long: false }
    }

    fn fields() -> LineFields {
        LineFields { key: Some("user".to_owned()), timestamp: Some("at".to_owned()) }
    }

    #[test]
    fn a_line_of_any_kind_is_taken_when_no_field_is_asked_for() {
        assert_eq!(LineFields::default().record(&line("not JSON {")), Ok(LineRecord::default()));
    }

    #[test]
    fn key_and_time_come_from_the_named_fields() {
        let record = fields().record(&line(r#"{"user": "ann", "at": 1700000000000}"#)).expect("it has both");
        assert_eq!(record.key.as_deref(), Some(b"ann".as_slice()));
        assert_eq!(record.timestamp.map(|timestamp| timestamp.epoch_ms), Some(1_700_000_000_000));
    }

    #[test]
    fn a_key_that_is_no_text_is_its_json_and_null_is_none() {
        let key = |text: &str| fields().record(&line(text)).expect("it has both").key;
        assert_eq!(key(r#"{"user": 7, "at": 1}"#), Some(b"7".to_vec()));
        assert_eq!(key(r#"{"user": null, "at": 1}"#), None);
    }

    #[test]
    fn what_cannot_be_taken_is_said_with_a_reason() {
        for (text, reason) in [
            ("{", "not JSON"),
            ("[1]", "not an object"),
            (r#"{"user": 1}"#, "no field \"at\""),
            (r#"{"at": 1}"#, "no field \"user\""),
            (r#"{"user": 1, "at": "yesterday"}"#, "field \"at\""),
        ] {
            let refused = fields().record(&line(text)).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
