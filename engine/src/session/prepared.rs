//! Prepared statements, and what running one gives.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use strandline_sql::{Parsed, PgType, Statement};

use crate::error::EngineError;
use crate::statement::RowStream;

use super::query::{self, PreparedQuery};
use super::shared::SessionCore;
use super::show;

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// As PostgreSQL would print it; names may repeat.
    pub name: String,
    pub pg_type: PgType,
    /// The Arrow type, and the metadata that says more of it.
    pub field: FieldRef,
}

impl OutputColumn {
    pub(crate) fn text(name: &str) -> Self {
        let field = Arc::new(Field::new(name, DataType::Utf8, false));
        Self { name: name.to_owned(), pg_type: PgType::Text, field }
    }
}

/// A statement that has been resolved and planned.
#[derive(Clone, Debug)]
pub struct Prepared {
    text: String,
    statement: Statement,
    parameter_types: Vec<PgType>,
    columns: Option<Vec<OutputColumn>>,
    query: Option<Arc<PreparedQuery>>,
}

impl Prepared {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    pub fn parameter_types(&self) -> &[PgType] {
        &self.parameter_types
    }

    /// The columns of the result; `None` when the statement has none.
    pub fn columns(&self) -> Option<&[OutputColumn]> {
        self.columns.as_deref()
    }

    pub(super) fn query(&self) -> Option<&Arc<PreparedQuery>> {
        self.query.as_ref()
    }
}

/// What running a statement gives.
#[derive(Debug)]
pub enum Execution {
    /// Rows, which come while the statement runs.
    Rows { columns: Vec<OutputColumn>, stream: RowStream, tag: RowsTag, notices: Vec<Notice> },
    /// No rows; the tag is what the client is told.
    Command {
        tag: String,
        notices: Vec<Notice>,
        /// Reported settings that changed, with their new values.
        parameter_status: Vec<(String, String)>,
    },
}

/// What kind of statement gave rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsTag {
    Select,
    Show,
    Explain,
}

/// Something that a client should know although its statement went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub severity: NoticeSeverity,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeSeverity {
    Notice,
    Warning,
}

impl Notice {
    pub(super) fn warning(message: impl Into<String>) -> Self {
        Self { severity: NoticeSeverity::Warning, message: message.into() }
    }

    pub(super) fn informational(message: impl Into<String>) -> Self {
        Self { severity: NoticeSeverity::Notice, message: message.into() }
    }
}

pub(super) async fn prepare(
    core: &SessionCore,
    parsed: Parsed,
    declared: Vec<Option<PgType>>,
) -> Result<Prepared, EngineError> {
    let Parsed { statement, text } = parsed;
    let mut parameter_types = Vec::new();
    let (columns, query) = match &statement {
        Statement::Query(inner) => {
            let query = query::prepare(core, inner).await?;
            parameter_types = query.planned.parameter_types(&declared);
            (Some(query.planned.columns.clone()), Some(Arc::new(query)))
        }
        Statement::Explain(explain) => {
            let query = query::prepare(core, &explain.inner).await?;
            parameter_types = query.planned.parameter_types(&declared);
            (Some(vec![OutputColumn::text("QUERY PLAN")]), Some(Arc::new(query)))
        }
        Statement::Show { name } => (Some(show::columns(core, name)?), None),
        _ => (None, None),
    };
    Ok(Prepared { text, statement, parameter_types, columns, query })
}
