//! SaslHandshake (key 17) and SaslAuthenticate (key 36): how a client proves who it is.
//!
//! # Behavior
//! - These two are answered by `authentication` while a client has not proven who it is, or proves it
//!   again. The handlers here are for all other times: a listener that asks for no proof, or one that
//!   was given already. Both are ILLEGAL_SASL_STATE then.
//! - A mechanism that the listener does not offer is UNSUPPORTED_SASL_MECHANISM, with those that it
//!   offers.
//! - Whatever is wrong with a user or a password is SASL_AUTHENTICATION_FAILED with one and the same
//!   message.
//!
//! # Version notes
//! - SaslHandshake 0: tokens follow without request headers. 1: in SaslAuthenticate requests.
//! - SaslAuthenticate 1: how long the session lasts (KIP-368).

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::{Answer, RequestError, encode};
use crate::context::Context;
use crate::error_code::ErrorCode;
use crate::listener::SaslMechanism;

pub(super) async fn answer_handshake(context: Context, _: SaslHandshakeRequest) -> SaslHandshakeResponse {
    SaslHandshakeResponse::default().with_error_code(context.code(ErrorCode::IllegalSaslState))
}

pub(super) async fn answer_authenticate(
    context: Context,
    _: SaslAuthenticateRequest,
) -> SaslAuthenticateResponse {
    refusal(&context, ErrorCode::IllegalSaslState, "there is nothing to authenticate at this moment")
}

fn refusal(context: &Context, error: ErrorCode, message: &'static str) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse::default()
        .with_error_code(context.code(error))
        .with_error_message(Some(StrBytes::from_static_str(message)))
}

/// Whether the mechanism that a client asked for is offered.
pub(crate) fn handshake_answer(
    context: &Context,
    error: ErrorCode,
    offered: &[SaslMechanism],
) -> Result<Answer, RequestError> {
    let names = offered.iter().map(|mechanism| StrBytes::from_static_str(mechanism.name()));
    let response = SaslHandshakeResponse::default()
        .with_error_code(context.code(error))
        .with_mechanisms(names.collect());
    encode(&response, context.version)
}

/// A token for the client; with the last one it has proven who it is, for `lifetime`.
pub(crate) fn token_answer(
    context: &Context,
    token: Vec<u8>,
    lifetime: Option<Duration>,
) -> Result<Answer, RequestError> {
    let lifetime_ms = lifetime.map_or(0, |lifetime| lifetime.as_millis());
    let response = SaslAuthenticateResponse::default()
        .with_error_message(None)
        .with_auth_bytes(Bytes::from(token))
        .with_session_lifetime_ms(i64::try_from(lifetime_ms).unwrap_or(i64::MAX));
    encode(&response, context.version)
}

/// The client has not proven who it is.
pub(crate) fn denied_answer(context: &Context) -> Result<Answer, RequestError> {
    let message = "Authentication failed: invalid user name or password";
    encode(&refusal(context, ErrorCode::SaslAuthenticationFailed, message), context.version)
}
