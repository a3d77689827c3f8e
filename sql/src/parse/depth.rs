//! How deep a syntax tree would become, told from its tokens before it is built.
//!
//! The parser bounds parentheses, but a chain such as `1 + 1 + 1` makes the tree one level deeper
//! per operator without nesting anything. Wide statements (long lists, many columns) are not deep.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::NESTING_MAX;
use crate::error::{SqlError, SqlErrorKind};

/// Operators in one chain, and how many chains of the parentheses around it add up; a cast counts as
/// `CAST_WEIGHT`.
pub const CHAINED_OPERATORS_MAX: usize = 600;

/// ANDs and ORs in one chain.
pub const CHAINED_CONDITIONS_MAX: usize = 1_000;

/// Set operations in one statement.
pub const SET_OPERATIONS_MAX: usize = 500;

/// A cast needs more stack than other operators.
const CAST_WEIGHT: usize = 5;

/// The chains inside one pair of parentheses.
#[derive(Debug, Default, Clone, Copy)]
struct Chains {
    operators: usize,
    conditions: usize,
}

/// Refuses what would make the syntax tree too deep for the walks over it.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut open = vec![Chains::default()];
    let mut sets = 0;
    for token in tokens {
        let Some(chains) = open.last_mut() else { break };
        match &token.token {
            Token::LParen | Token::LBracket => {
                // The parser refuses these too, but only after a walk over all of them per token here.
                if open.len() > NESTING_MAX {
                    let message =
                        format!("the statement nests deeper than the limit of {NESTING_MAX} levels");
                    return Err(SqlError::new(SqlErrorKind::TooComplex, message));
                }
                open.push(Chains::default());
            }
            Token::RParen | Token::RBracket => {
                // More closing than opening ones are the parser's business.
                if open.len() > 1 {
                    open.pop();
                }
            }
            Token::Comma => *chains = Chains::default(),
            Token::DoubleColon => chains.operators += CAST_WEIGHT,
            Token::Word(word) if word.quote_style.is_none() => {
                match word.value.to_ascii_uppercase().as_str() {
                    "AND" | "OR" => {
                        *chains = Chains { operators: 0, conditions: chains.conditions + 1 };
                    }
                    "NOT" | "COLLATE" | "IS" | "ISNULL" | "NOTNULL" | "AT" | "LIKE" | "ILIKE" | "IN" => {
                        chains.operators += 1;
                    }
                    "UNION" | "EXCEPT" | "INTERSECT" => sets += 1,
                    "SELECT" | "FROM" | "WHERE" | "GROUP" | "HAVING" | "ORDER" | "ON" | "JOIN" | "WHEN" => {
                        *chains = Chains::default();
                    }
                    _ => {}
                }
            }
            other if is_operand(other) => {}
            _ => chains.operators += 1,
        }
        bounded("operators", open.iter().map(|chains| chains.operators).sum(), CHAINED_OPERATORS_MAX)?;
        bounded("conditions", open.iter().map(|chains| chains.conditions).sum(), CHAINED_CONDITIONS_MAX)?;
    }
    bounded("set operations", sets, SET_OPERATIONS_MAX)
}

fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::Placeholder(_)
            | Token::Period
    )
}

fn bounded(what: &str, count: usize, most: usize) -> Result<(), SqlError> {
    if count <= most {
        return Ok(());
    }
    let message = format!("the statement chains more than {most} {what}");
    Err(SqlError::new(SqlErrorKind::TooComplex, message)
        .with_hint("an IN list counts as one operator, however long it is"))
}
