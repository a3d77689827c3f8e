//! What was seen of one column or of one topic's values, and the type that follows. Pure.
//!
//! Invariant: the type is decided by the first `SAMPLE_VALUES_MAX` non-null values and by nothing
//! after them; while fewer are known the type is provisional and may change.

use crate::decode::column_type::{ColumnType, to_microseconds};
use crate::decode::members::string_text;
use crate::decode::number::{self, NUMERIC_SCALE_MAX, NumberKind};

/// Non-null values that decide the type of a column.
pub const SAMPLE_VALUES_MAX: u32 = 1_000;
/// Non-null values that decide whether a topic holds JSON objects.
pub const FORMAT_VALUES_MAX: u32 = 100;

/// How many values of each kind a column's sample holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSample {
    pub bools: u32,
    pub integers: u32,
    pub wide_integers: u32,
    pub huge_integers: u32,
    pub fractions: u32,
    pub times: u32,
    pub strings: u32,
    pub nested: u32,
    /// Fraction digits that the sample's numbers need.
    pub scale: u32,
}

impl ColumnSample {
    pub fn values(&self) -> u32 {
        self.bools + self.numbers() + self.times + self.strings + self.nested
    }

    pub fn is_complete(&self) -> bool {
        self.values() >= SAMPLE_VALUES_MAX
    }

    fn numbers(&self) -> u32 {
        self.integers + self.wide_integers + self.huge_integers + self.fractions
    }

    /// Counts the raw text of one JSON value that is not `null`.
    pub fn observe(&mut self, raw: &str) {
        match raw.as_bytes().first() {
            Some(b'[' | b'{') => self.nested += 1,
            Some(b't' | b'f') => self.bools += 1,
            Some(b'"') if string_text(raw).is_some_and(|text| to_microseconds(&text).is_some()) => {
                self.times += 1;
            }
            Some(b'"') => self.strings += 1,
            _ => self.observe_number(raw),
        }
    }

    fn observe_number(&mut self, raw: &str) {
        match number::kind(raw) {
            NumberKind::Integer => self.integers += 1,
            NumberKind::WideInteger => self.wide_integers += 1,
            NumberKind::HugeInteger => self.huge_integers += 1,
            NumberKind::Fraction => {
                self.fractions += 1;
                // A literal out of a double's reach, such as 1e-400, must not take all digits for itself.
                if number::to_double(raw).is_some() {
                    self.scale = self.scale.max(number::scale(raw).min(NUMERIC_SCALE_MAX));
                }
            }
        }
    }

    /// The type that the values seen so far ask for.
    pub fn column_type(&self) -> ColumnType {
        let values = self.values();
        if self.nested > 0 {
            ColumnType::Json
        } else if self.numbers() == values {
            self.number_type()
        } else if self.bools == values {
            ColumnType::Bool
        } else if self.times == values {
            ColumnType::Timestamptz
        } else {
            ColumnType::Text
        }
    }

    fn number_type(&self) -> ColumnType {
        let beyond_double = self.wide_integers + self.huge_integers;
        match (self.fractions, beyond_double, self.huge_integers) {
            (0, _, 0) => ColumnType::Bigint,
            (0, _, _) => ColumnType::Numeric { scale: 0 },
            (_, 0, _) => ColumnType::Double,
            _ => ColumnType::Numeric { scale: self.scale },
        }
    }
}

/// Whether a value is a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Object,
    Other,
}

/// How many of a topic's first values are JSON objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatSample {
    pub values: u32,
    pub objects: u32,
}

impl FormatSample {
    pub fn is_complete(&self) -> bool {
        self.values >= FORMAT_VALUES_MAX
    }

    /// Counts one value that is no tombstone.
    pub fn observe(&mut self, kind: ValueKind) {
        if !self.is_complete() {
            self.values += 1;
            self.objects += u32::from(kind == ValueKind::Object);
        }
    }

    /// Whether the topic holds JSON objects: at least half of its first values are. A damaged value
    /// among good ones must not turn a topic into text.
    pub fn is_json(&self) -> bool {
        self.objects > 0 && self.objects >= self.values - self.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(values: &[&str]) -> ColumnType {
        let mut sample = ColumnSample::default();
        for value in values {
            sample.observe(value);
        }
        sample.column_type()
    }

    #[test]
    fn types_follow_from_the_sample() {
        assert_eq!(type_of(&["1", "-2"]), ColumnType::Bigint);
        assert_eq!(type_of(&["9223372036854775807"]), ColumnType::Bigint);
        assert_eq!(type_of(&["1", "1.5"]), ColumnType::Double);
        assert_eq!(type_of(&["9007199254740993", "1.25"]), ColumnType::Numeric { scale: 2 });
        assert_eq!(type_of(&["18446744073709551615"]), ColumnType::Numeric { scale: 0 });
        assert_eq!(type_of(&["true"]), ColumnType::Bool);
        assert_eq!(type_of(&[r#""2015-09-12T00:46:58.771Z""#]), ColumnType::Timestamptz);
        assert_eq!(type_of(&[r#""2015-09-12T00:46:58.771Z""#, r#""x""#]), ColumnType::Text);
        assert_eq!(type_of(&["false", r#""false""#, "0"]), ColumnType::Text);
        assert_eq!(type_of(&["false", r#""false""#, "0", "{}", "[]"]), ColumnType::Json);
    }

    #[test]
    fn a_number_out_of_reach_leaves_the_others_exact() {
        let values = ["9007199254740993", "18446744073709551615", "327267367867168100000", "1e400", "1e-400"];
        assert_eq!(type_of(&values), ColumnType::Numeric { scale: 0 });
    }

    #[test]
    fn half_of_the_values_being_objects_makes_a_topic_json() {
        let mut sample = FormatSample::default();
        assert!(!sample.is_json());
        for kind in [ValueKind::Object, ValueKind::Other, ValueKind::Other, ValueKind::Object] {
            sample.observe(kind);
        }
        assert!(sample.is_json());
        sample.observe(ValueKind::Other);
        assert!(!sample.is_json());
    }
}
