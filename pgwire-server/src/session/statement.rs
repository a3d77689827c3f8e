//! Prepared statements: what the engine planned, and what the statement means for this crate's own state.

use strandline_engine::{OutputColumn, Prepared};
use strandline_sql::{PgType, Statement, Transaction};

use crate::encode::{Format, WireColumn, is_nested_list};
use crate::error::PgError;
use crate::sqlstate::SqlState;
use crate::wire::output::ColumnHeader;

/// The most columns of a result, as in PostgreSQL; RowDescription counts them in 16 bits.
const COLUMNS_MAX: usize = 1_664;

/// A statement that can be bound; an empty one has no plan.
#[derive(Debug)]
pub(crate) struct PreparedStatement {
    pub(crate) plan: Option<Plan>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) prepared: Prepared,
    pub(crate) effect: Effect,
}

/// What a statement does to the prepared statements and portals that live here, not in the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// COMMIT and ROLLBACK.
    EndsTransaction,
    RollsBackToSavepoint,
    DiscardAll,
    /// None = all.
    Deallocate(Option<String>),
    /// None = all.
    ClosePortal(Option<String>),
}

impl Effect {
    pub(crate) fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Transaction(Transaction::Commit | Transaction::Rollback) => Self::EndsTransaction,
            Statement::Transaction(Transaction::RollbackTo { .. }) => Self::RollsBackToSavepoint,
            Statement::DiscardAll => Self::DiscardAll,
            Statement::Deallocate { name } => Self::Deallocate(name.clone()),
            Statement::Close { name } => Self::ClosePortal(name.clone()),
            _ => Self::None,
        }
    }

    /// Whether a failed transaction still accepts the statement.
    pub(crate) fn recovers(&self) -> bool {
        matches!(self, Self::EndsTransaction | Self::RollsBackToSavepoint)
    }
}

impl PreparedStatement {
    pub(crate) fn parameter_types(&self) -> &[PgType] {
        self.plan.as_ref().map_or(&[], |plan| plan.prepared.parameter_types())
    }

    /// None when the statement gives no rows.
    pub(crate) fn columns(&self) -> Option<&[OutputColumn]> {
        self.plan.as_ref()?.prepared.columns()
    }
}

/// # Errors
/// When the protocol cannot count the columns.
pub(crate) fn check_column_count(columns: &[OutputColumn]) -> Result<(), PgError> {
    if columns.len() <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("a result of {} columns is over the bound of {COLUMNS_MAX}", columns.len());
    Err(PgError::new(SqlState::TOO_MANY_COLUMNS, message))
}

/// Spreads the formats of Bind over the columns: none = all text, one = all alike.
pub(crate) fn spread_formats(formats: &[Format], count: usize) -> Option<Vec<Format>> {
    match formats {
        [] => Some(vec![Format::Text; count]),
        [all] => Some(vec![*all; count]),
        each if each.len() == count => Some(each.to_vec()),
        _ => None,
    }
}

pub(crate) fn headers(columns: &[OutputColumn], formats: &[Format]) -> Vec<ColumnHeader> {
    columns
        .iter()
        .zip(formats)
        .map(|(column, format)| {
            let pg_type = wire_type(column);
            ColumnHeader {
                name: column.name.clone(),
                type_oid: pg_type.oid(),
                type_size: pg_type.size(),
                format: *format,
            }
        })
        .collect()
}

pub(crate) fn wire_columns(columns: &[OutputColumn], formats: &[Format]) -> Vec<WireColumn> {
    columns
        .iter()
        .zip(formats)
        .map(|(column, format)| WireColumn { pg_type: wire_type(column), format: *format })
        .collect()
}

/// Lists of structs and of lists, such as record headers, have no array type and are sent as JSON.
fn wire_type(column: &OutputColumn) -> PgType {
    match column.pg_type {
        PgType::Json | PgType::Jsonb => column.pg_type,
        _ if is_nested_list(column.field.data_type()) => PgType::Json,
        other => other,
    }
}
