//! The statements about the session itself, read from tokens: SET, SHOW, RESET, transaction words,
//! DISCARD, DEALLOCATE, CLOSE, UNLISTEN.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{SqlError, SqlErrorKind};
use crate::statement::{AccessMode, SetScope, Statement, Transaction, TransactionModes};

/// The session statement that the tokens hold; `None` when they begin like something else.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Statement, SqlError>> {
    let mut words = Words { tokens, next: 0 };
    let verb = words.word()?.to_ascii_uppercase();
    let parse: fn(&mut Words) -> Result<Statement, SqlError> = match verb.as_str() {
        "SET" => set,
        "SHOW" => show,
        "RESET" => reset,
        "BEGIN" | "START" => begin,
        "COMMIT" | "END" => commit,
        "ROLLBACK" | "ABORT" => rollback,
        "SAVEPOINT" => savepoint,
        "RELEASE" => release,
        "DISCARD" => discard,
        "DEALLOCATE" => deallocate,
        "CLOSE" => close,
        "UNLISTEN" => unlisten,
        _ => return None,
    };
    let begun_with_start = verb == "START";
    let statement = if begun_with_start && !words.take("TRANSACTION") {
        Err(words.unexpected())
    } else {
        parse(&mut words)
    };
    Some(statement.and_then(|statement| match words.peek() {
        None => Ok(statement),
        Some(_) => Err(words.unexpected()),
    }))
}

/// A reader over the words of one statement.
struct Words<'a> {
    tokens: &'a [TokenWithSpan],
    next: usize,
}

impl Words<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|token| &token.token)
    }

    fn is(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found))
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        self.next += usize::from(found);
        found
    }

    fn take_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.take(word))
    }

    fn require(&mut self, word: &str) -> Result<(), SqlError> {
        if self.take(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn take_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    /// The next word as PostgreSQL reads a name: folded to lower case unless it is quoted.
    fn word(&mut self) -> Option<String> {
        let Some(Token::Word(word)) = self.peek() else { return None };
        let name = match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_ascii_lowercase(),
        };
        self.next += 1;
        Some(name)
    }

    fn name(&mut self) -> Result<String, SqlError> {
        self.word().ok_or_else(|| self.unexpected())
    }

    /// `name` or `prefix.name`, as settings have it; in lower case.
    fn setting(&mut self) -> Result<String, SqlError> {
        let mut name = self.name()?;
        while self.take_token(&Token::Period) {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok(name.to_ascii_lowercase())
    }

    fn unexpected(&self) -> SqlError {
        let message = match self.peek() {
            Some(token) => format!("syntax error at or near \"{token}\""),
            None => "syntax error at end of input".to_owned(),
        };
        SqlError::new(SqlErrorKind::Syntax, message)
    }
}

fn set(words: &mut Words) -> Result<Statement, SqlError> {
    if words.take("TRANSACTION") {
        return Ok(Statement::SetTransaction { modes: modes(words)?, scope: SetScope::Local });
    }
    let mut scope = SetScope::Session;
    if words.take("SESSION") {
        if words.take("CHARACTERISTICS") {
            words.require("AS")?;
            words.require("TRANSACTION")?;
            return Ok(Statement::SetTransaction { modes: modes(words)?, scope });
        }
    } else if words.take("LOCAL") {
        scope = SetScope::Local;
    }
    if words.take("TIME") {
        words.require("ZONE")?;
        return Ok(Statement::Set { name: "timezone".to_owned(), value: time_zone(words)?, scope });
    }
    if words.take("NAMES") {
        let value = value(words)?;
        return Ok(Statement::Set { name: "client_encoding".to_owned(), value, scope });
    }
    if words.is("AUTHORIZATION") || words.is("ROLE") {
        return set_role(words, scope);
    }
    let name = words.setting()?;
    if !words.take_token(&Token::Eq) && !words.take("TO") {
        return Err(words.unexpected());
    }
    let value = value(words)?;
    Ok(Statement::Set { name, value, scope })
}

/// Only the roles that change nothing are accepted.
fn set_role(words: &mut Words, scope: SetScope) -> Result<Statement, SqlError> {
    let what = if words.take("ROLE") {
        "role"
    } else {
        words.require("AUTHORIZATION")?;
        "session_authorization"
    };
    let value = value(words)?;
    let unchanged = value.first().is_none_or(|role| role.eq_ignore_ascii_case("none"));
    if unchanged {
        Ok(Statement::Set { name: what.to_owned(), value: Vec::new(), scope })
    } else {
        Err(SqlError::unsupported(format!("SET {}", what.to_uppercase().replace('_', " "))))
    }
}

/// `SET TIME ZONE` also takes a number of hours, an interval, LOCAL and DEFAULT.
fn time_zone(words: &mut Words) -> Result<Vec<String>, SqlError> {
    if words.take("LOCAL") {
        return Ok(Vec::new());
    }
    if words.take("INTERVAL") {
        let value = value(words)?;
        if words.take("HOUR") && words.take("TO") {
            words.require("MINUTE")?;
        }
        return Ok(value);
    }
    value(words)
}

fn value(words: &mut Words) -> Result<Vec<String>, SqlError> {
    if words.take("DEFAULT") {
        return Ok(Vec::new());
    }
    let mut values = vec![single_value(words)?];
    while words.take_token(&Token::Comma) {
        values.push(single_value(words)?);
    }
    Ok(values)
}

fn single_value(words: &mut Words) -> Result<String, SqlError> {
    let negative = words.take_token(&Token::Minus);
    let positive = !negative && words.take_token(&Token::Plus);
    let signed = negative || positive;
    let value = match words.peek() {
        Some(Token::Number(number, _)) => number.clone(),
        Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) if !signed => text.clone(),
        Some(Token::Word(_)) if !signed => return words.name(),
        _ => return Err(words.unexpected()),
    };
    words.next += 1;
    Ok(if negative { format!("-{value}") } else { value })
}

