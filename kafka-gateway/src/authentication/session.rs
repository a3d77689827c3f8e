//! The time for which a client's proof counts on its connection, and how the client renews it
//! (KIP-368).
//!
//! # Behavior
//! - A session without an end goes on for as long as its user exists.
//! - A session with an end is renewed by a SaslHandshake, at most once a second, for the same user and
//!   by the same mechanism. Once it is over, the next request closes the connection.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;

use super::conversation::Conversation;
use super::hearing::{AuthenticationError, Proof, Reply, Verdict, input, new_nonce, reply, step};
use crate::api::{Api, RequestError};
use crate::context::{Context, Gateway};

/// A client that renews its session more often is told that there is nothing to authenticate.
const RENEWALS_APART: Duration = Duration::from_secs(1);

/// What a request is to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// One to be served.
    Request,
    /// A step of its renewal.
    Renewal,
}

/// The session of a connection.
pub(crate) struct Session(Option<Proven>);

/// The session of a user.
struct Proven {
    proof: Proof,
    ends_at: Option<Duration>,
    renewal_began: Option<Duration>,
    renewal: Option<Conversation>,
}

impl Session {
    /// Of somebody who was let in without SASL.
    pub(crate) fn without_proof() -> Self {
        Self(None)
    }

    /// Of a user, from now on.
    pub(crate) fn begin(proof: Proof, gateway: &Gateway) -> Self {
        let mut proven = Proven { proof, ends_at: None, renewal_began: None, renewal: None };
        proven.renew(gateway);
        Self(Some(proven))
    }

    /// What a request is, at this moment.
    pub(crate) fn passage(&mut self, api: &Api, gateway: &Gateway) -> Result<Passage, AuthenticationError> {
        let Some(proven) = &mut self.0 else { return Ok(Passage::Request) };
        let now = gateway.clock().monotonic();
        let user = &proven.proof.user;
        if gateway.access().users.get(user).is_none() {
            return Err(AuthenticationError::Removed(user.clone()));
        }
        if proven.renewal.is_some() {
            return Ok(Passage::Renewal);
        }
        if api.key == ApiKey::SaslHandshake && proven.may_renew(now) {
            proven.renewal_began = Some(now);
            let Proof { user, mechanism } = proven.proof.clone();
            proven.renewal = Some(Conversation::again(user, mechanism, new_nonce(gateway)));
            return Ok(Passage::Renewal);
        }
        match proven.ends_at {
            Some(ends_at) if now >= ends_at => Err(AuthenticationError::Expired(user.clone())),
            _ => Ok(Passage::Request),
        }
    }

    /// Takes a step of the renewal.
    pub(crate) async fn renew(
        &mut self,
        context: &Context,
        api: &Api,
        body: Bytes,
    ) -> Result<Reply, RequestError> {
        let proven = self.0.as_mut().expect("only a session of a user is renewed");
        let mut renewal = proven.renewal.take().expect("the renewal has begun");
        let input = input(api, context.version, body)?;
        let output = step(&context.gateway, &mut renewal, input).await;
        let reply = reply(context, api.name, renewal.offered(), output)?;
        match reply.verdict {
            Verdict::Open => proven.renewal = Some(renewal),
            Verdict::Proven(_) => proven.renew(&context.gateway),
            Verdict::Failed(_) => {}
        }
        Ok(reply)
    }
}

impl Proven {
    fn may_renew(&self, now: Duration) -> bool {
        let is_apart = |began: Duration| now.saturating_sub(began) >= RENEWALS_APART;
        self.ends_at.is_some() && self.renewal_began.is_none_or(is_apart)
    }

    fn renew(&mut self, gateway: &Gateway) {
        let lifetime = gateway.settings.reauthentication;
        self.ends_at = lifetime.map(|lifetime| gateway.clock().monotonic() + lifetime);
    }
}
