//! Proving to the server who one is, by SCRAM: the password stays here.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use strandline_storage::access::ScramMechanism;
use strandline_storage::access::scram::ScramClient;
use strandline_storage::seam::Seams;

use super::admin::text;
use super::connection::Connection;
use super::error::{ClientError, ErrorCode};
use crate::password::Login;

const HANDSHAKE_VERSION: i16 = 1;
const AUTHENTICATE_VERSION: i16 = 2;

/// What came of a try.
pub enum Outcome {
    Proven,
    /// The server has closed the connection; it offers these.
    OtherMechanisms(Vec<String>),
}

/// Proves to the server to be the user.
pub async fn log_in(
    connection: &mut Connection,
    login: &Login,
    mechanism: ScramMechanism,
) -> Result<Outcome, ClientError> {
    let request = SaslHandshakeRequest::default().with_mechanism(text(mechanism.name()));
    let response = connection.call(HANDSHAKE_VERSION, &request).await?;
    match ErrorCode::of(response.error_code) {
        None => {}
        Some(code) if code.is(ResponseError::UnsupportedSaslMechanism) => {
            let offered = response.mechanisms.iter().map(ToString::to_string).collect();
            return Ok(Outcome::OtherMechanisms(offered));
        }
        Some(code) if code.is(ResponseError::IllegalSaslState) => {
            return Err(ClientError::NoLogin { address: connection.address().clone() });
        }
        Some(code) => return Err(ClientError::refused("the server refused to authenticate", code, None)),
    }
    let nonce: String = Seams::system().rng.bytes16().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut scram = ScramClient::new(mechanism, &login.user, &login.password, nonce);
    let challenge = send(connection, login, scram.first()).await?;
    let answer = scram.answer(&challenge).map_err(|error| broken(connection, &error))?;
    let proof = send(connection, login, answer).await?;
    scram.verify(&proof).map_err(|error| broken(connection, &error))?;
    Ok(Outcome::Proven)
}

async fn send(connection: &mut Connection, login: &Login, token: Vec<u8>) -> Result<Bytes, ClientError> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(token.into());
    let response = connection.call(AUTHENTICATE_VERSION, &request).await?;
    match ErrorCode::of(response.error_code) {
        None => Ok(response.auth_bytes),
        Some(code) if code.is(ResponseError::SaslAuthenticationFailed) => {
            let address = connection.address().clone();
            Err(ClientError::WrongPassword { address, user: login.user.clone() })
        }
        Some(code) => {
            let message = response.error_message.as_deref();
            Err(ClientError::refused("the server did not authenticate", code, message))
        }
    }
}

fn broken(connection: &Connection, error: &impl std::fmt::Display) -> ClientError {
    let reason = format!("it does not prove to know the password: {error}");
    ClientError::Protocol { address: connection.address().clone(), reason }
}
