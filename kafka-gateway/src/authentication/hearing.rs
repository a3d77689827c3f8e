//! One request of a conversation: from its bytes to what the conversation makes of it, and to the
//! bytes of the answer. Passwords are checked beside the network threads.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use kafka_protocol::messages::{ApiKey, SaslAuthenticateRequest, SaslHandshakeRequest};
use thiserror::Error;

use super::conversation::{Conversation, Framing, Input, Output};
use super::exchange::Denial;
use super::nonce;
use crate::api::{Answer, Api, RequestError, Running, decode, sasl};
use crate::context::{Context, Gateway};
use crate::error_code::ErrorCode;
use crate::guard;
use crate::listener::SaslMechanism;
use crate::telemetry;

/// Why a connection ended before, or because, its client had not proven who it is.
#[derive(Debug, Error)]
pub(crate) enum AuthenticationError {
    #[error("{api} came where it is not expected while a client proves who it is")]
    Unexpected { api: &'static str },
    #[error("client did not prove who it is within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("SASL mechanism \"{0}\" is not offered here")]
    Mechanism(String),
    #[error("client did not prove who it is: {0}")]
    Denied(Denial),
    #[error("session of user \"{0}\" was over, and its client did not authenticate again")]
    Expired(String),
    #[error("user \"{0}\" was removed")]
    Removed(String),
}

impl AuthenticationError {
    /// Whom the client named.
    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Self::Denied(denial) => denial.user.as_deref(),
            Self::Expired(user) | Self::Removed(user) => Some(user),
            _ => None,
        }
    }
}

/// Somebody who has proven to be a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) user: String,
    pub(crate) mechanism: SaslMechanism,
}

/// How it goes on after an answer.
#[derive(Debug)]
pub(crate) enum Verdict {
    Open,
    Proven(Proof),
    /// The connection closes. The answer is held back for a while, so that guessing is slow.
    Failed(AuthenticationError),
}

/// What a client is told.
#[derive(Debug)]
pub(crate) struct Reply {
    /// `None`: nothing is said.
    pub(crate) answer: Option<Answer>,
    pub(crate) verdict: Verdict,
}

impl Reply {
    /// The answer as a request that is running, and why the connection closes after it.
    pub(crate) fn into_running(self, gateway: &Gateway) -> (Running, Option<AuthenticationError>) {
        let answer = self.answer.unwrap_or_default();
        match self.verdict {
            Verdict::Open | Verdict::Proven(_) => (async move { Ok(answer) }.boxed(), None),
            Verdict::Failed(error) => {
                let held_back = gateway.clock().sleep(gateway.settings.failed_authentication_delay);
                let running = async move {
                    held_back.await;
                    Ok(answer)
                };
                (running.boxed(), Some(error))
            }
        }
    }
}

/// A nonce for a new conversation.
pub(crate) fn new_nonce(gateway: &Gateway) -> String {
    nonce(gateway.log.seams().rng.as_ref())
}

/// What a request is to a conversation. `body` begins behind the request's header.
pub(crate) fn input(api: &Api, version: i16, body: Bytes) -> Result<Input<Bytes>, RequestError> {
    let checked =
        |body: Bytes| guard::check(api.shape, version, api.request_encoding(version), &body).map(|_| body);
    match api.key {
        ApiKey::ApiVersions => Ok(Input::ApiVersions),
        ApiKey::SaslHandshake => {
            let request: SaslHandshakeRequest = decode(checked(body)?, version)?;
            Ok(Input::Handshake { version, mechanism: request.mechanism.to_string() })
        }
        ApiKey::SaslAuthenticate => {
            let request: SaslAuthenticateRequest = decode(checked(body)?, version)?;
            Ok(Input::Token { framing: Framing::Requests, token: request.auth_bytes })
        }
        _ => Ok(Input::Other),
    }
}

/// Gives an input to a conversation.
pub(crate) async fn step(gateway: &Gateway, conversation: &mut Conversation, input: Input<Bytes>) -> Output {
    let directory = gateway.authenticator.directory(gateway.access());
    if !matches!(input, Input::Token { .. }) {
        return conversation.step(input, &directory);
    }
    let checks = gateway.authenticator.checks.clone();
    let permit = checks.acquire_owned().await.expect("the semaphore is never closed");
    let mut taken = std::mem::take(conversation);
    let stepped = tokio::task::spawn_blocking(move || {
        let output = taken.step(input, &directory);
        drop(permit);
        (taken, output)
    });
    let (given_back, output) = stepped.await.expect("a step does not panic and is not cancelled");
    *conversation = given_back;
    output
}

/// What is said to a client that sent a request, after the conversation took it.
pub(crate) fn reply(
    context: &Context,
    api: &'static str,
    offered: &[SaslMechanism],
    output: Output,
) -> Result<Reply, RequestError> {
    let (answer, verdict) = match output {
        Output::AcceptMechanism => {
            (sasl::handshake_answer(context, ErrorCode::None, offered)?, Verdict::Open)
        }
        Output::RefuseMechanism(name) => (
            sasl::handshake_answer(context, ErrorCode::UnsupportedSaslMechanism, offered)?,
            Verdict::Failed(AuthenticationError::Mechanism(name)),
        ),
        Output::Challenge(token) => (sasl::token_answer(context, token, None)?, Verdict::Open),
        Output::Proven { user, mechanism, token } => {
            let lifetime = context.settings().reauthentication;
            (sasl::token_answer(context, token, lifetime)?, proven(user, mechanism))
        }
        Output::Deny(denial) => (sasl::denied_answer(context)?, denied(denial)),
        Output::AnswerApiVersions | Output::Unexpected => {
            let verdict = Verdict::Failed(AuthenticationError::Unexpected { api });
            return Ok(Reply { answer: None, verdict });
        }
    };
    Ok(Reply { answer: Some(answer), verdict })
}

/// The verdict on a client that has proven who it is.
pub(crate) fn proven(user: String, mechanism: SaslMechanism) -> Verdict {
    telemetry::authenticated(mechanism.name());
    Verdict::Proven(Proof { user, mechanism })
}

/// The verdict on a client that has not.
pub(crate) fn denied(denial: Denial) -> Verdict {
    telemetry::authentication_failed();
    Verdict::Failed(AuthenticationError::Denied(denial))
}
