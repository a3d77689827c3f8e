//! Inference of one topic: what its records have shown so far. Pure.
//!
//! Invariants: a record is observed once, in offset order within its partition; a pinned type never
//! changes; columns keep the order in which they were discovered.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::decode::column_type::ColumnType;
use crate::decode::members::for_each_member;

use super::sample::{ColumnSample, FormatSample, ValueKind};

/// Columns of one topic; further members are reachable through `_value`.
pub const COLUMNS_MAX: usize = 1_000;
/// Bytes of a column's name; longer ones get no column.
pub const COLUMN_NAME_BYTES_MAX: usize = 255;

/// Columns that every topic has; a member with such a name gets no column.
pub const SYSTEM_COLUMNS: [&str; 10] = [
    "ts",
    "_partition",
    "_offset",
    "_key",
    "_value",
    "_headers",
    "_append_ts",
    "_key_bytes",
    "_value_bytes",
    "_error",
];

/// How many values did not fit, and where the first of them is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misfits {
    pub count: u64,
    /// Partition and offset.
    pub first: Option<(i32, i64)>,
}

impl Misfits {
    fn add(&mut self, partition: i32, offset: i64) {
        self.count += 1;
        self.first.get_or_insert((partition, offset));
    }
}

/// One payload column as discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferredColumn {
    pub name: String,
    pub sample: ColumnSample,
    pub pinned: Option<ColumnType>,
    pub misfits: Misfits,
}

impl InferredColumn {
    pub fn column_type(&self) -> ColumnType {
        self.pinned.unwrap_or_else(|| self.sample.column_type())
    }

    fn observe(&mut self, raw: &str, partition: i32, offset: i64) {
        if let Some(column_type) = self.pinned {
            if column_type.convert(raw).is_none() {
                self.misfits.add(partition, offset);
            }
            return;
        }
        self.sample.observe(raw);
        let column_type = self.sample.column_type();
        // What no later value can make fit, such as 1e400 among numbers, counts at once.
        if column_type.convert(raw).is_none() {
            self.misfits.add(partition, offset);
        }
        if matches!(column_type, ColumnType::Json | ColumnType::Text) {
            self.misfits = Misfits::default();
        }
        if self.sample.is_complete() {
            self.pinned = Some(column_type);
        }
    }
}

/// What one topic's records have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicInference {
    pub format: FormatSample,
    pub columns: Vec<InferredColumn>,
    /// Next offset to observe, per partition.
    pub progress: BTreeMap<i32, i64>,
    pub records: u64,
    /// Values that are no JSON object, counted once the topic is known to hold JSON.
    pub undecoded: Misfits,
    /// Names of members that got no column because a system column has that name.
    pub shadowed: Vec<String>,
    /// Members that got no column because the topic has `COLUMNS_MAX` already.
    pub beyond_columns_max: u64,
    index: HashMap<String, usize>,
}

impl TopicInference {
    /// Puts back together what was stored; see `super::encoding`.
    pub fn with_columns(columns: Vec<InferredColumn>) -> Self {
        let index = columns.iter().enumerate().map(|(index, column)| (column.name.clone(), index)).collect();
        Self { columns, index, ..Self::default() }
    }

    /// Whether further records could still say anything: a topic of text has no columns to find.
    pub fn is_finished(&self) -> bool {
        self.format.is_complete() && !self.format.is_json()
    }

