//! What the server said when it refused a statement.

use tokio_postgres::Error;

use crate::failure::Failure;

/// The server's words, its SQLSTATE and its hint; a connection that broke is "cannot reach".
pub fn failure(error: Error) -> Failure {
    match error.as_db_error() {
        Some(refusal) => {
            let mut text = format!("{} {}: {}", refusal.severity(), refusal.code().code(), refusal.message());
            for (name, note) in [("detail", refusal.detail()), ("hint", refusal.hint())] {
                if let Some(note) = note {
                    text.push_str(&format!("\n{name}: {note}"));
                }
            }
            Failure::failed(text)
        }
        None if error.is_closed() => Failure::Unreachable("the server closed the connection".to_owned()),
        None => Failure::Failed(error.into()),
    }
}
