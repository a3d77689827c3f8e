//! Conversations with clients that know their password, that do not, and that know no order.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use strandline_storage::access::scram::ScramClient;
use strandline_storage::access::{Access, AccessChange, ScramCredential, ScramMechanism, User};

use super::Directory;
use super::conversation::{Conversation, Framing, Input, Output};
use super::exchange::{Denial, Reason};
use crate::listener::SaslMechanism;

const USER: &str = "alice";
const PASSWORD: &str = "pencil";

fn user(name: &str, mechanisms: &[ScramMechanism]) -> AccessChange {
    let credential = |mechanism: &ScramMechanism| {
        ScramCredential::derive(*mechanism, PASSWORD, b"some salt".to_vec(), 4096)
    };
    let credentials = mechanisms.iter().map(credential).collect();
    AccessChange::PutUser(User { name: name.to_owned(), credentials })
}

/// `alice` with both credentials, `bob` with that of SCRAM-SHA-512 alone.
fn directory() -> Directory {
    static ACCESS: LazyLock<Arc<Access>> = LazyLock::new(|| {
        let users = vec![user(USER, &ScramMechanism::ALL), user("bob", &[ScramMechanism::Sha512])];
        Arc::new(Access::default().with_changes(users).unwrap().0)
    });
    Directory { access: ACCESS.clone(), secret: [7; 32] }
}

fn conversation() -> Conversation {
    Conversation::new(SaslMechanism::ALL.to_vec(), "server".to_owned())
}

fn handshake(version: i16, mechanism: SaslMechanism) -> Input<Vec<u8>> {
    Input::Handshake { version, mechanism: mechanism.name().to_owned() }
}

fn token(token: impl Into<Vec<u8>>) -> Input<Vec<u8>> {
    Input::Token { framing: Framing::Requests, token: token.into() }
}

/// What comes of one token of PLAIN.
fn plain(text: &str) -> Output {
    let mut conversation = conversation();
    let accepted = conversation.step(handshake(1, SaslMechanism::Plain), &directory());
    assert_eq!(accepted, Output::AcceptMechanism);
    conversation.step(token(text), &directory())
}

fn proven(user: &str, mechanism: SaslMechanism, token: Vec<u8>) -> Output {
    Output::Proven { user: user.to_owned(), mechanism, token }
}

/// Goes through an exchange of SCRAM.
fn scram(conversation: &mut Conversation, mechanism: ScramMechanism, user: &str, password: &str) -> Output {
    let sasl = match mechanism {
        ScramMechanism::Sha256 => SaslMechanism::ScramSha256,
        ScramMechanism::Sha512 => SaslMechanism::ScramSha512,
    };
    assert_eq!(conversation.step(handshake(1, sasl), &directory()), Output::AcceptMechanism);
    let mut client = ScramClient::new(mechanism, user, password, "client".to_owned());
    match conversation.step(token(client.first()), &directory()) {
        Output::Challenge(challenge) => {
            let output = conversation.step(token(client.answer(&challenge).unwrap()), &directory());
            if let Output::Proven { token, .. } = &output {
                client.verify(token).unwrap();
            }
            output
        }
        other => other,
    }
}

#[test]
fn plain_takes_the_password_of_any_credential_and_nothing_else() {
    for user in [USER, "bob"] {
        for authzid in ["", user] {
            let output = plain(&format!("{authzid}\0{user}\0{PASSWORD}"));
            assert_eq!(output, proven(user, SaslMechanism::Plain, Vec::new()));
        }
    }
    for (user, password) in [(USER, "pencils"), ("carol", PASSWORD), ("", PASSWORD), (USER, "")] {
        let output = plain(&format!("\0{user}\0{password}"));
        assert!(matches!(output, Output::Deny(_)), "{output:?}");
    }
    let output = plain(&format!("bob\0{USER}\0{PASSWORD}"));
    assert_eq!(
        output,
        Output::Deny(Denial { user: Some(USER.to_owned()), reason: Reason::AuthorizationIdentity })
    );
    for malformed in ["", "\0", "alice\0pencil", "\0alice\0pencil\0"] {
        assert!(matches!(plain(malformed), Output::Deny(_)), "{malformed}");
    }
}

#[test]
fn scram_takes_the_password_of_its_own_credential_and_nothing_else() {
    for mechanism in ScramMechanism::ALL {
        let output = scram(&mut conversation(), mechanism, USER, PASSWORD);
        assert!(matches!(&output, Output::Proven { user, .. } if user == USER), "{output:?}");
        for (user, password) in [(USER, "pencils"), ("carol", PASSWORD)] {
            let output = scram(&mut conversation(), mechanism, user, password);
            assert!(matches!(output, Output::Deny(_)), "{output:?}");
        }
    }
    let output = scram(&mut conversation(), ScramMechanism::Sha256, "bob", PASSWORD);
    assert!(matches!(output, Output::Deny(_)), "{output:?}");
}

