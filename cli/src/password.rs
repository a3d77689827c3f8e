//! Passwords: from the environment, or from a person at a terminal, who does not see what is typed.
//!
//! Invariant: a password is never a flag, which other users of the machine could see.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::config;
use crate::failure::Failure;

/// Reads a line without showing it, and shows what is typed again afterwards.
const READ_HIDDEN: &str = "trap 'stty echo' EXIT; trap 'exit 130' INT TERM; stty -echo; IFS= read -r line; \
                           printf '%s' \"$line\"";

/// Who one is, and what proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Login {
    /// `None`: somebody without a name.
    ///
    /// # Errors
    /// A password that cannot be had.
    pub fn of(user: Option<&String>) -> Result<Option<Self>, Failure> {
        let login = user.map(|user| Ok(Self { user: user.clone(), password: of_user(user)? }));
        login.transpose()
    }
}

/// A user's own password: STRANDLINE_PASSWORD, or what is typed.
///
/// # Errors
/// Neither the variable nor a terminal.
fn of_user(user: &str) -> Result<String, Failure> {
    if let Some(password) = config::client_password() {
        return Ok(password);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "the password of \"{user}\" is missing: set STRANDLINE_PASSWORD, or run this at a terminal to be asked"
        )));
    }
    ask(&format!("Password of {user}: "))
}

/// A new password: typed twice at a terminal, or else the first line of standard input.
///
/// # Errors
/// Two that differ, or none.
pub fn new_of_user(user: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let password = ask(&format!("New password of {user}: "))?;
    if ask("Again: ")? != password {
        return Err(Failure::Usage("the two passwords are not the same".to_owned()));
    }
    Ok(password)
}

/// Asks somebody at the terminal that is standard input.
fn ask(prompt: &str) -> Result<String, Failure> {
    // On standard error, so that standard output can go into a file.
    eprint!("{prompt}");
    let _ = io::stderr().flush();
    let line = read_hidden();
    eprintln!();
    line
}

/// Reads a line that the terminal does not show. The shell sets the terminal back also when somebody
/// interrupts it, which ends this process too.
fn read_hidden() -> Result<String, Failure> {
    let mut shell = Command::new("sh");
    shell.args(["-c", READ_HIDDEN]).stdin(Stdio::inherit()).stderr(Stdio::inherit());
    match shell.output() {
        Ok(output) if output.status.success() => password_of(&String::from_utf8_lossy(&output.stdout)),
        Ok(_) => Err(Failure::Usage("no password was given".to_owned())),
        // Without a shell what is typed is seen, which is better than no way to type it.
        Err(_) => read_line(),
    }
}

fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::failed(format!("cannot read a password: {error}")))?;
    password_of(&line)
}

fn password_of(line: &str) -> Result<String, Failure> {
    let password = line.trim_end_matches(['\r', '\n']);
    match password.is_empty() {
        true => Err(Failure::Usage("no password was given".to_owned())),
        false => Ok(password.to_owned()),
    }
}
