//! Payload columns through a decoder: built for the rows and columns that are wanted, and no others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields};

use super::fixture::{Fixture, T, TestRecord, integers, record, texts};
use crate::format::Compression;
use crate::table::{DecodeError, Decoded, ErrorColumn, PayloadDecoder};

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::from(vec![
        Field::new("number", DataType::Int64, true),
        Field::new("length", DataType::Int64, true),
    ])
});

/// Values are decimal numbers.
#[derive(Debug, Default)]
struct Numbers {
    values: AtomicUsize,
    columns: AtomicUsize,
}

impl PayloadDecoder for Numbers {
    fn fields(&self) -> &Fields {
        &FIELDS
    }

    fn decode(
        &self,
        values: &[Option<&[u8]>],
        projection: &[usize],
        errors: ErrorColumn,
    ) -> Result<Decoded, DecodeError> {
        self.values.fetch_add(values.len(), Ordering::Relaxed);
        self.columns.fetch_add(projection.len(), Ordering::Relaxed);
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
        let column = |index: &usize| -> ArrayRef {
            Arc::new(
                values
                    .iter()
                    .map(|value| match index {
                        0 => value.and_then(number),
                        _ => value.map(|value| value.len() as i64),
                    })
                    .collect::<Int64Array>(),
            )
        };
        let reasons = || -> StringViewArray {
            let reason =
                |value: &Option<&[u8]>| value.filter(|value| number(value).is_none()).map(|_| "not a number");
            values.iter().map(reason).collect()
        };
        let errors = (errors == ErrorColumn::Wanted).then(reasons);
        Ok(Decoded { columns: projection.iter().map(column).collect(), errors })
    }
}

async fn numbers() -> (Fixture, Arc<Numbers>) {
    let decoder = Arc::new(Numbers::default());
    let mut fixture = Fixture::new(1).await;
    fixture.decoder = Some(decoder.clone());
    let mut records: Vec<_> =
        (0..100).map(|i| record(T + i, &format!("k{i}"), &(i * 10).to_string())).collect();
    records.push(record(T + 100, "bad", "ten"));
    records.push(TestRecord { timestamp: Some(T + 101), ..TestRecord::default() });
    fixture.append(0, Compression::Zstd, &records).await;
    (fixture, decoder)
}

#[tokio::test]
async fn payload_columns_follow_the_system_columns() {
    let (fixture, _) = numbers().await;
    let rows = fixture.query("SELECT number, length FROM t WHERE _offset >= 99 ORDER BY _offset").await;
    assert_eq!(integers(&rows, 0), [Some(990), None, None]);
    assert_eq!(integers(&rows, 1), [Some(3), Some(3), None]);
}

#[tokio::test]
async fn a_value_that_does_not_decode_says_why_and_keeps_its_row() {
    let (fixture, _) = numbers().await;
    let rows = fixture.query("SELECT _value, number, _error FROM t WHERE _error IS NOT NULL").await;
    assert_eq!(texts(&rows, 0), [Some("ten".to_owned())]);
    assert_eq!(integers(&rows, 1), [None]);
    assert_eq!(texts(&rows, 2), [Some("not a number".to_owned())]);
}

#[tokio::test]
async fn only_rows_that_passed_cheaper_filters_are_decoded() {
    let (fixture, decoder) = numbers().await;
    let sql = "SELECT length FROM t WHERE number > 200 AND _key = 'k30' AND _offset < 90";
    assert_eq!(integers(&fixture.query(sql).await, 0), [Some(3)]);
    // Once for the filter on the number, once for the length of the row that passed it.
    assert_eq!(decoder.values.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn payload_is_not_decoded_unless_a_column_of_it_is_wanted() {
    let (fixture, decoder) = numbers().await;
    fixture.query("SELECT ts, _key, _value FROM t").await;
    fixture.query("SELECT count(*) FROM t WHERE _key = 'k1'").await;
    assert_eq!(decoder.values.load(Ordering::Relaxed), 0);
    fixture.query("SELECT number FROM t").await;
    assert_eq!(decoder.columns.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn columns_of_the_filter_are_decoded_once() {
    let (fixture, decoder) = numbers().await;
    let rows = fixture.query("SELECT number FROM t WHERE number = 500").await;
    assert_eq!(integers(&rows, 0), [Some(500)]);
    assert_eq!(decoder.values.load(Ordering::Relaxed), 102);
}
