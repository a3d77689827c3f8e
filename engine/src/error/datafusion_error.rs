//! What DataFusion's errors mean to the one who wrote the statement.
//!
//! DataFusion has few kinds, so some of them are told apart by their text; what is not recognised
//! keeps its text and becomes a plan or data error, never another statement's meaning.

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use strandline_sql::SqlError;
use strandline_storage::log::FetchError;
use strandline_storage::table::ScanError;

use super::rephrase::{bad_cast, rephrased, without_tree};
use super::text::{execution_kind, plan_kind};
use super::{EngineError, ErrorKind};

impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        from_root(error.find_root())
    }
}

fn from_root(error: &DataFusionError) -> EngineError {
    if let Some(known) = find_known(error) {
        return known;
    }
    let message = message_of(error);
    match error {
        DataFusionError::SchemaError(schema_error, _) => from_schema_error(schema_error, message),
        DataFusionError::ArrowError(arrow_error, _) => from_arrow_error(arrow_error),
        DataFusionError::SQL(..) => EngineError::new(ErrorKind::Syntax, message),
        DataFusionError::NotImplemented(_) => without_tree(&message)
            .unwrap_or_else(|| EngineError::new(ErrorKind::FeatureNotSupported, message)),
        DataFusionError::ResourcesExhausted(_) => out_of_memory(&message),
        DataFusionError::IoError(_) => EngineError::new(ErrorKind::Unavailable, message),
        DataFusionError::Plan(_) => {
            let known = without_tree(&message).or_else(|| rephrased(&message));
            known.unwrap_or_else(|| EngineError::new(plan_kind(&message), message))
        }
        DataFusionError::Execution(_) | DataFusionError::External(_) => {
            EngineError::new(execution_kind(&message), message)
        }
        _ => EngineError::new(ErrorKind::Internal, message),
    }
}

/// An error of ours or of storage's, anywhere in the chain of causes.
fn find_known(error: &DataFusionError) -> Option<EngineError> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    if let DataFusionError::External(external) = error {
        cause = Some(external.as_ref());
    }
    while let Some(error) = cause {
        if let Some(known) = error.downcast_ref::<EngineError>() {
            return Some(known.clone());
        }
        if let Some(sql_error) = error.downcast_ref::<SqlError>() {
            return Some(sql_error.clone().into());
        }
        if let Some(fetch_error) = error.downcast_ref::<FetchError>() {
            return Some(EngineError::new(fetch_kind(fetch_error), fetch_error.to_string()));
        }
        if let Some(scan_error @ ScanError::Fetch { source, .. }) = error.downcast_ref::<ScanError>() {
            return Some(EngineError::new(fetch_kind(source), scan_error.to_string()));
        }
        cause = error.source();
    }
    None
}

fn fetch_kind(error: &FetchError) -> ErrorKind {
    match error {
        FetchError::Damaged { .. } => ErrorKind::DataCorrupted,
        FetchError::Unavailable { .. } => ErrorKind::Unavailable,
        FetchError::OutOfRange { .. } => ErrorKind::DataException,
        FetchError::Removed { .. } => ErrorKind::SnapshotGone,
    }
}

fn from_schema_error(error: &SchemaError, message: String) -> EngineError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let candidates: Vec<_> =
                valid_fields.iter().take(20).map(|column| format!("\"{}\"", column.name)).collect();
            let error = EngineError::new(
                ErrorKind::UndefinedColumn,
                format!("column \"{}\" does not exist", field.name),
            );
            match candidates.is_empty() {
                true => error,
                false => error.with_hint(format!("the columns are {}", candidates.join(", "))),
            }
        }
        SchemaError::AmbiguousReference { field } => EngineError::new(
            ErrorKind::AmbiguousColumn,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        _ => EngineError::new(ErrorKind::DatatypeMismatch, message),
    }
}

fn from_arrow_error(error: &ArrowError) -> EngineError {
    let kind = match error {
        ArrowError::DivideByZero => return EngineError::new(ErrorKind::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => ErrorKind::NumericOutOfRange,
        ArrowError::CastError(text) => match bad_cast(text) {
            Some(error) => return error,
            None => ErrorKind::InvalidText,
        },
        ArrowError::ParseError(_) => ErrorKind::InvalidText,
        ArrowError::NotYetImplemented(_) => ErrorKind::FeatureNotSupported,
        ArrowError::MemoryError(_) => ErrorKind::OutOfMemory,
        ArrowError::ExternalError(external) => {
            if let Some(DataFusionError::External(_)) = external.downcast_ref::<DataFusionError>() {
                return from_root(external.downcast_ref().expect("it was one in the line above"));
            }
            ErrorKind::DataException
        }
        ArrowError::ComputeError(text) | ArrowError::InvalidArgumentError(text) => execution_kind(text),
        _ => ErrorKind::DataException,
    };
    let text = error.to_string();
    let message = text.split_once(" error: ").map_or(text.as_str(), |(_, message)| message);
    EngineError::new(kind, readable(message))
}

fn out_of_memory(message: &str) -> EngineError {
    EngineError::new(ErrorKind::OutOfMemory, "out of memory")
        .with_detail(message)
        .with_hint("raise the memory for queries, or select less")
}

fn message_of(error: &DataFusionError) -> String {
    readable(&error.message())
}

/// The text without a backtrace and with a lower-case start, as the other messages have.
fn readable(text: &str) -> String {
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().trim();
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::Column;

    use super::*;

    #[test]
    fn faults_in_the_data_have_their_own_kinds() {
        let division = DataFusionError::from(ArrowError::DivideByZero);
        let error = EngineError::from(division.context("while filtering"));
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::DivisionByZero, "division by zero"));
        let cast = ArrowError::CastError("Cannot cast string 'x' to value of Int64 type".to_owned());
        let error = EngineError::from(DataFusionError::from(cast));
        assert_eq!(error.kind, ErrorKind::InvalidText);
        assert_eq!(error.message, "invalid input syntax for type bigint: \"x\"");
    }

    #[test]
    fn damage_names_the_object_and_the_offsets() {
        let damage = FetchError::Damaged {
            object: "shards/0/wal/1/0/7".to_owned(),
            base_offset: 10,
            last_offset: 19,
            reason: "crc".to_owned(),
        };
        let error = EngineError::from(DataFusionError::External(Box::new(damage)));
        assert_eq!(error.kind, ErrorKind::DataCorrupted);
        assert!(error.message.contains("shards/0/wal/1/0/7"), "{error}");
        assert!(error.message.contains("10 to 19"), "{error}");
    }

    #[test]
    fn an_unknown_column_lists_the_others() {
        let schema = SchemaError::FieldNotFound {
            field: Box::new("nope".into()),
            valid_fields: vec!["a".into(), Column::from_name("B")],
        };
        let error = EngineError::from(DataFusionError::SchemaError(Box::new(schema), Box::new(None)));
        assert_eq!(error.kind, ErrorKind::UndefinedColumn);
        assert_eq!(error.message, "column \"nope\" does not exist");
        assert_eq!(error.hint.as_deref(), Some("the columns are \"a\", \"B\""));
    }
}
