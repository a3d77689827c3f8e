//! From the first byte of a connection to its first ReadyForQuery.
//!
//! Any user is let in: who may connect from where is decided where the listener is bound.

use std::sync::Arc;

use bytes::Bytes;
use strandline_engine::seam::{Rng, SystemRng};
use strandline_engine::{Engine, Session, SessionOptions};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::cancel::{CancelRegistry, CancelSlot};
use crate::error::{Ended, PgError};
use crate::sqlstate::SqlState;
use crate::wire::frame::FrameReader;
use crate::wire::output::Output;
pub(crate) use crate::wire::startup_packet::StartupRequest;
use crate::wire::startup_packet::{StartupPacket, parse_options};

/// The newest minor version of protocol 3 that is spoken here; 3.1 was never used.
const MINOR_VERSION_MAX: u32 = 2;
const PROTOCOL_MAJOR: u32 = 3;
/// A client asks for each kind of encryption at most once before it goes on without.
const ENCRYPTION_REQUESTS_MAX: usize = 2;
/// Protocol 3.0 has room for four bytes, 3.2 for more.
const SHORT_SECRET_BYTES: usize = 4;
const LONG_SECRET_BYTES: usize = 32;

/// Reads first packets until one asks for a session. None when the connection had another purpose.
pub(crate) async fn receive<R, W>(
    reader: &mut FrameReader<R>,
    output: &mut Output<W>,
    registry: &CancelRegistry,
) -> Result<Option<StartupRequest>, Ended>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    for _ in 0..=ENCRYPTION_REQUESTS_MAX {
        let Some(packet) = reader.startup_packet().await? else { return Ok(None) };
        let packet = StartupPacket::decode(packet).map_err(|error| Ended::Fatal(PgError::from(&error)))?;
        match packet {
            StartupPacket::Ssl | StartupPacket::GssEncryption => {
                // Bytes sent along with the request would be read as if they had come encrypted.
                if reader.has_input() {
                    return Err(protocol_violation("received unencrypted data after an encryption request"));
                }
                output.encryption_refused();
                output.flush().await?;
            }
            StartupPacket::Cancel(key) => {
                registry.cancel(&key);
                return Ok(None);
            }
            StartupPacket::UnsupportedProtocol { major, minor } => return Err(unsupported(major, minor)),
            StartupPacket::Session(request) => return Ok(Some(request)),
        }
    }
    Err(protocol_violation("too many encryption requests"))
}

fn protocol_violation(message: &str) -> Ended {
    Ended::Fatal(PgError::new(SqlState::PROTOCOL_VIOLATION, message))
}

fn unsupported(major: u32, minor: u32) -> Ended {
    let message = format!(
        "unsupported frontend protocol {major}.{minor}: server supports {PROTOCOL_MAJOR}.0 to \
         {PROTOCOL_MAJOR}.{MINOR_VERSION_MAX}"
    );
    Ended::Fatal(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// Begins the session that a client asked for, and tells the client about it.
pub(crate) fn begin<W: AsyncWrite + Unpin>(
    request: StartupRequest,
    engine: &Arc<Engine>,
    registry: &Arc<CancelRegistry>,
    output: &mut Output<W>,
) -> Result<(Session, CancelSlot), PgError> {
    let minor_version = negotiate(&request, output);
    let cancel = registry.register(secret(minor_version));
    let options = session_options(request.parameters, cancel.key().process_id)?;
    let session = engine.session(options)?;
    output.authentication_ok();
    output.backend_key(cancel.key());
    Ok((session, cancel))
}

/// Tells a client that wants more than there is what there is. Gives the minor version in use.
fn negotiate<W: AsyncWrite + Unpin>(request: &StartupRequest, output: &mut Output<W>) -> u32 {
    let minor_version = match request.minor_version {
        0 | 1 => 0,
        _ => MINOR_VERSION_MAX,
    };
    let unsupported: Vec<String> = request
        .parameters
        .iter()
        .filter(|(name, _)| is_protocol_option(name))
        .map(|(name, _)| name.replace('\0', ""))
        .collect();
    if minor_version != request.minor_version || !unsupported.is_empty() {
        let version = (PROTOCOL_MAJOR << 16) | minor_version;
        output.negotiate_protocol(i32::try_from(version).expect("a small constant"), unsupported);
    }
    minor_version
}

fn is_protocol_option(name: &str) -> bool {
    name.starts_with("_pq_.")
}

fn secret(minor_version: u32) -> Bytes {
    let length = if minor_version == 0 { SHORT_SECRET_BYTES } else { LONG_SECRET_BYTES };
    let mut secret = vec![0; length];
    SystemRng.fill(&mut secret);
    Bytes::from(secret)
}

/// Later settings win over earlier ones, and named parameters over `options`.
fn session_options(parameters: Vec<(String, String)>, process_id: i32) -> Result<SessionOptions, PgError> {
    let mut options = SessionOptions {
        user: String::new(),
        database: String::new(),
        application_name: String::new(),
        settings: Vec::new(),
        process_id,
    };
    let mut database = None;
    let mut settings = Vec::new();
    let mut named = Vec::new();
    for (name, value) in parameters {
        match name.to_ascii_lowercase().as_str() {
            "user" => options.user = value,
            "database" => database = Some(value),
            "application_name" => options.application_name = value,
            "options" => settings.extend(parse_options(&value).map_err(|word| invalid_option(&word))?),
            "replication" => refuse_replication(&value)?,
            _ if is_protocol_option(&name) => {}
            _ => named.push((name, value)),
        }
    }
    if options.user.is_empty() {
        let message = "no PostgreSQL user name specified in startup packet";
        return Err(PgError::new(SqlState::INVALID_AUTHORIZATION, message));
    }
    options.database = database.filter(|name| !name.is_empty()).unwrap_or_else(|| options.user.clone());
    settings.extend(named);
    options.settings = settings;
    Ok(options)
}

fn invalid_option(word: &str) -> PgError {
    let message = format!("invalid command-line argument for server process: {word}");
    PgError::new(SqlState::SYNTAX_ERROR, message)
}

fn refuse_replication(value: &str) -> Result<(), PgError> {
    if ["", "0", "off", "false", "no"].contains(&value.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "replication connections are not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(parameters: &[(&str, &str)]) -> Result<SessionOptions, PgError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        session_options(parameters.iter().map(owned).collect(), 7)
    }

    #[test]
    fn parameters_become_settings_of_the_session() {
        let parameters = [
            ("user", "ada"),
            ("database", "strandline"),
            ("options", "-c statement_timeout=5s -c TimeZone=UTC"),
            ("TimeZone", "Asia/Kolkata"),
            ("_pq_.novelty", "1"),
            ("application_name", "psql"),
        ];
        let options = options(&parameters).unwrap();
        assert_eq!((options.user.as_str(), options.database.as_str()), ("ada", "strandline"));
        assert_eq!((options.application_name.as_str(), options.process_id), ("psql", 7));
        let expected = [("statement_timeout", "5s"), ("TimeZone", "UTC"), ("TimeZone", "Asia/Kolkata")];
        assert_eq!(options.settings, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_database_is_the_user_when_none_is_named() {
        assert_eq!(options(&[("user", "ada")]).unwrap().database, "ada");
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        let code = |parameters: &[(&str, &str)]| options(parameters).unwrap_err().state.code();
        assert_eq!(code(&[]), "28000");
        assert_eq!(code(&[("user", "ada"), ("options", "-x")]), "42601");
        assert_eq!(code(&[("user", "ada"), ("replication", "database")]), "0A000");
        assert!(options(&[("user", "ada"), ("replication", "false")]).is_ok());
    }
}
