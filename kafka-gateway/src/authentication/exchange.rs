//! One exchange of a SASL mechanism: the client's tokens in, the server's tokens out, and at its end
//! the name of a user who has proven to be the one. Pure.
//!
//! Invariant: an exchange that has ended, in whichever way, ends nothing again.

use strandline_storage::access::ScramMechanism;
use strandline_storage::access::scram::{ScramError, ScramServer};
use thiserror::Error;

use super::Directory;
use crate::listener::SaslMechanism;

/// Why a client was not let in. For the log: the client does not learn it.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub(crate) struct Denial {
    /// Whom the client named, if it came so far.
    pub(crate) user: Option<String>,
    pub(crate) reason: Reason,
}

#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Reason {
    #[error("token of PLAIN is malformed: {0}")]
    MalformedPlain(&'static str),
    #[error(transparent)]
    Scram(#[from] ScramError),
    #[error("client wants to act for somebody other than its user")]
    AuthorizationIdentity,
    #[error("user does not exist, or the password is another")]
    WrongPassword,
    #[error("user does not exist, or has no credential of the mechanism")]
    UnknownUser,
    #[error("session belongs to \"{0}\", who cannot become somebody else")]
    OtherUser(String),
    #[error("exchange is over")]
    Over,
}

impl Reason {
    fn of(self, user: Option<String>) -> Denial {
        Denial { user, reason: self }
    }
}

/// What comes of a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this, and wait for another token.
    Challenge(Vec<u8>),
    /// Send this; the client has proven to be the user.
    Proven { user: String, token: Vec<u8> },
}

/// An exchange in progress.
pub(crate) enum Exchange {
    Plain,
    ScramFirst(ScramServer, ScramMechanism),
    ScramFinal { server: ScramServer, user: String, is_real: bool },
    Over,
}

impl Exchange {
    /// `nonce` is the server's part of it.
    pub(crate) fn new(mechanism: SaslMechanism, nonce: String) -> Self {
        let scram = |mechanism| Self::ScramFirst(ScramServer::new(mechanism, nonce), mechanism);
        match mechanism {
            SaslMechanism::Plain => Self::Plain,
            SaslMechanism::ScramSha256 => scram(ScramMechanism::Sha256),
            SaslMechanism::ScramSha512 => scram(ScramMechanism::Sha512),
        }
    }

    /// Takes the client's next token. With PLAIN it computes for milliseconds.
    pub(crate) fn step(&mut self, token: &[u8], directory: &Directory) -> Result<Step, Denial> {
        match std::mem::replace(self, Self::Over) {
            Self::Plain => check_plain(token, directory),
            Self::ScramFirst(mut server, mechanism) => {
                let user = server.first(token).map_err(|error| Reason::from(error).of(None))?.user;
                let found = directory.find(&user, mechanism);
                let challenge = server.challenge(found.credential);
                *self = Self::ScramFinal { server, user, is_real: found.is_real };
                Ok(Step::Challenge(challenge))
            }
            Self::ScramFinal { mut server, user, is_real } => match server.finish(token) {
                Ok(token) if is_real => Ok(Step::Proven { user, token }),
                Ok(_) => Err(Reason::UnknownUser.of(Some(user))),
                Err(error) => Err(Reason::from(error).of(Some(user))),
            },
            Self::Over => Err(Reason::Over.of(None)),
        }
    }
}

/// `[authzid] NUL user NUL password` (RFC 4616).
fn check_plain(token: &[u8], directory: &Directory) -> Result<Step, Denial> {
    let malformed = |reason| Reason::MalformedPlain(reason).of(None);
    let text = std::str::from_utf8(token).map_err(|_| malformed("it is not UTF-8"))?;
    let parts: Vec<&str> = text.split('\0').collect();
    let [authzid, user, password] = parts[..] else {
        return Err(malformed("it has not three parts"));
    };
    if user.is_empty() || password.is_empty() {
        return Err(malformed("user or password is empty"));
    }
    let user = user.to_owned();
    if !authzid.is_empty() && authzid != user {
        return Err(Reason::AuthorizationIdentity.of(Some(user)));
    }
    match directory.has_password(&user, password) {
        true => Ok(Step::Proven { user, token: Vec::new() }),
        false => Err(Reason::WrongPassword.of(Some(user))),
    }
}