fn show(words: &mut Words) -> Result<Statement, SqlError> {
    let name = if words.take("TIME") {
        words.require("ZONE")?;
        "timezone".to_owned()
    } else if words.take("TRANSACTION") {
        words.require("ISOLATION")?;
        words.require("LEVEL")?;
        "transaction_isolation".to_owned()
    } else if words.take("SESSION") {
        words.require("AUTHORIZATION")?;
        "session_authorization".to_owned()
    } else {
        words.setting()?
    };
    Ok(Statement::Show { name })
}

fn reset(words: &mut Words) -> Result<Statement, SqlError> {
    if words.take("ALL") {
        return Ok(Statement::Reset { name: None });
    }
    let name = if words.take("TIME") {
        words.require("ZONE")?;
        "timezone".to_owned()
    } else if words.take("SESSION") {
        words.require("AUTHORIZATION")?;
        "session_authorization".to_owned()
    } else {
        words.setting()?
    };
    Ok(Statement::Reset { name: Some(name) })
}

fn begin(words: &mut Words) -> Result<Statement, SqlError> {
    words.take_any(&["TRANSACTION", "WORK"]);
    Ok(Statement::Transaction(Transaction::Begin(modes(words)?)))
}

fn modes(words: &mut Words) -> Result<TransactionModes, SqlError> {
    let mut modes = TransactionModes::default();
    loop {
        if words.take("ISOLATION") {
            words.require("LEVEL")?;
            modes.isolation = Some(isolation(words)?);
        } else if words.take("READ") {
            modes.access = Some(if words.take("ONLY") { AccessMode::ReadOnly } else { read_write(words)? });
        } else if words.take("NOT") {
            words.require("DEFERRABLE")?;
        } else if words.take("SNAPSHOT") {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"));
        } else if !words.take("DEFERRABLE") && !words.take_token(&Token::Comma) {
            return Ok(modes);
        }
    }
}

fn read_write(words: &mut Words) -> Result<AccessMode, SqlError> {
    words.require("WRITE")?;
    Ok(AccessMode::ReadWrite)
}

fn isolation(words: &mut Words) -> Result<String, SqlError> {
    let level = if words.take("SERIALIZABLE") {
        "serializable"
    } else if words.take("REPEATABLE") {
        words.require("READ")?;
        "repeatable read"
    } else {
        words.require("READ")?;
        if words.take("COMMITTED") {
            "read committed"
        } else {
            words.require("UNCOMMITTED")?;
            "read uncommitted"
        }
    };
    Ok(level.to_owned())
}

fn commit(words: &mut Words) -> Result<Statement, SqlError> {
    words.take_any(&["TRANSACTION", "WORK"]);
    if words.is("PREPARED") {
        return Err(SqlError::unsupported("COMMIT PREPARED"));
    }
    no_chain(words)?;
    Ok(Statement::Transaction(Transaction::Commit))
}

fn rollback(words: &mut Words) -> Result<Statement, SqlError> {
    words.take_any(&["TRANSACTION", "WORK"]);
    if words.is("PREPARED") {
        return Err(SqlError::unsupported("ROLLBACK PREPARED"));
    }
    if words.take("TO") {
        words.take("SAVEPOINT");
        return Ok(Statement::Transaction(Transaction::RollbackTo { name: words.name()? }));
    }
    no_chain(words)?;
    Ok(Statement::Transaction(Transaction::Rollback))
}

fn no_chain(words: &mut Words) -> Result<(), SqlError> {
    if !words.take("AND") {
        return Ok(());
    }
    let chained = !words.take("NO");
    words.require("CHAIN")?;
    if chained { Err(SqlError::unsupported("AND CHAIN")) } else { Ok(()) }
}

fn savepoint(words: &mut Words) -> Result<Statement, SqlError> {
    Ok(Statement::Transaction(Transaction::Savepoint { name: words.name()? }))
}

fn release(words: &mut Words) -> Result<Statement, SqlError> {
    words.take("SAVEPOINT");
    Ok(Statement::Transaction(Transaction::Release { name: words.name()? }))
}

fn discard(words: &mut Words) -> Result<Statement, SqlError> {
    if words.take("ALL") {
        Ok(Statement::DiscardAll)
    } else if words.take("PLANS") {
        Ok(Statement::DiscardNothing { what: "PLANS" })
    } else if words.take("SEQUENCES") {
        Ok(Statement::DiscardNothing { what: "SEQUENCES" })
    } else if words.take_any(&["TEMPORARY", "TEMP"]) {
        Ok(Statement::DiscardNothing { what: "TEMP" })
    } else {
        Err(words.unexpected())
    }
}

fn deallocate(words: &mut Words) -> Result<Statement, SqlError> {
    words.take("PREPARE");
    Ok(Statement::Deallocate { name: all_or_name(words)? })
}

fn close(words: &mut Words) -> Result<Statement, SqlError> {
    Ok(Statement::Close { name: all_or_name(words)? })
}

fn all_or_name(words: &mut Words) -> Result<Option<String>, SqlError> {
    if words.take("ALL") { Ok(None) } else { words.name().map(Some) }
}

fn unlisten(words: &mut Words) -> Result<Statement, SqlError> {
    if !words.take_token(&Token::Mul) {
        words.name()?;
    }
    Ok(Statement::Unlisten)
}
