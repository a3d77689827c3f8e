//! The ports, bound all or none. When one is taken, the message names it and shows the whole command
//! with a free one.

use std::io;

use tokio::net::TcpListener;

use crate::config::{Config, ListenerConfig};
use crate::failure::Failure;
use crate::units::HostPort;

/// Ports that hold connections, before anything answers on them.
#[derive(Debug)]
pub struct Listeners {
    /// In the order of the settings; at least one.
    pub kafka: Vec<KafkaPort>,
    pub pg: TcpListener,
    pub http: TcpListener,
}

/// A port of the Kafka protocol, and what the settings say of it.
#[derive(Debug)]
pub struct KafkaPort {
    pub socket: TcpListener,
    /// The key of the settings that it comes from.
    pub name: String,
    pub config: ListenerConfig,
}

/// How many ports after the wanted one are tried for the suggestion.
const SUGGESTIONS_MAX: u16 = 100;

/// A port that is taken, and one that would be free.
#[derive(Debug)]
struct Taken {
    set_by: SetBy,
    wanted: HostPort,
    free: Option<HostPort>,
}

enum BindError {
    Taken(Taken),
    Other(Failure),
}

/// What sets the address of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SetBy {
    Flag(&'static str),
    /// A key of the settings that has no flag.
    Key(String),
}

impl std::fmt::Display for SetBy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => formatter.write_str(flag),
            Self::Key(key) => formatter.write_str(key),
        }
    }
}

impl Listeners {
    pub async fn bind(config: &Config) -> Result<Self, Failure> {
        let mut kafka = Vec::new();
        let mut errors = Vec::new();
        for (place, (name, config)) in config.kafka.ports().into_iter().enumerate() {
            let set_by =
                if place == 0 { SetBy::Flag("--kafka-listen") } else { SetBy::Key(format!("{name}.listen")) };
            match bind(set_by, &config.listen).await {
                Ok(socket) => kafka.push(KafkaPort { socket, name, config }),
                Err(error) => errors.push(error),
            }
        }
        let pg = bind(SetBy::Flag("--pg-listen"), &config.pg.listen).await;
        let http = bind(SetBy::Flag("--http-listen"), &config.http.listen).await;
        match (errors.is_empty(), pg, http) {
            (true, Ok(pg), Ok(http)) => Ok(Self { kafka, pg, http }),
            (_, pg, http) => {
                errors.extend([pg.err(), http.err()].into_iter().flatten());
                Err(failure(errors))
            }
        }
    }
}

fn failure(errors: Vec<BindError>) -> Failure {
    let mut taken = Vec::new();
    for error in errors {
        match error {
            BindError::Taken(port) => taken.push(port),
            BindError::Other(failure) => return failure,
        }
    }
    ports_taken(&taken, std::env::args().collect())
}

async fn bind(set_by: SetBy, address: &HostPort) -> Result<TcpListener, BindError> {
    match TcpListener::bind((address.host.as_str(), address.port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let free = free_port(address).await;
            Err(BindError::Taken(Taken { set_by, wanted: address.clone(), free }))
        }
        Err(error) => {
            let message = format!("cannot listen on {address} ({set_by}): {error}");
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
        .map(|port| format!("port {} on {} is in use ({})", port.wanted.port, port.wanted.host, port.set_by))
        .collect();
    let lines = lines.join(", ");
    let flags = taken.iter().filter_map(|port| match (&port.set_by, &port.free) {
        (SetBy::Flag(flag), Some(free)) => Some((*flag, free.to_string())),
        _ => None,
    });
    let command = flags.fold(typed, |command, (flag, free)| with_flag(command, flag, &free));
    if let Some(port) = taken.iter().find(|port| matches!(port.set_by, SetBy::Key(_))) {
        let free = port.free.as_ref().map(|free| format!("; {free} is free")).unwrap_or_default();
        return Failure::failed(format!("{lines}: set another {}{free}", port.set_by));
    }
    let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    Failure::failed(format!("{lines}; try:\n  {}", command.join(" ")))
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
            set_by: SetBy::Flag(flag),
            wanted: HostPort::loopback(port),
            free: Some(HostPort::loopback(port + 1)),
        };
        let taken = [port("--kafka-listen", 9092), port("--pg-listen", 5432)];
        let message = ports_taken(&taken, words("strandline serve --demo")).to_string();
        assert!(message.contains("port 9092 on 127.0.0.1 is in use (--kafka-listen)"), "{message}");
        let command = "strandline serve --demo --kafka-listen 127.0.0.1:9093 --pg-listen 127.0.0.1:5433";
        assert!(message.ends_with(command), "{message}");
    }

    #[test]
    fn a_port_without_a_flag_is_named_by_its_key() {
        let set_by = SetBy::Key("kafka.listeners[0].listen".to_owned());
        let taken =
            [Taken { set_by, wanted: HostPort::loopback(9094), free: Some(HostPort::loopback(9095)) }];
        let message = ports_taken(&taken, words("strandline serve")).to_string();
        let expected = "port 9094 on 127.0.0.1 is in use (kafka.listeners[0].listen): set another \
                        kafka.listeners[0].listen; 127.0.0.1:9095 is free";
        assert_eq!(message, expected);
    }
}
