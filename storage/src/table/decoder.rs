//! The seam to payload formats: what turns the values of records into columns.
//!
//! It must not know any format; those are implemented by whoever builds the table.

use std::fmt;

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::Fields;

/// The payload columns of one topic.
pub trait PayloadDecoder: Send + Sync + fmt::Debug {
    /// The payload columns, in order.
    fn fields(&self) -> &Fields;

    /// Decodes values: one per record, `None` where the record has none (a tombstone).
    ///
    /// `projection` holds positions in [`fields`](Self::fields); the answer has one array for each,
    /// in that order, each as long as `values`. A value that does not decode is null in every
    /// column, never an error of the whole.
    ///
    /// # Errors
    /// Only what concerns all values alike, such as a schema that is not there.
    fn decode(
        &self,
        values: &[Option<&[u8]>],
        projection: &[usize],
        errors: ErrorColumn,
    ) -> Result<Decoded, DecodeError>;
}

/// Whether the caller wants to know why values did not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorColumn {
    Wanted,
    Unwanted,
}

/// What a decoder made of values.
#[derive(Clone, Debug)]
pub struct Decoded {
    pub columns: Vec<ArrayRef>,
    /// Why each value did not decode, null where it did. There if it was wanted.
    pub errors: Option<StringViewArray>,
}

/// A decoder could not decode at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload cannot be decoded: {reason}")]
pub struct DecodeError {
    reason: String,
}

impl DecodeError {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}
