//! Both sides of one SCRAM exchange (RFC 5802, RFC 7677), for every protocol that carries SASL: the
//! server's here, the client's in `client`. No channel binding.
//!
//! Bytes in, bytes out; whoever carries them looks up the user in between. Invariants: an exchange
//! goes through its steps once and in their order; a proof is compared in constant time; nothing that
//! a client sends panics.

mod client;
mod message;

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq;
use thiserror::Error;

pub use self::client::{ScramClient, ScramClientError};
use self::message::{parse_client_final, parse_client_first};
use super::credential::{ScramCredential, ScramMechanism};

/// Why an exchange did not prove anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScramError {
    #[error("malformed SCRAM message: {reason}")]
    Malformed { reason: &'static str },
    #[error("channel binding is not supported")]
    ChannelBinding,
    #[error("a SCRAM extension that must be understood is not supported")]
    MandatoryExtension,
    #[error("the authorization identity is not the user")]
    AuthorizationIdentity,
    #[error("the nonce is not the one of this exchange")]
    Nonce,
    #[error("the channel binding data is not that of the first message")]
    ChannelBindingData,
    #[error("the SCRAM message is out of order")]
    OutOfOrder,
    #[error("the proof is wrong")]
    Proof,
}

/// What the first message of a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// May be empty: Postgres clients name the user elsewhere.
    pub user: String,
}

/// One exchange.
pub struct ScramServer {
    mechanism: ScramMechanism,
    nonce: String,
    step: Step,
}

enum Step {
    Begun,
    First { gs2_header: String, client_first_bare: String, client_nonce: String },
    Challenged(Box<Challenged>),
    Over,
}

/// What the last message is checked against.
struct Challenged {
    gs2_header: String,
    nonce: String,
    /// The two messages before, as they are part of what is signed.
    signed: String,
    credential: ScramCredential,
}

impl ScramServer {
    /// `nonce` is the server's part: printable, without commas, new for each exchange.
    pub fn new(mechanism: ScramMechanism, nonce: String) -> Self {
        Self { mechanism, nonce, step: Step::Begun }
    }

    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    /// Takes the client's first message. The caller looks the user up then.
    ///
    /// # Errors
    /// A message that is none, or asks for what is not supported.
    pub fn first(&mut self, client_first: &[u8]) -> Result<ClientFirst, ScramError> {
        if !matches!(std::mem::replace(&mut self.step, Step::Over), Step::Begun) {
            return Err(ScramError::OutOfOrder);
        }
        let first = parse_client_first(client_first)?;
        if !first.authzid.is_empty() && first.authzid != first.user {
            return Err(ScramError::AuthorizationIdentity);
        }
        self.step = Step::First {
            gs2_header: first.gs2_header.to_owned(),
            client_first_bare: first.bare.to_owned(),
            client_nonce: first.nonce.to_owned(),
        };
        Ok(ClientFirst { user: first.user })
    }

    /// The server's first message. For a user that is not known, the credential is
    /// [`ScramCredential::mock`].
    ///
    /// # Panics
    /// Without a first message of the client.
    pub fn challenge(&mut self, credential: ScramCredential) -> Vec<u8> {
        assert_eq!(credential.mechanism, self.mechanism, "a credential of the mechanism");
        let Step::First { gs2_header, client_first_bare, client_nonce } =
            std::mem::replace(&mut self.step, Step::Over)
        else {
            panic!("a challenge comes after the client's first message");
        };
        let nonce = format!("{client_nonce}{}", self.nonce);
        let salt = BASE64.encode(&credential.salt);
        let server_first = format!("r={nonce},s={salt},i={}", credential.iterations);
        let signed = format!("{client_first_bare},{server_first}");
        self.step = Step::Challenged(Box::new(Challenged { gs2_header, nonce, signed, credential }));
        server_first.into_bytes()
    }

    /// Checks the proof in the client's last message and gives the server's last message, which proves
    /// the server to the client.
    ///
    /// # Errors
    /// A message that is none, is of another exchange, or proves nothing.
    pub fn finish(&mut self, client_final: &[u8]) -> Result<Vec<u8>, ScramError> {
        let Step::Challenged(challenged) = std::mem::replace(&mut self.step, Step::Over) else {
            return Err(ScramError::OutOfOrder);
        };
        challenged.finish(client_final)
    }
}

impl Challenged {
    fn finish(&self, client_final: &[u8]) -> Result<Vec<u8>, ScramError> {
        let last = parse_client_final(client_final)?;
        // Only its end, as in Kafka: librdkafka before 2.2 puts its own part before it once more.
        if !last.nonce.ends_with(&self.nonce) {
            return Err(ScramError::Nonce);
        }
        if last.channel_binding != BASE64.encode(&self.gs2_header) {
            return Err(ScramError::ChannelBindingData);
        }
        let proof =
            BASE64.decode(last.proof).map_err(|_| ScramError::Malformed { reason: "proof is no base64" })?;
        let signed = format!("{},{}", self.signed, last.without_proof);
        if !self.is_proven_by(&proof, signed.as_bytes()) {
            return Err(ScramError::Proof);
        }
        let mechanism = self.credential.mechanism;
        let signature = mechanism.hmac(&self.credential.server_key, signed.as_bytes());
        Ok(format!("v={}", BASE64.encode(signature)).into_bytes())
    }

    fn is_proven_by(&self, proof: &[u8], signed: &[u8]) -> bool {
        let mechanism = self.credential.mechanism;
        let signature = mechanism.hmac(&self.credential.stored_key, signed);
        if proof.len() != signature.len() {
            return false;
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(one, other)| one ^ other).collect();
        mechanism.hash(&client_key).ct_eq(&self.credential.stored_key).into()
    }
}
