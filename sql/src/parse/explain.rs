//! EXPLAIN: its options, checked one by one, because an option that is dropped is a wrong answer.

use datafusion::sql::sqlparser::ast::{self, AnalyzeFormat, AnalyzeFormatKind, Expr, UtilityOption};

use crate::error::{SqlError, SqlErrorKind};
use crate::statement::{Explain, ExplainDetail, ExplainMode};

pub(super) fn explain(statement: ast::Statement) -> Result<Explain, SqlError> {
    let ast::Statement::Explain { analyze, verbose, statement, format, options, .. } = statement else {
        return Err(SqlError::unsupported("this statement"));
    };
    if !matches!(*statement, ast::Statement::Query(_)) {
        return Err(SqlError::unsupported("EXPLAIN of anything but a query"));
    }
    if !matches!(
        format,
        None | Some(
            AnalyzeFormatKind::Keyword(AnalyzeFormat::TEXT)
                | AnalyzeFormatKind::Assignment(AnalyzeFormat::TEXT)
        )
    ) {
        return Err(SqlError::unsupported("an EXPLAIN format other than TEXT"));
    }
    let mut explain = Explain {
        mode: if analyze { ExplainMode::Analyze } else { ExplainMode::Plan },
        detail: if verbose { ExplainDetail::Verbose } else { ExplainDetail::Normal },
        inner: statement,
    };
    for option in options.iter().flatten() {
        apply(&mut explain, option)?;
    }
    Ok(explain)
}

fn apply(explain: &mut Explain, option: &UtilityOption) -> Result<(), SqlError> {
    let argument = option.arg.as_ref().map(word).transpose()?;
    let name = option.name.value.to_ascii_lowercase();
    if name == "format" {
        return match argument.as_deref() {
            Some("text") => Ok(()),
            _ => Err(SqlError::unsupported("an EXPLAIN format other than TEXT")),
        };
    }
    let on = match argument.as_deref() {
        None | Some("true" | "on" | "1") => true,
        Some("false" | "off" | "0") => false,
        Some(other) => {
            return Err(SqlError::new(
                SqlErrorKind::Syntax,
                format!("EXPLAIN option {name} requires a boolean, not {other}"),
            ));
        }
    };
    match name.as_str() {
        "analyze" => explain.mode = if on { ExplainMode::Analyze } else { ExplainMode::Plan },
        "verbose" => explain.detail = if on { ExplainDetail::Verbose } else { ExplainDetail::Normal },
        // The plan shows what it has; these only ask for more or less of it.
        "costs" | "timing" | "summary" => {}
        _ if !on => {}
        _ => return Err(SqlError::unsupported(format!("the EXPLAIN option {}", name.to_uppercase()))),
    }
    Ok(())
}

fn word(argument: &Expr) -> Result<String, SqlError> {
    match argument {
        Expr::Identifier(ident) => Ok(ident.value.to_ascii_lowercase()),
        Expr::Value(value) => Ok(value.to_string().trim_matches('\'').to_ascii_lowercase()),
        other => {
            Err(SqlError::new(SqlErrorKind::Syntax, format!("{other} is not the value of an EXPLAIN option")))
        }
    }
}
