//! How a client proves who it is: SCRAM-SHA-256 over SASL (RFC 5802; PostgreSQL, chapter "SASL
//! Authentication"), without channel binding.
//!
//! Invariant: a user that does not exist is challenged as one that does, and refused with the same words.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use strandline_engine::access::scram::{ScramError, ScramServer};
use strandline_engine::access::{ScramCredential, ScramMechanism};
use strandline_engine::seam::{Rng, SystemRng};
use strandline_engine::{Engine, Permissions, Principal};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::{Ended, PgError};
use crate::settings::Authentication;
use crate::sqlstate::SqlState;
use crate::wire::frame::FrameReader;
use crate::wire::output::Output;
use crate::wire::sasl::SaslInitialResponse;

const MECHANISM: ScramMechanism = ScramMechanism::Sha256;
/// Random bytes of the server's part of a nonce.
const NONCE_BYTES: usize = 18;
const SECRET_BYTES: usize = 32;

/// Checks what clients prove.
#[derive(Debug)]
pub(crate) struct Authenticator {
    engine: Arc<Engine>,
    authentication: Authentication,
    /// What the challenges of users that do not exist are made from.
    secret: [u8; SECRET_BYTES],
}

/// Who a client says it is, and from where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed<'a> {
    pub(crate) user: &'a str,
    pub(crate) host: &'a str,
}

impl Authenticator {
    pub(crate) fn new(engine: Arc<Engine>, authentication: Authentication) -> Self {
        Self { engine, authentication, secret: random() }
    }

    /// Lets the client prove who it is, if it has to; gives what it may do.
    pub(crate) async fn authenticate<R, W>(
        &self,
        reader: &mut FrameReader<R>,
        output: &mut Output<W>,
        claimed: Claimed<'_>,
    ) -> Result<Permissions, Ended>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let Authentication::Required(authorizer) = &self.authentication else {
            return Ok(Permissions::All);
        };
        output.sasl(MECHANISM.name());
        output.flush().await?;
        let initial = SaslInitialResponse::decode(response(reader).await?)
            .map_err(|error| Ended::Fatal(PgError::from(&error)))?;
        if initial.mechanism != MECHANISM.name() {
            return Err(violation("client selected an invalid SASL authentication mechanism"));
        }
        let mut exchange = ScramServer::new(MECHANISM, BASE64.encode(random::<NONCE_BYTES>()));
        // The name in it is ignored, as in PostgreSQL: the startup packet has said it.
        exchange.first(&initial.data).map_err(|error| refusal(error, claimed.user))?;
        output.sasl_continue(exchange.challenge(self.credential(claimed.user)).into());
        output.flush().await?;
        let verifier = exchange.finish(&response(reader).await?);
        output.sasl_final(verifier.map_err(|error| refusal(error, claimed.user))?.into());
        Ok(Permissions::Rules(Principal {
            name: format!("User:{}", claimed.user),
            host: claimed.host.to_owned(),
            authorizer: Arc::clone(authorizer),
        }))
    }

    fn credential(&self, user: &str) -> ScramCredential {
        let access = self.engine.access();
        let known = access.users.get(user).and_then(|user| user.credential(MECHANISM));
        known.cloned().unwrap_or_else(|| ScramCredential::mock(MECHANISM, &self.secret, user))
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRng.fill(&mut bytes);
    bytes
}

/// The body of the next message, which has to be a response.
async fn response<R: AsyncRead + Unpin>(reader: &mut FrameReader<R>) -> Result<Bytes, Ended> {
    // Looked at before it is read, because other messages may be large.
    match reader.peek().await? {
        Some(b'p') | None => {}
        Some(tag) => {
            let tag = char::from(tag).escape_default();
            return Err(violation(&format!("expected SASL response, got message type \"{tag}\"")));
        }
    }
    // A client that has no password leaves here, asks for one, and comes back.
    reader.next().await?.map(|frame| frame.body).ok_or(Ended::ClientGone)
}

fn violation(message: &str) -> Ended {
    Ended::Fatal(PgError::new(SqlState::PROTOCOL_VIOLATION, message))
}

fn refusal(error: ScramError, user: &str) -> Ended {
    match error {
        ScramError::Proof => {
            tracing::info!(user, "a Postgres client did not prove who it is");
            let message = format!("password authentication failed for user \"{user}\"");
            Ended::Fatal(PgError::new(SqlState::INVALID_PASSWORD, message))
        }
        error => violation(&error.to_string()),
    }
}
