//! Portals: a statement with its parameters, and how far its rows have been sent.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use strandline_engine::{RowStream, RowsTag};

use super::statement::PreparedStatement;
use crate::encode::{EncodableBatch, Format, TextStyle, WireColumn};
use crate::error::PgError;

#[derive(Debug)]
pub(crate) struct Portal {
    pub(crate) statement: Arc<PreparedStatement>,
    /// One per result column.
    pub(crate) formats: Vec<Format>,
    pub(crate) state: PortalState,
}

#[derive(Debug)]
pub(crate) enum PortalState {
    Bound(Vec<ScalarValue>),
    Open(RowSource),
    /// All rows are sent; a further Execute finds none.
    Exhausted(RowsTag),
    /// A command cannot run twice.
    CommandDone,
}

/// Rows of a running query, encoded one by one.
pub(crate) struct RowSource {
    stream: RowStream,
    pub(crate) tag: RowsTag,
    layout: Vec<WireColumn>,
    style: TextStyle,
    batch: Option<EncodableBatch>,
    next_row: usize,
}

impl std::fmt::Debug for RowSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RowSource").field("next_row", &self.next_row).finish_non_exhaustive()
    }
}

impl RowSource {
    pub(crate) fn new(stream: RowStream, tag: RowsTag, layout: Vec<WireColumn>, style: TextStyle) -> Self {
        Self { stream, tag, layout, style, batch: None, next_row: 0 }
    }

    /// Makes sure that a row waits. False at the end. May be dropped and called again.
    pub(crate) async fn fill(&mut self) -> Result<bool, PgError> {
        while !self.has_row() {
            let Some(batch) = self.stream.next().await else { return Ok(false) };
            self.batch = Some(EncodableBatch::new(&batch?, &self.layout)?);
            self.next_row = 0;
        }
        Ok(true)
    }

    pub(crate) fn has_row(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| self.next_row < batch.row_count())
    }

    /// Appends the next of the rows that wait.
    pub(crate) fn write_row(&mut self, out: &mut BytesMut) -> Result<(), PgError> {
        if let Some(batch) = &self.batch {
            batch.write_row(self.next_row, &self.style, out)?;
            self.next_row += 1;
        }
        Ok(())
    }
}
