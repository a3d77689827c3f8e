//! From text to statements: splits at semicolons, keeps each statement's own text, and decides what
//! is supported. Whatever is not is refused by name, never ignored.
//!
//! Pure. Positions count characters from 1 in the whole text, as the Postgres protocol does.

mod depth;
mod dialect;
mod explain;
mod session;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

pub use depth::{CHAINED_CONDITIONS_MAX, CHAINED_OPERATORS_MAX, SET_OPERATIONS_MAX};

use crate::error::{SqlError, SqlErrorKind};
use crate::statement::{Parsed, Statement};
use dialect::StatementDialect;

/// How deep parentheses and subqueries may nest.
pub const NESTING_MAX: usize = 50;

/// The statements of a text. Empty statements and comments are none.
///
/// # Errors
/// Syntax errors, with their position, and statements that are not supported. An error anywhere
/// refuses the whole text, as in PostgreSQL.
pub fn parse(text: &str) -> Result<Vec<Parsed>, SqlError> {
    let lines = Lines::new(text);
    let tokens = Tokenizer::new(&StatementDialect, text)
        .tokenize_with_location()
        .map_err(|error| syntax_error(Some(&lines), &error.to_string()))?;
    let tokens: Vec<TokenWithSpan> = tokens.into_iter().map(|token| lines.on_one_line(token)).collect();
    tokens
        .split(|token| token.token == Token::SemiColon)
        .filter(|piece| piece.iter().any(|token| !is_blank(token)))
        .map(|piece| parse_one(text, piece))
        .collect()
}

fn parse_one(text: &str, piece: &[TokenWithSpan]) -> Result<Parsed, SqlError> {
    let tokens: Vec<TokenWithSpan> = piece.iter().filter(|token| !is_blank(token)).cloned().collect();
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
        return Err(SqlError::new(SqlErrorKind::Syntax, "empty statement"));
    };
    let start = byte_at(text, first.span.start);
    let end = byte_at(text, last.span.end).max(start);
    let position = position_of(first.span.start);
    depth::check(&tokens).map_err(|error| error.at(position))?;
    let statement = match session::parse(&tokens) {
        Some(statement) => statement.map_err(|error| error.at(position))?,
        None => parse_query(tokens, position)?,
    };
    Ok(Parsed { statement, text: text.get(start..end).unwrap_or(text).to_owned() })
}

