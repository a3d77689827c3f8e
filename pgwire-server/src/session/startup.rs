//! From the first byte of a connection to its first ReadyForQuery.
//!
//! Encryption comes first, then what the client wants, then who it is.

use std::sync::Arc;

use bytes::Bytes;
use strandline_engine::seam::{Rng, SystemRng};
use strandline_engine::{Engine, Permissions, Session, SessionOptions};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::cancel::{CancelRegistry, CancelSlot};
use crate::error::{Ended, PgError};
use crate::settings::{PgTls, TLS_PROTOCOL, TlsMode};
use crate::sqlstate::SqlState;
use crate::wire::frame::FrameReader;
use crate::wire::output::Output;
pub(crate) use crate::wire::startup_packet::StartupRequest;
use crate::wire::startup_packet::{StartupPacket, parse_options};
use crate::wire::transport::Transport;

/// The newest minor version of protocol 3 that is spoken here; 3.1 was never used.
const MINOR_VERSION_MAX: u32 = 2;
const PROTOCOL_MAJOR: u32 = 3;
/// A client asks for each kind of encryption at most once before it goes on without.
const ENCRYPTION_REQUESTS_MAX: usize = 2;
/// The first byte of a TLS client that does not ask first; no packet of ours begins with it.
const TLS_HANDSHAKE: u8 = 0x16;
const ENCRYPTION_ACCEPTED: u8 = b'S';
const ENCRYPTION_REFUSED: u8 = b'N';
/// Protocol 3.0 has room for four bytes, 3.2 for more.
const SHORT_SECRET_BYTES: usize = 4;
const LONG_SECRET_BYTES: usize = 32;

/// Reads first packets until one asks for a session. None when the connection had another purpose.
pub(crate) async fn receive<S>(
    reader: &mut FrameReader<Transport<S>>,
    tls: Option<&PgTls>,
    registry: &CancelRegistry,
) -> Result<Option<StartupRequest>, Ended>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(tls) = tls
        && reader.peek().await? == Some(TLS_HANDSHAKE)
    {
        start_direct_tls(reader, tls).await?;
    }
    for _ in 0..=ENCRYPTION_REQUESTS_MAX {
        let Some(packet) = reader.startup_packet().await? else { return Ok(None) };
        let packet = StartupPacket::decode(packet).map_err(|error| Ended::Fatal(PgError::from(&error)))?;
        match packet {
            StartupPacket::Ssl => answer_ssl_request(reader, tls).await?,
            StartupPacket::GssEncryption => {
                expect_no_input(reader)?;
                answer(reader, ENCRYPTION_REFUSED).await?;
            }
            StartupPacket::Cancel(key) => {
                registry.cancel(&key);
                return Ok(None);
            }
            StartupPacket::UnsupportedProtocol { major, minor } => return Err(unsupported(major, minor)),
            StartupPacket::Session(request) => {
                expect_encryption(reader, tls)?;
                return Ok(Some(request));
            }
        }
    }
    Err(protocol_violation("too many encryption requests"))
}

/// A client that begins with the handshake has to say that it means this protocol: else a browser could
/// be made to speak to it.
async fn start_direct_tls<S: AsyncRead + AsyncWrite + Unpin>(
    reader: &mut FrameReader<Transport<S>>,
    tls: &PgTls,
) -> Result<(), Ended> {
    start_tls(reader, tls).await?;
    match reader.io_mut().alpn_protocol() {
        Some(TLS_PROTOCOL) => Ok(()),
        _ => {
            let message =
                "received direct SSL connection request without ALPN protocol negotiation extension";
            Err(protocol_violation(message))
        }
    }
}

async fn answer_ssl_request<S: AsyncRead + AsyncWrite + Unpin>(
    reader: &mut FrameReader<Transport<S>>,
    tls: Option<&PgTls>,
) -> Result<(), Ended> {
    expect_no_input(reader)?;
    match tls {
        Some(_) if reader.io_mut().is_encrypted() => {
            Err(protocol_violation("the connection is encrypted already"))
        }
        Some(tls) => {
            answer(reader, ENCRYPTION_ACCEPTED).await?;
            start_tls(reader, tls).await
        }
        None => answer(reader, ENCRYPTION_REFUSED).await,
    }
}

async fn start_tls<S: AsyncRead + AsyncWrite + Unpin>(
    reader: &mut FrameReader<Transport<S>>,
    tls: &PgTls,
) -> Result<(), Ended> {
    let received = reader.take_input();
    Ok(reader.io_mut().start_tls(&tls.acceptor, received).await?)
}

/// Bytes sent along with a request for encryption would be read as if they had come encrypted.
fn expect_no_input<S: AsyncRead + AsyncWrite + Unpin>(
    reader: &FrameReader<Transport<S>>,
) -> Result<(), Ended> {
    match reader.has_input() {
        true => Err(protocol_violation("received unencrypted data after an encryption request")),
        false => Ok(()),
    }
}

/// A single byte without a frame.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    reader: &mut FrameReader<Transport<S>>,
    answer: u8,
) -> Result<(), Ended> {
    let io = reader.io_mut();
    io.write_all(&[answer]).await?;
    Ok(io.flush().await?)
}

fn expect_encryption<S: AsyncRead + AsyncWrite + Unpin>(
    reader: &mut FrameReader<Transport<S>>,
    tls: Option<&PgTls>,
) -> Result<(), Ended> {
    if tls.is_none_or(|tls| tls.mode == TlsMode::Optional) || reader.io_mut().is_encrypted() {
        return Ok(());
    }
    let message = "this server takes encrypted connections only";
    let error = PgError::new(SqlState::INVALID_AUTHORIZATION, message);
    Err(Ended::Fatal(PgError { hint: Some("connect with sslmode=require or higher".to_owned()), ..error }))
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

/// Begins the session of a client that was let in, and tells the client about it.
pub(crate) fn begin<W: AsyncWrite + Unpin>(
    (minor_version, options): (u32, SessionOptions),
    engine: &Arc<Engine>,
    registry: &Arc<CancelRegistry>,
    output: &mut Output<W>,
) -> Result<(Session, CancelSlot), PgError> {
    let cancel = registry.register(secret(minor_version));
    let session = engine.session(SessionOptions { process_id: cancel.key().process_id, ..options })?;
    output.authentication_ok();
    output.backend_key(cancel.key());
    Ok((session, cancel))
}

/// Tells a client that wants more than there is what there is. Gives the minor version in use.
pub(crate) fn negotiate<W: AsyncWrite + Unpin>(request: &StartupRequest, output: &mut Output<W>) -> u32 {
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

/// What the client asks of its session. Later settings win over earlier ones, and named parameters over
/// `options`.
pub(crate) fn session_options(parameters: Vec<(String, String)>) -> Result<SessionOptions, PgError> {
    let mut options = SessionOptions {
        user: String::new(),
        database: String::new(),
        application_name: String::new(),
        settings: Vec::new(),
        // These follow when the client is let in.
        process_id: 0,
        is_encrypted: false,
        permissions: Permissions::All,
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
        session_options(parameters.iter().map(owned).collect())
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
        assert_eq!(options.application_name, "psql");
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
