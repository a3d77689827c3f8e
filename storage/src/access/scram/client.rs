//! The client's side of one SCRAM exchange (RFC 5802): it proves to know the password without saying
//! it, and sees whether the server knows it too.
//!
//! Invariant: what the server sends decides nothing but the end of the exchange; it cannot make the
//! client compute for long.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq;
use thiserror::Error;

use super::super::credential::{SCRAM_ITERATIONS_MIN, ScramMechanism};

/// A server that asks for more is not waited for. Far more than Kafka or PostgreSQL ask for.
const ITERATIONS_MAX: u32 = 1_000_000;
/// Of client and server both: no channel binding, in base64.
const CHANNEL_BINDING: &str = "biws";

/// Why an exchange ended without a proof.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScramClientError {
    #[error("the server's message is malformed: {0}")]
    Malformed(&'static str),
    #[error("the server's nonce does not begin with the client's")]
    Nonce,
    #[error("{0} iterations are outside of {SCRAM_ITERATIONS_MIN} to {ITERATIONS_MAX}")]
    Iterations(u32),
    #[error("the server refuses: {0}")]
    Refused(String),
    #[error("the server does not know the password")]
    Proof,
}

/// One exchange.
pub struct ScramClient {
    mechanism: ScramMechanism,
    password: String,
    bare: String,
    nonce: String,
    /// What the server has to send at last. `None`: its challenge was not answered yet.
    expected: Option<Vec<u8>>,
}

impl ScramClient {
    /// `nonce` is the client's part of it: printable, without commas, never the same twice.
    pub fn new(mechanism: ScramMechanism, user: &str, password: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={user},r={nonce}");
        Self { mechanism, password: password.to_owned(), bare, nonce, expected: None }
    }

    /// The client's first message.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.bare).into_bytes()
    }

    /// The client's last message, for the server's first one. Computes for milliseconds.
    ///
    /// # Errors
    /// A message that is none, or of another exchange.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<Vec<u8>, ScramClientError> {
        let server_first = text(server_first)?;
        let challenge = Challenge::parse(server_first)?;
        if !challenge.nonce.starts_with(&self.nonce) || challenge.nonce.len() == self.nonce.len() {
            return Err(ScramClientError::Nonce);
        }
        let mechanism = self.mechanism;
        let salted = mechanism.salted_password(&self.password, &challenge.salt, challenge.iterations);
        let without_proof = format!("c={CHANNEL_BINDING},r={}", challenge.nonce);
        let signed = format!("{},{server_first},{without_proof}", self.bare);
        let server_key = mechanism.hmac(&salted, b"Server Key");
        self.expected = Some(mechanism.hmac(&server_key, signed.as_bytes()));
        let client_key = mechanism.hmac(&salted, b"Client Key");
        let signature = mechanism.hmac(&mechanism.hash(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(one, other)| one ^ other).collect();
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes())
    }

    /// Checks the server's last message.
    ///
    /// # Errors
    /// A server that does not know the password.
    pub fn verify(&self, server_final: &[u8]) -> Result<(), ScramClientError> {
        let message = text(server_final)?;
        let first = message.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Err(ScramClientError::Refused(error.to_owned()));
        }
        let verifier = first.strip_prefix("v=").ok_or(ScramClientError::Malformed("there is no verifier"))?;
        let verifier =
            BASE64.decode(verifier).map_err(|_| ScramClientError::Malformed("verifier is no base64"))?;
        let expected = self.expected.as_ref().ok_or(ScramClientError::Malformed("it came too early"))?;
        match expected.ct_eq(&verifier).into() {
            true => Ok(()),
            false => Err(ScramClientError::Proof),
        }
    }
}

/// `nonce "," salt "," iteration-count ["," extensions]`
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> Challenge<'a> {
    fn parse(message: &'a str) -> Result<Self, ScramClientError> {
        let mut attributes = message.split(',');
        let mut attribute = |name: &str, missing| {
            let attribute = attributes.next().and_then(|attribute| attribute.strip_prefix(name));
            attribute.ok_or(ScramClientError::Malformed(missing))
        };
        let nonce = attribute("r=", "there is no nonce")?;
        let salt = attribute("s=", "there is no salt")?;
        let iterations = attribute("i=", "there is no number of iterations")?;
        let salt = BASE64.decode(salt).map_err(|_| ScramClientError::Malformed("salt is no base64"))?;
        let iterations = iterations
            .parse()
            .map_err(|_| ScramClientError::Malformed("the number of iterations is none"))?;
        if !(SCRAM_ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(ScramClientError::Iterations(iterations));
        }
        Ok(Self { nonce, salt, iterations })
    }
}

fn text(message: &[u8]) -> Result<&str, ScramClientError> {
    std::str::from_utf8(message).map_err(|_| ScramClientError::Malformed("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::credential::ScramCredential;
    use super::super::ScramServer;
    use super::*;

    fn client(password: &str) -> ScramClient {
        ScramClient::new(ScramMechanism::Sha256, "user", password, "rOprNGfwEbeRWgbNEkqO".to_owned())
    }

    #[test]
    fn the_exchange_of_rfc_7677_is_said_to_the_byte() {
        let mut client = client("pencil");
        assert_eq!(client.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge =
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8(client.answer(challenge).unwrap()).unwrap(), last);
        assert_eq!(client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        assert_eq!(
            client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="),
            Err(ScramClientError::Malformed("verifier is no base64"))
        );
        assert_eq!(client.verify(b"v=AAAA"), Err(ScramClientError::Proof));
        assert_eq!(client.verify(b"e=other-error"), Err(ScramClientError::Refused("other-error".to_owned())));
    }

    #[test]
    fn client_and_server_agree_on_any_name_and_password() {
        for mechanism in ScramMechanism::ALL {
            for (user, password) in [("alice", "secret"), ("a,b=c", "p=,"), ("jörg", "пароль")] {
                let mut client = ScramClient::new(mechanism, user, password, "abc".to_owned());
                let mut server = ScramServer::new(mechanism, "def".to_owned());
                assert_eq!(server.first(&client.first()).unwrap().user, user);
                let credential = ScramCredential::derive(mechanism, password, vec![7; 16], 4096);
                let last = client.answer(&server.challenge(credential)).unwrap();
                client.verify(&server.finish(&last).unwrap()).unwrap();
            }
        }
    }

    #[test]
    fn challenges_of_others_are_refused() {
        let answer = |challenge: &str| client("pencil").answer(challenge.as_bytes());
        assert_eq!(answer("r=rOprNGfwEbeRWgbNEkqO,s=AAAA,i=4096"), Err(ScramClientError::Nonce));
        assert_eq!(answer("r=other,s=AAAA,i=4096"), Err(ScramClientError::Nonce));
        for iterations in [0, 4095, 1_000_001, u32::MAX] {
            let challenge = format!("r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i={iterations}");
            assert_eq!(answer(&challenge), Err(ScramClientError::Iterations(iterations)));
        }
        for malformed in ["", "r=a", "r=a,s=b", "r=a,s=!,i=4096", "r=a,s=AAAA,i=x", "s=AAAA,r=a,i=4096"] {
            assert!(matches!(answer(malformed), Err(ScramClientError::Malformed(_))), "{malformed}");
        }
    }

    proptest! {
        #[test]
        fn any_messages_are_answered_or_refused(
            first in "r?=?(rOprNGfwEbeRWgbNEkqO)?[x,]{0,3}s?=?[A=]{0,5},?i?=?[0-9]{0,4}",
            last in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut client = client("pencil");
            let _ = client.answer(first.as_bytes());
            prop_assert!(client.verify(&last).is_err());
        }
    }
}
