//! Decoded records and the columns that are built from them, each only when it is asked for and only
//! for the records that are still wanted.
//!
//! Invariant: a column that was built stays in step with the rows when rows are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, TimestampMillisecondArray, new_null_array,
};
use datafusion::arrow::compute::filter;
use datafusion::common::{Result, internal_datafusion_err, internal_err};

use super::columns::{ColumnFormat, SystemColumn, TableLayout};
use super::decoder::{Decoded, ErrorColumn};
use super::error::external;
use super::headers::headers_column;
use super::views::{ByteField, bytes_column, text_column};
use crate::format::{Record, Records};

/// One record, and what it needs of the batch and block that it stands in.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) record: Record<'a>,
    pub(super) records: &'a Records,
    pub(super) append_time_ms: i64,
}

/// Rows of one partition that are still wanted, in the order of the scan.
pub(super) struct RowSet<'a> {
    layout: &'a TableLayout,
    partition: i32,
    rows: Vec<&'a Row<'a>>,
    /// Columns built so far, by position in the table.
    built: BTreeMap<usize, ArrayRef>,
}

impl<'a> RowSet<'a> {
    pub(super) fn new(layout: &'a TableLayout, partition: i32, rows: Vec<&'a Row<'a>>) -> Self {
        Self { layout, partition, rows, built: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keeps the rows that the mask has true for. It has no nulls.
    pub(super) fn retain(&mut self, mask: &BooleanArray) -> Result<()> {
        if mask.true_count() == self.rows.len() {
            return Ok(());
        }
        let before = self.rows.len();
        let mut passes = mask.values().iter();
        self.rows.retain(|_| passes.next().unwrap_or(false));
        if self.rows.len() < before / 4 {
            // They keep whole batches in memory; built again for few rows, they will not.
            self.built.retain(|position, _| !SystemColumn::from_index(*position).is_some_and(is_view));
        }
        for column in self.built.values_mut() {
            *column = filter(column, mask)?;
        }
        Ok(())
    }

    /// Keeps the first `count` rows.
    pub(super) fn truncate(&mut self, count: usize) {
        if count < self.rows.len() {
            self.rows.truncate(count);
            self.built.values_mut().for_each(|column| *column = column.slice(0, count));
        }
    }

    /// The columns at these positions of the table.
    pub(super) fn columns(&mut self, positions: &[usize]) -> Result<Vec<ArrayRef>> {
        self.build_payload(positions)?;
        for position in positions {
            if !self.built.contains_key(position) {
                let column = self.build_system(*position)?;
                self.built.insert(*position, column);
            }
        }
        Ok(positions.iter().map(|position| self.built[position].clone()).collect())
    }

    fn build_system(&self, position: usize) -> Result<ArrayRef> {
        let column = SystemColumn::from_index(position)
            .ok_or_else(|| internal_datafusion_err!("payload column {position} was not built"))?;
        let records = self.rows.iter().map(|row| &row.record);
        Ok(match column {
            SystemColumn::Timestamp => timestamps(records.map(|record| record.timestamp)),
            SystemColumn::Partition => Arc::new(Int32Array::from(vec![self.partition; self.rows.len()])),
            SystemColumn::Offset => Arc::new(records.map(|record| record.offset).collect::<Int64Array>()),
            SystemColumn::Key => self.shown(ByteField::Key, self.layout.key_format),
            SystemColumn::Value => self.shown(ByteField::Value, self.layout.value_format),
            SystemColumn::Headers => headers_column(records.map(|record| record.headers)),
            SystemColumn::AppendTimestamp => timestamps(self.rows.iter().map(|row| Some(row.append_time_ms))),
            SystemColumn::KeyBytes => bytes_column(&self.rows, ByteField::Key),
            SystemColumn::ValueBytes => bytes_column(&self.rows, ByteField::Value),
            SystemColumn::Error => {
                new_null_array(self.layout.schema.field(position).data_type(), self.rows.len())
            }
        })
    }

    fn shown(&self, field: ByteField, format: ColumnFormat) -> ArrayRef {
        match format {
            ColumnFormat::Json | ColumnFormat::Text => text_column(&self.rows, field),
            ColumnFormat::Bytes => bytes_column(&self.rows, field),
        }
    }

    /// Decodes the payload columns among `positions` that are not there yet, all at once.
    fn build_payload(&mut self, positions: &[usize]) -> Result<()> {
        let Some(decoder) = &self.layout.decoder else {
            return Ok(());
        };
        let missing = |position: &usize| !self.built.contains_key(position);
        let wanted: Vec<usize> = positions
            .iter()
            .copied()
            .filter(missing)
            .filter(|position| TableLayout::payload_index(*position).is_some())
            .collect();
        let error = SystemColumn::Error.index();
        let error_wanted = positions.contains(&error) && missing(&error);
        if wanted.is_empty() && !error_wanted {
            return Ok(());
        }
        let projection: Vec<usize> = wanted.iter().filter_map(|p| TableLayout::payload_index(*p)).collect();
        let values: Vec<_> = self.rows.iter().map(|row| row.record.value).collect();
        let errors = if error_wanted { ErrorColumn::Wanted } else { ErrorColumn::Unwanted };
        let decoded = decoder.decode(&values, &projection, errors).map_err(external)?;
        self.take_decoded(wanted, error_wanted.then_some(error), decoded)
    }

    /// A decoder that answers with other columns than it was asked for is a fault of this program.
    fn take_decoded(&mut self, wanted: Vec<usize>, error: Option<usize>, decoded: Decoded) -> Result<()> {
        if decoded.columns.len() != wanted.len() {
            return internal_err!(
                "asked for {} payload columns, got {}",
                wanted.len(),
                decoded.columns.len()
            );
        }
        self.built.extend(wanted.into_iter().zip(decoded.columns));
        if let Some(position) = error {
            let errors =
                decoded.errors.ok_or_else(|| internal_datafusion_err!("asked for errors, got none"))?;
            self.built.insert(position, Arc::new(errors));
        }
        match self.built.values().find(|column| column.len() != self.rows.len()) {
            Some(column) => internal_err!("decoded {} values into {} rows", self.rows.len(), column.len()),
            None => Ok(()),
        }
    }
}

/// The column may share bytes with the batches of its rows.
fn is_view(column: SystemColumn) -> bool {
    use SystemColumn::{Key, KeyBytes, Value, ValueBytes};
    matches!(column, Key | KeyBytes | Value | ValueBytes)
}

fn timestamps(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
}
