//! The three ports, bound all or none. When one is taken, the message names it and shows the whole
//! command with a free one.

use std::io;

use tokio::net::TcpListener;

use crate::config::Config;
use crate::failure::Failure;
use crate::units::HostPort;

/// Ports that hold connections, before anything answers on them.
#[derive(Debug)]
pub struct Listeners {
    pub kafka: TcpListener,
    pub pg: TcpListener,
    pub http: TcpListener,
}

/// How many ports after the wanted one are tried for the suggestion.
const SUGGESTIONS_MAX: u16 = 100;

/// A port that is taken, and one that would be free.
#[derive(Debug)]
struct Taken {
    flag: &'static str,
    wanted: HostPort,
    free: Option<HostPort>,
}

enum BindError {
    Taken(Taken),
    Other(Failure),
}

impl Listeners {
    pub async fn bind(config: &Config) -> Result<Self, Failure> {
        let kafka = bind("--kafka-listen", &config.kafka.listen).await;
        let pg = bind("--pg-listen", &config.pg.listen).await;
        let http = bind("--http-listen", &config.http.listen).await;
        match (kafka, pg, http) {
            (Ok(kafka), Ok(pg), Ok(http)) => Ok(Self { kafka, pg, http }),
            (kafka, pg, http) => {
                let mut taken = Vec::new();
                for error in [kafka.err(), pg.err(), http.err()].into_iter().flatten() {
                    match error {
                        BindError::Taken(port) => taken.push(port),
                        BindError::Other(failure) => return Err(failure),
                    }
                }
                Err(ports_taken(&taken, std::env::args().collect()))
            }
        }
    }
}

async fn bind(flag: &'static str, address: &HostPort) -> Result<TcpListener, BindError> {
    match TcpListener::bind((address.host.as_str(), address.port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let free = free_port(address).await;
            Err(BindError::Taken(Taken { flag, wanted: address.clone(), free }))
        }
        Err(error) => {
            let message = format!("cannot listen on {address} ({flag}): {error}");
            Err(BindError::Other(Failure::failed(message)))
        }
    }
}

/// The next port after the wanted one that nobody holds at this moment.
async fn free_port(taken: &HostPort) -> Option<HostPort> {
    for step in 1..=SUGGESTIONS_MAX {
        let candidate = taken.with_port(taken.port.checked_add(step)?);
        if TcpListener::bind((candidate.host.as_str(), candidate.port)).await.is_ok() {
            return Some(candidate);
        }
    }
    None
}

fn ports_taken(taken: &[Taken], typed: Vec<String>) -> Failure {
    let lines: Vec<String> = taken
        .iter()
        .map(|port| format!("port {} on {} is in use ({})", port.wanted.port, port.wanted.host, port.flag))
        .collect();
    let command = taken.iter().fold(typed, |command, port| match &port.free {
        Some(free) => with_flag(command, port.flag, &free.to_string()),
        None => command,
    });
    let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    Failure::failed(format!("{}; try:\n  {}", lines.join(", "), command.join(" ")))
}

/// The command with a flag set, instead of what it was set to.
fn with_flag(command: Vec<String>, flag: &str, value: &str) -> Vec<String> {
    let mut words = Vec::with_capacity(command.len() + 2);
    let mut typed = command.into_iter();
    while let Some(word) = typed.next() {
        if word == flag {
            typed.next();
        } else if word.split_once('=').is_none_or(|(name, _)| name != flag) {
            words.push(word);
        }
    }
    words.extend([flag.to_owned(), value.to_owned()]);
    words
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_flag_is_replaced_in_both_its_forms_and_added_when_absent() {
        for typed in ["s serve", "s serve --pg-listen 127.0.0.1:1", "s serve --pg-listen=127.0.0.1:1"] {
            let command = with_flag(words(typed), "--pg-listen", "127.0.0.1:2");
            assert_eq!(command, words("s serve --pg-listen 127.0.0.1:2"), "{typed}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--data=/var/lib"), "--data=/var/lib");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_message_names_each_port_and_shows_one_command_that_works() {
        let port = |flag, port| Taken {
            flag,
            wanted: HostPort::loopback(port),
            free: Some(HostPort::loopback(port + 1)),
        };
        let taken = [port("--kafka-listen", 9092), port("--pg-listen", 5432)];
        let message = ports_taken(&taken, words("strandline serve --demo")).to_string();
        assert!(message.contains("port 9092 on 127.0.0.1 is in use (--kafka-listen)"), "{message}");
        let command = "strandline serve --demo --kafka-listen 127.0.0.1:9093 --pg-listen 127.0.0.1:5433";
        assert!(message.ends_with(command), "{message}");
    }
}
