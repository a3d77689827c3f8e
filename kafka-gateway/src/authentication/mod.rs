//! How clients prove who they are, before their requests are served and again later.
//!
//! `exchange` is one exchange of a mechanism, tokens in and tokens out; `conversation` puts it into
//! the requests of the protocol. Both are pure, as is `certificate`. `admission` drives a
//! conversation on a connection that is new, `session` on one that is being served.
//!
//! Invariant: nobody is told why they were not let in, and it takes as long for a user that does not
//! exist as for a password that is wrong.

pub(crate) mod admission;
pub(crate) mod certificate;
mod conversation;
mod exchange;
mod hearing;
pub(crate) mod session;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use strandline_storage::access::{Access, ScramCredential, ScramMechanism};
use strandline_storage::seam::Rng;
use tokio::sync::Semaphore;

pub(crate) use self::hearing::AuthenticationError;

/// Passwords that are checked at the same time: each check keeps a processor busy for milliseconds.
const CHECKS_MAX: usize = 4;
const NONCE_BYTES: usize = 24;

/// What all exchanges share.
pub(crate) struct Authenticator {
    /// Of this process: what users that do not exist seem to have is made of it.
    secret: [u8; 32],
    checks: Arc<Semaphore>,
}

/// Without the secret.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

impl Authenticator {
    pub(crate) fn new(rng: &dyn Rng) -> Self {
        let mut secret = [0; 32];
        rng.fill(&mut secret);
        Self { secret, checks: Arc::new(Semaphore::new(CHECKS_MAX)) }
    }

    /// The users of this moment.
    fn directory(&self, access: Arc<Access>) -> Directory {
        Directory { access, secret: self.secret }
    }
}

/// The server's part of a nonce: printable, and never the same twice.
fn nonce(rng: &dyn Rng) -> String {
    let mut bytes = [0; NONCE_BYTES];
    rng.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where credentials are looked up. Users that do not exist seem to have some.
pub(crate) struct Directory {
    access: Arc<Access>,
    secret: [u8; 32],
}

/// What was found for a name.
struct Found {
    credential: ScramCredential,
    /// The credential is the user's; otherwise nothing proves it.
    is_real: bool,
}

impl Directory {
    fn find(&self, user: &str, mechanism: ScramMechanism) -> Found {
        let real = self.access.users.get(user).and_then(|user| user.credential(mechanism)).cloned();
        let is_real = real.is_some();
        let credential = real.unwrap_or_else(|| ScramCredential::mock(mechanism, &self.secret, user));
        Found { credential, is_real }
    }

    /// Whether a password is the user's by any of its credentials. All are looked at, so that it takes
    /// the same time whatever is found.
    fn has_password(&self, user: &str, password: &str) -> bool {
        let is_right = |mechanism| {
            let found = self.find(user, mechanism);
            found.credential.verify_password(password) && found.is_real
        };
        let right = ScramMechanism::ALL.map(is_right);
        right.contains(&true)
    }
}
