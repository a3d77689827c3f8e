//! What a record's value means as columns: the types a JSON column can have, the exact conversion
//! into each, and the decoder that storage's scan calls.
//!
//! Invariant: decoding is a pure function of the value's bytes and of the column types. A value that
//! does not convert exactly is NULL in its column; nothing here fails a query for one record.

pub mod column_type;
pub mod json;
pub mod members;
pub mod number;

pub use column_type::ColumnType;
pub use json::JsonDecoder;
