//! What proves a password without being it (RFC 5802, section 3).
//!
//! A password is taken as its UTF-8 bytes, without SASLprep.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// RFC 7677 asks for as many at least.
pub const SCRAM_ITERATIONS_MIN: u32 = 4096;
/// A client computes as many hashes as this to log in, and so does the server to check a password.
pub const SCRAM_ITERATIONS_MAX: u32 = 16384;

/// What our own commands ask for, and what users that do not exist seem to have.
pub const SCRAM_ITERATIONS_DEFAULT: u32 = 8192;

/// Bytes of the salt that a name without a credential seems to have.
const MOCK_SALT_LENGTH: usize = 16;

/// The hash that a credential is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScramMechanism {
    Sha256,
    Sha512,
}

impl ScramMechanism {
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// As SASL names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// Bytes of a hash.
    pub fn hash_length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    pub(super) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    pub(super) fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        const ANY_KEY: &str = "HMAC takes a key of any length";
        match self {
            Self::Sha256 => mac(Hmac::<Sha256>::new_from_slice(key).expect(ANY_KEY), bytes),
            Self::Sha512 => mac(Hmac::<Sha512>::new_from_slice(key).expect(ANY_KEY), bytes),
        }
    }

    /// What a credential is made of: the password, hashed as often as that. Takes milliseconds.
    pub fn salted_password(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = vec![0; self.hash_length()];
        match self {
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut salted),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password.as_bytes(), salt, iterations, &mut salted),
        }
        salted
    }
}

fn mac(mut mac: impl Mac, bytes: &[u8]) -> Vec<u8> {
    mac.update(bytes);
    mac.finalize().into_bytes().to_vec()
}

/// Why something is no credential.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CredentialError {
    #[error("{iterations} iterations are outside of {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}")]
    Iterations { iterations: u32 },
    #[error("a salt has 1 to {max} bytes, not {length}")]
    SaltLength { length: usize, max: usize },
    #[error("{what} of {mechanism} has {expected} bytes, not {length}")]
    KeyLength { what: &'static str, mechanism: &'static str, expected: usize, length: usize },
}

/// By which a password can be checked, and the server can prove that it knows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    pub mechanism: ScramMechanism,
    pub salt: Vec<u8>,
    pub iterations: u32,
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
}

impl ScramCredential {
    /// The credential of a password.
    ///
    /// # Panics
    /// Iterations out of their bounds: whoever takes them from outside checks them first.
    pub fn derive(mechanism: ScramMechanism, password: &str, salt: Vec<u8>, iterations: u32) -> Self {
        assert!((SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&iterations), "iterations in bounds");
        let salted = mechanism.salted_password(password, &salt, iterations);
        Self::of_salted(mechanism, &salted, salt, iterations)
    }

    /// The credential of a password that a client has salted.
    ///
    /// # Errors
    /// Iterations or lengths out of their bounds.
    pub fn from_salted_password(
        mechanism: ScramMechanism,
        salted_password: &[u8],
        salt: Vec<u8>,
        iterations: u32,
    ) -> Result<Self, CredentialError> {
        check_length("the salted password", mechanism, salted_password)?;
        let credential = Self::of_salted(mechanism, salted_password, salt, iterations);
        credential.check()?;
        Ok(credential)
    }

    /// What a user that does not exist, or has no credential of the mechanism, is challenged with, so
    /// that it cannot be told from one that does. The same for a name as long as the secret is; nothing
    /// proves it.
    pub fn mock(mechanism: ScramMechanism, secret: &[u8], user: &str) -> Self {
        let mut salt = mechanism.hmac(secret, &[b"salt ", user.as_bytes()].concat());
        salt.truncate(MOCK_SALT_LENGTH);
        Self {
            mechanism,
            salt,
            iterations: SCRAM_ITERATIONS_DEFAULT,
            stored_key: mechanism.hmac(secret, &[b"stored key ", user.as_bytes()].concat()),
            server_key: mechanism.hmac(secret, &[b"server key ", user.as_bytes()].concat()),
        }
    }

    fn of_salted(mechanism: ScramMechanism, salted: &[u8], salt: Vec<u8>, iterations: u32) -> Self {
        let client_key = mechanism.hmac(salted, b"Client Key");
        Self {
            mechanism,
            salt,
            iterations,
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.hmac(salted, b"Server Key"),
        }
    }

    /// Whether this is the password. Takes as long for every password.
    pub fn verify_password(&self, password: &str) -> bool {
        let salted = self.mechanism.salted_password(password, &self.salt, self.iterations);
        let computed = Self::of_salted(self.mechanism, &salted, Vec::new(), self.iterations);
        computed.stored_key.ct_eq(&self.stored_key).into()
    }

    /// # Errors
    /// Iterations or lengths out of their bounds.
    pub fn check(&self) -> Result<(), CredentialError> {
        let iterations = self.iterations;
        if !(SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&iterations) {
            return Err(CredentialError::Iterations { iterations });
        }
        let (length, max) = (self.salt.len(), super::NAME_BYTES_MAX);
        if length == 0 || length > max {
            return Err(CredentialError::SaltLength { length, max });
        }
        check_length("the stored key", self.mechanism, &self.stored_key)?;
        check_length("the server key", self.mechanism, &self.server_key)
    }
}

fn check_length(what: &'static str, mechanism: ScramMechanism, key: &[u8]) -> Result<(), CredentialError> {
    let (length, expected) = (key.len(), mechanism.hash_length());
    if length != expected {
        return Err(CredentialError::KeyLength { what, mechanism: mechanism.name(), expected, length });
    }
    Ok(())
}

/// Without what could be used: events and states are printed when something fails.
impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ScramCredential");
        shown.field("mechanism", &self.mechanism).field("iterations", &self.iterations);
        shown.finish_non_exhaustive()
    }
}
