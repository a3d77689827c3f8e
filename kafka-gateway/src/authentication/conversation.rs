//! The requests by which a client proves who it is, in the order that the protocol knows:
//! ApiVersions as often as it likes, SaslHandshake once, then tokens to the end of the exchange.
//! Pure.
//!
//! Invariants: only a token can end a conversation well, and only after the handshake; after its end
//! everything is unexpected.

use super::Directory;
use super::exchange::{Denial, Exchange, Reason, Step};
use crate::listener::SaslMechanism;

/// What a client sends.
#[derive(Debug)]
pub(crate) enum Input<Token> {
    ApiVersions,
    Handshake {
        version: i16,
        mechanism: String,
    },
    Token {
        framing: Framing,
        token: Token,
    },
    /// Any other request.
    Other,
}

/// How tokens travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As a frame of their own, after version 0 of SaslHandshake.
    Raw,
    /// In SaslAuthenticate requests.
    Requests,
}

/// What is to be done about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    AnswerApiVersions,
    /// Say that the mechanism is offered.
    AcceptMechanism,
    /// Say that it is not, then close.
    RefuseMechanism(String),
    /// Send the token and wait for the next one.
    Challenge(Vec<u8>),
    /// Send the token; the client has proven to be the user.
    Proven {
        user: String,
        mechanism: SaslMechanism,
        token: Vec<u8>,
    },
    /// Say that it has not, then close.
    Deny(Denial),
    /// Close.
    Unexpected,
}

#[derive(Default)]
enum State {
    Handshake {
        nonce: String,
    },
    Tokens(Tokens),
    #[default]
    Over,
}

struct Tokens {
    framing: Framing,
    mechanism: SaslMechanism,
    exchange: Exchange,
}

/// One attempt to prove who one is. The default is one that is over.
#[derive(Default)]
pub(crate) struct Conversation {
    offered: Vec<SaslMechanism>,
    /// Whose session it is, when that is to go on.
    expected_user: Option<String>,
    state: State,
}

impl Conversation {
    /// With somebody who is not known yet. `nonce` is the server's part of it.
    pub(crate) fn new(offered: Vec<SaslMechanism>, nonce: String) -> Self {
        Self { offered, expected_user: None, state: State::Handshake { nonce } }
    }

    /// With a user who proves again who it is, in the same way as before.
    pub(crate) fn again(user: String, mechanism: SaslMechanism, nonce: String) -> Self {
        let expected_user = Some(user);
        Self { offered: vec![mechanism], expected_user, state: State::Handshake { nonce } }
    }

    pub(crate) fn offered(&self) -> &[SaslMechanism] {
        &self.offered
    }

    /// Whether nothing was begun yet.
    pub(crate) fn awaits_handshake(&self) -> bool {
        matches!(self.state, State::Handshake { .. })
    }

    /// Whether the next frame is a token without a request around it.
    pub(crate) fn awaits_raw_token(&self) -> bool {
        matches!(self.state, State::Tokens(Tokens { framing: Framing::Raw, .. }))
    }

    /// Takes what the client sent.
    pub(crate) fn step(&mut self, input: Input<impl AsRef<[u8]>>, directory: &Directory) -> Output {
        match (std::mem::take(&mut self.state), input) {
            (state @ State::Handshake { .. }, Input::ApiVersions) => {
                self.state = state;
                Output::AnswerApiVersions
            }
            (State::Handshake { nonce }, Input::Handshake { version, mechanism }) => {
                self.shake_hands(nonce, version, mechanism)
            }
            (State::Tokens(tokens), Input::Token { framing, token }) if framing == tokens.framing => {
                self.take_token(tokens, token.as_ref(), directory)
            }
            _ => Output::Unexpected,
        }
    }

    fn shake_hands(&mut self, nonce: String, version: i16, name: String) -> Output {
        let Some(mechanism) = self.offered.iter().copied().find(|offered| offered.name() == name) else {
            return Output::RefuseMechanism(name);
        };
        let framing = if version == 0 { Framing::Raw } else { Framing::Requests };
        self.state = State::Tokens(Tokens { framing, mechanism, exchange: Exchange::new(mechanism, nonce) });
        Output::AcceptMechanism
    }

    fn take_token(&mut self, mut tokens: Tokens, token: &[u8], directory: &Directory) -> Output {
        match tokens.exchange.step(token, directory) {
            Ok(Step::Challenge(token)) => {
                self.state = State::Tokens(tokens);
                Output::Challenge(token)
            }
            Ok(Step::Proven { user, token }) => match &self.expected_user {
                Some(expected) if *expected != user => {
                    Output::Deny(Denial { user: Some(user), reason: Reason::OtherUser(expected.clone()) })
                }
                _ => Output::Proven { user, mechanism: tokens.mechanism, token },
            },
            Err(denial) => Output::Deny(denial),
        }
    }
}