    /// Whether a statement would see the same columns, pinned alike.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        let is_alike = |(one, two): (&InferredColumn, &InferredColumn)| {
            one.name == two.name && one.pinned == two.pinned && one.column_type() == two.column_type()
        };
        self.format.is_json() == other.format.is_json()
            && self.is_finished() == other.is_finished()
            && self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&other.columns).all(is_alike)
    }

    /// Observes one record of a topic; the caller keeps `progress`.
    pub fn observe(&mut self, partition: i32, offset: i64, value: Option<&[u8]>) {
        self.records += 1;
        let Some(value) = value else { return };
        let mut members: Vec<(Cow<'_, str>, &str)> = Vec::new();
        let outcome = for_each_member(value, &mut |name, raw| members.push((name, raw)));
        self.format.observe(if outcome.is_ok() { ValueKind::Object } else { ValueKind::Other });
        if outcome.is_err() {
            self.undecoded.add(partition, offset);
            return;
        }
        for (name, raw) in members {
            if raw != "null" {
                self.observe_member(&name, raw, partition, offset);
            }
        }
    }

    fn observe_member(&mut self, name: &str, raw: &str, partition: i32, offset: i64) {
        if let Some(index) = self.index.get(name) {
            self.columns[*index].observe(raw, partition, offset);
        } else if SYSTEM_COLUMNS.contains(&name) {
            if !self.shadowed.iter().any(|known| known == name) {
                self.shadowed.push(name.to_owned());
            }
        } else if self.columns.len() >= COLUMNS_MAX {
            self.beyond_columns_max += 1;
        } else if is_column_name(name) {
            self.index.insert(name.to_owned(), self.columns.len());
            let mut column = InferredColumn {
                name: name.to_owned(),
                sample: ColumnSample::default(),
                pinned: None,
                misfits: Misfits::default(),
            };
            column.observe(raw, partition, offset);
            self.columns.push(column);
        }
    }
}

/// Postgres has no empty identifier and no NUL in one.
fn is_column_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= COLUMN_NAME_BYTES_MAX && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::sample::SAMPLE_VALUES_MAX;

    fn infer<'a>(values: impl IntoIterator<Item = &'a str>) -> TopicInference {
        let mut topic = TopicInference::default();
        for (offset, value) in (0..).zip(values) {
            topic.observe(0, offset, Some(value.as_bytes()));
        }
        topic
    }

    #[test]
    fn columns_come_in_order_of_discovery() {
        let topic = infer([r#"{"b":1,"n":null}"#, r#"{"a":"x","b":2,"n":true}"#]);
        let found: Vec<_> =
            topic.columns.iter().map(|column| (column.name.as_str(), column.column_type())).collect();
        let expected = [("b", ColumnType::Bigint), ("a", ColumnType::Text), ("n", ColumnType::Bool)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_pinned_type_stays_and_what_does_not_fit_is_counted() {
        let sampled = usize::try_from(SAMPLE_VALUES_MAX).unwrap();
        let values = std::iter::repeat_n(r#"{"a":1}"#, sampled);
        let topic = infer(values.chain([r#"{"a":"x"}"#, r#"{"a":2}"#, r#"{"a":1.5}"#]));
        let column = &topic.columns[0];
        assert_eq!(column.pinned, Some(ColumnType::Bigint));
        assert_eq!(column.misfits, Misfits { count: 2, first: Some((0, i64::from(SAMPLE_VALUES_MAX))) });
    }

    #[test]
    fn a_number_beyond_every_numeric_is_counted_while_sampling() {
        let topic = infer([r#"{"n":9007199254740993}"#, r#"{"n":1e400}"#]);
        assert_eq!(topic.columns[0].misfits, Misfits { count: 1, first: Some((0, 1)) });
    }

    #[test]
    fn system_names_and_names_beyond_the_bound_get_no_column() {
        let topic = infer([r#"{"ts":1,"_offset":2,"":3,"a\u0000":4,"ok":5}"#]);
        assert_eq!(topic.columns.len(), 1);
        assert_eq!(topic.shadowed, ["ts", "_offset"]);
        let wide: Vec<String> = (0..COLUMNS_MAX + 5).map(|index| format!("\"c{index}\":1")).collect();
        let topic = infer([format!("{{{}}}", wide.join(",")).as_str()]);
        assert_eq!((topic.columns.len(), topic.beyond_columns_max), (COLUMNS_MAX, 5));
    }

    #[test]
    fn a_topic_of_text_is_finished_after_its_first_values() {
        let topic = infer(std::iter::repeat_n("127.0.0.1 - - [12/Sep/2015] GET /", 100));
        assert!(topic.is_finished());
        assert!(topic.columns.is_empty());
    }
}