fn parse_query(tokens: Vec<TokenWithSpan>, position: Option<usize>) -> Result<Statement, SqlError> {
    let verb = first_word(&tokens);
    let tokens = if verb == "TABLE" { table_as_select(tokens) } else { tokens };
    let mut parser =
        Parser::new(&StatementDialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().and_then(|statement| {
        let next = parser.peek_token();
        if next.token == Token::EOF {
            Ok(statement)
        } else {
            Err(ParserError::ParserError(format!("unexpected {}{}", next.token, next.span.start)))
        }
    });
    match parsed {
        Ok(statement) => classify(statement).map_err(|error| error.at(position)),
        Err(ParserError::RecursionLimitExceeded) => Err(SqlError::new(
            SqlErrorKind::TooComplex,
            format!("the statement nests deeper than the limit of {NESTING_MAX} levels"),
        )
        .at(position)),
        Err(_) if is_refused_verb(&verb) => Err(refused(&verb).at(position)),
        Err(error) => Err(syntax_error(None, &error.to_string())),
    }
}

/// `TABLE t` is `SELECT * FROM t`.
fn table_as_select(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let span = tokens.first().map_or(Span::empty(), |token| token.span);
    let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
    let select = select.into_iter().map(|token| TokenWithSpan { token, span });
    select.chain(tokens.into_iter().skip(1)).collect()
}

fn classify(statement: ast::Statement) -> Result<Statement, SqlError> {
    match statement {
        ast::Statement::Query(_) => Ok(Statement::Query(Box::new(statement))),
        ast::Statement::Explain { .. } => explain::explain(statement).map(Statement::Explain),
        other => {
            let text = other.to_string();
            Err(refused(&text.split_whitespace().next().unwrap_or("this statement").to_uppercase()))
        }
    }
}

/// Verbs of PostgreSQL that the grammar may not know, so that they are refused by name.
fn is_refused_verb(verb: &str) -> bool {
    const VERBS: &[&str] = &[
        "ALTER",
        "ANALYZE",
        "CALL",
        "CHECKPOINT",
        "CLUSTER",
        "COMMENT",
        "COPY",
        "CREATE",
        "DECLARE",
        "DELETE",
        "DO",
        "DROP",
        "EXECUTE",
        "FETCH",
        "GRANT",
        "IMPORT",
        "INSERT",
        "LISTEN",
        "LOAD",
        "LOCK",
        "MERGE",
        "MOVE",
        "NOTIFY",
        "PREPARE",
        "REASSIGN",
        "REFRESH",
        "REINDEX",
        "REVOKE",
        "SECURITY",
        "TRUNCATE",
        "UPDATE",
        "VACUUM",
    ];
    VERBS.contains(&verb)
}

fn refused(verb: &str) -> SqlError {
    let error = SqlError::new(SqlErrorKind::FeatureNotSupported, format!("{verb} is not supported yet"));
    match verb {
        "INSERT" | "COPY" | "MERGE" => {
            error.with_hint("produce records with a Kafka client or `strandline produce`")
        }
        "UPDATE" | "DELETE" | "TRUNCATE" => {
            error.with_hint("a log is append-only: records are not changed in place")
        }
        "CREATE" | "ALTER" | "DROP" => {
            error.with_hint("topics are managed with a Kafka client or `strandline topic`")
        }
        "DECLARE" | "FETCH" | "MOVE" => {
            error.with_hint("rows are streamed, also through a portal with a row limit")
        }
        "PREPARE" | "EXECUTE" => error.with_hint("use the prepared statements of the protocol"),
        _ => error,
    }
}

fn first_word(tokens: &[TokenWithSpan]) -> String {
    match tokens.first().map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_uppercase(),
        _ => String::new(),
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

/// Finds places in a text from the lines and columns of the tokenizer.
struct Lines {
    /// The character at which each line begins, counted from 0.
    starts: Vec<usize>,
}

impl Lines {
    fn new(text: &str) -> Self {
        let breaks = text.chars().enumerate().filter(|(_, value)| *value == '\n');
        Self { starts: std::iter::once(0).chain(breaks.map(|(index, _)| index + 1)).collect() }
    }

    /// The place as if the text were one line, so that every span in the tree is a position.
    fn flat(&self, location: Location) -> Location {
        let line = usize::try_from(location.line).unwrap_or(0);
        let start = line.checked_sub(1).and_then(|line| self.starts.get(line)).copied().unwrap_or(0);
        Location { line: 1, column: location.column.saturating_add(start as u64) }
    }

    fn on_one_line(&self, mut token: TokenWithSpan) -> TokenWithSpan {
        token.span = Span { start: self.flat(token.span.start), end: self.flat(token.span.end) };
        token
    }
}

/// The character that a flat location names, counted from 1; `None` when there is no location.
pub(crate) fn position_of(location: Location) -> Option<usize> {
    usize::try_from(location.column).ok().filter(|column| *column > 0)
}

fn byte_at(text: &str, location: Location) -> usize {
    let characters = position_of(location).unwrap_or(1) - 1;
    text.char_indices().nth(characters).map_or(text.len(), |(byte, _)| byte)
}

/// The parser's messages end with a place, which becomes a position. The tokenizer's places still
/// have lines; the parser's are flat.
fn syntax_error(lines: Option<&Lines>, message: &str) -> SqlError {
    let message = message.strip_prefix("sql parser error: ").unwrap_or(message);
    let (what, place) = match message.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, parse_location(place)),
        None => (message, None),
    };
    let place = place.map(|location| lines.map_or(location, |lines| lines.flat(location)));
    let mut what = what.to_owned();
    if let Some(first) = what.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    SqlError::new(SqlErrorKind::Syntax, format!("syntax error: {what}")).at(place.and_then(position_of))
}

fn parse_location(place: &str) -> Option<Location> {
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location { line: line.parse().ok()?, column: column.trim().parse().ok()? })
}

#[cfg(test)]
mod tests;
