//! The vectors of the RFCs, every refusal, and any bytes.

use proptest::prelude::*;

use super::*;
use crate::access::CredentialError;

const SECRET: &[u8] = b"secret of the process";
const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const RFC_SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

fn server(mechanism: ScramMechanism) -> ScramServer {
    ScramServer::new(mechanism, SERVER_NONCE.to_owned())
}

/// Of the password `pencil`.
fn pencil(mechanism: ScramMechanism) -> ScramCredential {
    ScramCredential::derive(mechanism, "pencil", BASE64.decode(RFC_SALT).unwrap(), 4096)
}

/// What a client sends at last, and what it then expects of the server.
fn answer(
    credential: &ScramCredential,
    password: &str,
    gs2_header: &str,
    messages: [&str; 2],
) -> (String, String) {
    let nonce = messages[1].split(',').next().unwrap();
    answer_with(credential, password, &format!("c={},{nonce}", BASE64.encode(gs2_header)), messages)
}

fn answer_with(
    credential: &ScramCredential,
    password: &str,
    without_proof: &str,
    messages: [&str; 2],
) -> (String, String) {
    let mechanism = credential.mechanism;
    let salted = mechanism.salted_password(password, &credential.salt, credential.iterations);
    let client_key = mechanism.hmac(&salted, b"Client Key");
    let signed = format!("{},{},{without_proof}", messages[0], messages[1]);
    let signature = mechanism.hmac(&mechanism.hash(&client_key), signed.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(one, other)| one ^ other).collect();
    let server_key = mechanism.hmac(&salted, b"Server Key");
    let verifier = BASE64.encode(mechanism.hmac(&server_key, signed.as_bytes()));
    (format!("{without_proof},p={}", BASE64.encode(proof)), format!("v={verifier}"))
}

fn exchange(mechanism: ScramMechanism, gs2_header: &str, password: &str) -> Result<(), ScramError> {
    let mut server = server(mechanism);
    let bare = format!("n=user,r={CLIENT_NONCE}");
    assert_eq!(server.first(format!("{gs2_header}{bare}").as_bytes())?.user, "user");
    let credential = pencil(mechanism);
    let challenge = String::from_utf8(server.challenge(credential.clone())).unwrap();
    let (last, expected) = answer(&credential, password, gs2_header, [&bare, &challenge]);
    let verifier = server.finish(last.as_bytes())?;
    assert_eq!(String::from_utf8(verifier).unwrap(), expected);
    Ok(())
}

