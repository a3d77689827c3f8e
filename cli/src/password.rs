//! Passwords: from the environment, or from a person at a terminal, who does not see what is typed.
//!
//! Invariant: a password is never a flag, which other users of the machine could see.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::config;
use crate::failure::Failure;

/// A user's own password: STRANDLINE_PASSWORD, or what is typed.
///
/// # Errors
/// Neither the variable nor a terminal.
pub fn of_user(user: &str) -> Result<String, Failure> {
    if let Some(password) = config::client_password() {
        return Ok(password);
    }
    ask(&format!("Password of {user}: ")).map_err(|error| match error {
        AskError::NoTerminal => Failure::Usage(format!(
            "the password of \"{user}\" is missing: set STRANDLINE_PASSWORD, or run this at a terminal to be asked"
        )),
        AskError::Failed(failure) => failure,
    })
}

/// A new password: typed twice at a terminal, or else the first line of standard input.
///
/// # Errors
/// Two that differ, or none.
pub fn new_of_user(user: &str) -> Result<String, Failure> {
    let failed = |error| match error {
        AskError::NoTerminal => Failure::failed("standard input is no terminal any more"),
        AskError::Failed(failure) => failure,
    };
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let password = ask(&format!("New password of {user}: ")).map_err(failed)?;
    if ask("Again: ").map_err(failed)? != password {
        return Err(Failure::Usage("the two passwords are not the same".to_owned()));
    }
    Ok(password)
}

enum AskError {
    NoTerminal,
    Failed(Failure),
}

fn ask(prompt: &str) -> Result<String, AskError> {
    if !io::stdin().is_terminal() {
        return Err(AskError::NoTerminal);
    }
    // On standard error, so that standard output can go into a file.
    eprint!("{prompt}");
    let _ = io::stderr().flush();
    let hidden = Hidden::begin();
    let line = read_line().map_err(AskError::Failed);
    drop(hidden);
    eprintln!();
    line
}

fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::failed(format!("cannot read a password: {error}")))?;
    let password = line.trim_end_matches(['\r', '\n']);
    match password.is_empty() {
        true => Err(Failure::Usage("no password was given".to_owned())),
        false => Ok(password.to_owned()),
    }
}

/// The terminal does not show what is typed for as long as this lives.
struct Hidden;

impl Hidden {
    fn begin() -> Self {
        stty("-echo");
        Self
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        stty("echo");
    }
}

/// Without the tool what is typed is seen, which is better than no way to type it.
fn stty(argument: &str) {
    let _ = Command::new("stty").arg(argument).stdin(Stdio::inherit()).stderr(Stdio::null()).status();
}
