//! `strandline sql`: statements in, rows out, from a server or from a data directory.
//!
//! Both ways speak the Postgres protocol to the same server code; for a data directory it runs inside
//! this process, read-only, on a stream in memory. So results look the same from both.

use std::io::{IsTerminal, Read};

use futures::{TryStreamExt, pin_mut};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::args::SqlArgs;
use crate::failure::Failure;
use crate::output::print;

mod database_error;
mod printer;
mod server;
mod target;

use printer::{Column, Printer};
use target::Target;

/// The most SQL that is read from standard input.
const SQL_BYTES_MAX: u64 = 16 << 20;
/// Rows are printed when there is this much text.
const PRINT_BYTES: usize = 64 << 10;

/// `strandline sql`.
pub async fn run(args: SqlArgs) -> Result<(), Failure> {
    let text = match &args.sql {
        Some(sql) => sql.clone(),
        None => standard_input()?,
    };
    let statements = split(&text)?;
    let client = target::connect(&Target::of(&args)?).await?;
    for statement in statements {
        execute(&client, &statement, Printer::new(args.format)).await?;
    }
    Ok(())
}

fn standard_input() -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "no SQL given; try: strandline sql \"SELECT * FROM strandline.topics\"".to_owned(),
        ));
    }
    let mut text = String::new();
    let read = std::io::stdin().take(SQL_BYTES_MAX + 1).read_to_string(&mut text);
    let read =
        read.map_err(|error| Failure::failed(format!("cannot read SQL from standard input: {error}")))?;
    if read as u64 > SQL_BYTES_MAX {
        return Err(Failure::failed(format!("more than {SQL_BYTES_MAX} bytes of SQL on standard input")));
    }
    Ok(text)
}

/// The statements of a text, each with its own words, so that they are run one after the other.
fn split(text: &str) -> Result<Vec<String>, Failure> {
    let parsed = strandline_sql::parse(text).map_err(Failure::failed)?;
    Ok(parsed.into_iter().map(|statement| statement.text).collect())
}

async fn execute(client: &Client, statement: &str, mut printer: Printer) -> Result<(), Failure> {
    // Preparing tells the types, which the simple protocol does not; the rows then come as text.
    let prepared = client.prepare(statement).await.map_err(database_error::failure)?;
    printer.begin(prepared.columns().iter().map(Column::of).collect());
    let messages = client.simple_query_raw(statement).await.map_err(database_error::failure)?;
    pin_mut!(messages);
    let mut text = String::new();
    while let Some(message) = messages.try_next().await.map_err(database_error::failure)? {
        if let SimpleQueryMessage::Row(row) = message {
            let cells: Vec<Option<&str>> = (0..row.len()).map(|column| row.get(column)).collect();
            text.push_str(&printer.row(&cells));
        }
        if text.len() >= PRINT_BYTES {
            print(&std::mem::take(&mut text))?;
        }
    }
    text.push_str(&printer.end());
    print(&text)
}