#[test]
fn the_exchange_of_rfc_7677_is_answered_to_the_byte() {
    let mut server = server(ScramMechanism::Sha256);
    let first = server.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
    assert_eq!(first, ClientFirst { user: "user".to_owned() });
    let challenge = server.challenge(pencil(ScramMechanism::Sha256));
    let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!(String::from_utf8(challenge).unwrap(), expected);
    let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let verifier = server.finish(last.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(verifier).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn both_mechanisms_take_the_right_password_and_no_other() {
    for mechanism in ScramMechanism::ALL {
        assert_eq!(exchange(mechanism, "n,,", "pencil"), Ok(()));
        assert_eq!(exchange(mechanism, "n,,", "pencil "), Err(ScramError::Proof));
        assert!(pencil(mechanism).verify_password("pencil"));
        assert!(!pencil(mechanism).verify_password("Pencil"));
    }
}

#[test]
fn a_client_that_could_bind_to_a_channel_is_let_in_and_one_that_does_is_refused() {
    assert_eq!(exchange(ScramMechanism::Sha256, "y,,", "pencil"), Ok(()));
    let bound = exchange(ScramMechanism::Sha256, "p=tls-server-end-point,,", "pencil");
    assert_eq!(bound, Err(ScramError::ChannelBinding));
}

#[test]
fn a_user_may_act_for_nobody_else() {
    assert_eq!(exchange(ScramMechanism::Sha256, "n,a=user,", "pencil"), Ok(()));
    let other = exchange(ScramMechanism::Sha256, "n,a=root,", "pencil");
    assert_eq!(other, Err(ScramError::AuthorizationIdentity));
}

#[test]
fn an_unknown_user_is_challenged_the_same_each_time_and_proves_nothing() {
    for mechanism in ScramMechanism::ALL {
        let mock = ScramCredential::mock(mechanism, SECRET, "nobody");
        assert_eq!(mock, ScramCredential::mock(mechanism, SECRET, "nobody"));
        assert_ne!(mock.salt, ScramCredential::mock(mechanism, SECRET, "somebody").salt);
        assert_eq!(mock.check(), Ok(()));
        assert!(!mock.verify_password("pencil"));
        let mut server = server(mechanism);
        let bare = format!("n=nobody,r={CLIENT_NONCE}");
        server.first(format!("n,,{bare}").as_bytes()).unwrap();
        let challenge = String::from_utf8(server.challenge(mock.clone())).unwrap();
        let (last, _) = answer(&mock, "pencil", "n,,", [&bare, &challenge]);
        assert_eq!(server.finish(last.as_bytes()), Err(ScramError::Proof));
    }
}

/// As librdkafka before 2.2 answers: with its own part of the nonce twice. Kafka takes it.
#[test]
fn a_nonce_that_ends_in_that_of_the_exchange_is_taken() {
    let mut server = server(ScramMechanism::Sha256);
    let bare = format!("n=user,r={CLIENT_NONCE}");
    server.first(format!("n,,{bare}").as_bytes()).unwrap();
    let credential = pencil(ScramMechanism::Sha256);
    let challenge = String::from_utf8(server.challenge(credential.clone())).unwrap();
    let without_proof = format!("c=biws,r={CLIENT_NONCE}{CLIENT_NONCE}{SERVER_NONCE}");
    let (last, expected) = answer_with(&credential, "pencil", &without_proof, [&bare, &challenge]);
    assert_eq!(server.finish(last.as_bytes()).unwrap(), expected.into_bytes());
}

#[test]
fn what_does_not_belong_to_the_exchange_is_refused() {
    let finish = |last: &str| {
        let mut server = server(ScramMechanism::Sha256);
        server.first(format!("n,,n=user,r={CLIENT_NONCE}").as_bytes()).unwrap();
        server.challenge(ScramCredential::mock(ScramMechanism::Sha256, SECRET, "user"));
        server.finish(last.as_bytes())
    };
    let nonce = format!("{CLIENT_NONCE}{SERVER_NONCE}");
    assert_eq!(finish(&format!("c=biws,r={nonce}x,p=AAAA")), Err(ScramError::Nonce));
    assert_eq!(finish(&format!("c=biws,r={CLIENT_NONCE},p=AAAA")), Err(ScramError::Nonce));
    assert_eq!(finish(&format!("c=eSws,r={nonce},p=AAAA")), Err(ScramError::ChannelBindingData));
    assert_eq!(finish(&format!("c=biws,r={nonce},m=1,p=AAAA")), Err(ScramError::MandatoryExtension));
    assert_eq!(finish(&format!("c=biws,r={nonce},x=1,p=AAAA")), Err(ScramError::Proof));
    assert_eq!(finish(&format!("c=biws,r={nonce},p=")), Err(ScramError::Proof));
    for malformed in
        [format!("c=biws,r={nonce}"), format!("c=biws,r={nonce},p=!"), format!("r={nonce},p=AAAA")]
    {
        assert!(matches!(finish(&malformed), Err(ScramError::Malformed { .. })), "{malformed}");
    }
}

#[test]
fn first_messages_that_are_none_are_refused() {
    let first = |message: &str| server(ScramMechanism::Sha256).first(message.as_bytes());
    assert_eq!(first("n,,m=1,n=user,r=abc"), Err(ScramError::MandatoryExtension));
    for malformed in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=user",
        "n,,n=user,r=",
        "n,,r=abc,n=user",
        "x,,n=user,r=abc",
        "n,b=user,n=user,r=abc",
        "n,,n=a=b,r=abc",
        "n,,n=user,r=a b",
    ] {
        assert!(matches!(first(malformed), Err(ScramError::Malformed { .. })), "{malformed}");
    }
    assert_eq!(first("n,,n=a=2Cb=3Dc,r=abc,tokenauth=true").unwrap().user, "a,b=c");
    assert_eq!(first("n,,n=,r=abc").unwrap().user, "");
}

#[test]
fn an_exchange_goes_through_its_steps_once() {
    let mut server = server(ScramMechanism::Sha256);
    assert_eq!(server.finish(b"c=biws,r=a,p=AAAA"), Err(ScramError::OutOfOrder));
    assert_eq!(server.first(b"n,,n=user,r=abc"), Err(ScramError::OutOfOrder));
}

#[test]
fn credentials_out_of_their_bounds_are_refused() {
    let of = |salted: &[u8], salt: Vec<u8>, iterations| {
        ScramCredential::from_salted_password(ScramMechanism::Sha256, salted, salt, iterations)
    };
    let salted = ScramMechanism::Sha256.salted_password("pencil", &[7; 16], 5000);
    let credential = of(&salted, vec![7; 16], 5000).unwrap();
    assert_eq!(credential, ScramCredential::derive(ScramMechanism::Sha256, "pencil", vec![7; 16], 5000));
    for iterations in [0, 4095, 16385, u32::MAX] {
        let refused = of(&salted, vec![7; 16], iterations);
        assert_eq!(refused, Err(CredentialError::Iterations { iterations }));
    }
    assert!(matches!(
        of(&salted[1..], vec![7; 16], 4096),
        Err(CredentialError::KeyLength { length: 31, .. })
    ));
    for length in [0, 1025] {
        assert!(matches!(of(&salted, vec![7; length], 4096), Err(CredentialError::SaltLength { .. })));
    }
}

proptest! {
    #[test]
    fn any_messages_are_answered_or_refused(
        first in proptest::collection::vec(any::<u8>(), 0..60),
        last in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = server(ScramMechanism::Sha256).first(&first);
        let mut server = server(ScramMechanism::Sha512);
        server.first(b"n,,n=user,r=abc").unwrap();
        server.challenge(ScramCredential::mock(ScramMechanism::Sha512, SECRET, "user"));
        prop_assert!(server.finish(&last).is_err());
    }

    /// Close to messages that are some.
    #[test]
    fn messages_of_the_right_letters_are_answered_or_refused(
        first in "[nyp]?,{0,2}(a=[a=,]{0,3},)?[nmr]?=?[a=23CD,]{0,6},?r?=?[a,]{0,3}",
        last in "c?=?(biws)?,?r?=?(abc)?[a,]{0,3},?p?=?[A=]{0,5}",
    ) {
        let _ = server(ScramMechanism::Sha256).first(first.as_bytes());
        let mut server = server(ScramMechanism::Sha256);
        server.first(b"n,,n=user,r=abc").unwrap();
        server.challenge(ScramCredential::mock(ScramMechanism::Sha256, SECRET, "user"));
        prop_assert!(server.finish(last.as_bytes()).is_err());
    }
}