#[test]
fn only_what_is_offered_can_be_used() {
    let mut conversation = Conversation::new(vec![SaslMechanism::ScramSha512], "server".to_owned());
    let output = conversation.step(handshake(1, SaslMechanism::Plain), &directory());
    assert_eq!(output, Output::RefuseMechanism("PLAIN".to_owned()));
    let output = conversation.step(token(format!("\0{USER}\0{PASSWORD}")), &directory());
    assert_eq!(output, Output::Unexpected);
}

#[test]
fn tokens_travel_as_the_handshake_said() {
    for (version, framing, other) in
        [(0, Framing::Raw, Framing::Requests), (1, Framing::Requests, Framing::Raw)]
    {
        let plain = || format!("\0{USER}\0{PASSWORD}").into_bytes();
        let mut good = conversation();
        good.step(handshake(version, SaslMechanism::Plain), &directory());
        assert_eq!(good.awaits_raw_token(), framing == Framing::Raw);
        let output = good.step(Input::Token { framing, token: plain() }, &directory());
        assert_eq!(output, proven(USER, SaslMechanism::Plain, Vec::new()));
        assert!(!good.awaits_raw_token());
        let mut bad = conversation();
        bad.step(handshake(version, SaslMechanism::Plain), &directory());
        let output = bad.step(Input::Token { framing: other, token: plain() }, &directory());
        assert_eq!(output, Output::Unexpected);
    }
}

#[test]
fn a_session_is_renewed_by_its_own_user_in_its_own_way() {
    let again = || Conversation::again(USER.to_owned(), SaslMechanism::ScramSha512, "server".to_owned());
    let output = scram(&mut again(), ScramMechanism::Sha512, USER, PASSWORD);
    assert!(matches!(output, Output::Proven { .. }), "{output:?}");
    let output = scram(&mut again(), ScramMechanism::Sha512, "bob", PASSWORD);
    let reason = Reason::OtherUser(USER.to_owned());
    assert_eq!(output, Output::Deny(Denial { user: Some("bob".to_owned()), reason }));
    let output = again().step(handshake(1, SaslMechanism::Plain), &directory());
    assert_eq!(output, Output::RefuseMechanism("PLAIN".to_owned()));
}

/// Something that a client may send, in any order.
#[derive(Clone, Debug)]
enum Sent {
    ApiVersions,
    Handshake(i16, usize),
    UnknownMechanism,
    /// The right password by PLAIN.
    Password(Framing),
    Noise(Framing, Vec<u8>),
    Other,
}

fn sent() -> impl Strategy<Value = Sent> {
    let framing = || prop_oneof![Just(Framing::Raw), Just(Framing::Requests)];
    prop_oneof![
        Just(Sent::ApiVersions),
        (0..2_i16, 0..3_usize).prop_map(|(version, mechanism)| Sent::Handshake(version, mechanism)),
        Just(Sent::UnknownMechanism),
        framing().prop_map(Sent::Password),
        (framing(), proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(framing, token)| Sent::Noise(framing, token)),
        Just(Sent::Other),
    ]
}

impl Sent {
    fn input(&self) -> Input<Vec<u8>> {
        match self {
            Self::ApiVersions => Input::ApiVersions,
            Self::Handshake(version, mechanism) => handshake(*version, SaslMechanism::ALL[*mechanism]),
            Self::UnknownMechanism => Input::Handshake { version: 1, mechanism: "GSSAPI".to_owned() },
            Self::Password(framing) => {
                Input::Token { framing: *framing, token: format!("\0{USER}\0{PASSWORD}").into_bytes() }
            }
            Self::Noise(framing, token) => Input::Token { framing: *framing, token: token.clone() },
            Self::Other => Input::Other,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Held against a model: what was sent last before the token decides alone.
    #[test]
    fn nobody_comes_in_by_any_order_of_requests(sent in proptest::collection::vec(sent(), 0..6)) {
        let directory = directory();
        let mut conversation = conversation();
        // The handshake that is in force.
        let mut begun: Option<(i16, SaslMechanism)> = None;
        let mut is_over = false;
        for one in sent {
            let output = conversation.step(one.input(), &directory);
            let framing = |version| if version == 0 { Framing::Raw } else { Framing::Requests };
            let expected_entry = match (&one, begun) {
                (Sent::Password(used), Some((version, SaslMechanism::Plain))) => {
                    !is_over && *used == framing(version)
                }
                _ => false,
            };
            prop_assert_eq!(matches!(output, Output::Proven { .. }), expected_entry, "{:?}", one);
            match output {
                Output::AnswerApiVersions => prop_assert!(begun.is_none() && !is_over),
                Output::AcceptMechanism => {
                    prop_assert!(begun.is_none() && !is_over);
                    let Sent::Handshake(version, mechanism) = one else { panic!("it is a handshake") };
                    begun = Some((version, SaslMechanism::ALL[mechanism]));
                }
                Output::Challenge(_) => prop_assert!(begun.is_some() && !is_over),
                _ => is_over = true,
            }
        }
    }
}
