//! Which settings of security go together.

use super::super::SecretText;
use super::super::load::tests::load_text;
use super::*;
use crate::args::ServeArgs;

/// The message that refuses the settings.
fn refused(text: &str, variables: &[(&str, &str)], args: ServeArgs) -> String {
    load_text(text, variables, args).expect_err("the settings are refused").to_string()
}

fn required() -> ServeArgs {
    ServeArgs { auth: Some(Auth::Required), ..ServeArgs::default() }
}

const PAIR: &str = "[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n";

#[test]
fn listening_beyond_this_machine_asks_who_may_come_in() {
    let exposed = ServeArgs { pg_listen: "0.0.0.0:5432".parse().ok(), ..ServeArgs::default() };
    let message = refused("", &[], exposed.clone());
    assert!(message.contains("pg.listen is 0.0.0.0:5432"), "{message}");
    assert!(message.contains("--auth required") && message.contains("--no-auth"), "{message}");
    for (flags, auth) in [
        (ServeArgs { no_auth: true, ..exposed.clone() }, Auth::None),
        (ServeArgs { auth: Some(Auth::None), ..exposed.clone() }, Auth::None),
        (ServeArgs { auth: Some(Auth::Required), ..exposed }, Auth::Required),
    ] {
        assert_eq!(load_text("", &[], flags).expect("it was said aloud").auth, auth);
    }
    let message = refused("[[kafka.listeners]]\nlisten = \"0.0.0.0:9093\"\n", &[], ServeArgs::default());
    assert!(message.contains("kafka.listeners[0].listen is 0.0.0.0:9093"), "{message}");
}

#[test]
fn the_first_users_password_is_for_ports_that_ask_for_one() {
    let variables = [("STRANDLINE_ADMIN_PASSWORD", "0123")];
    let message = refused("", &variables, ServeArgs::default());
    assert!(
        message.contains("STRANDLINE_ADMIN_PASSWORD") && message.contains("--auth required"),
        "{message}"
    );
    let config = load_text("", &variables, required()).expect("the settings are right");
    assert_eq!(config.admin_password.as_ref().map(SecretText::expose), Some("0123"));
    let shown = format!("{}{config:?}", super::super::to_toml(&config));
    assert!(shown.contains("admin_password = \"***\"") && !shown.contains("0123"), "{shown}");
}

#[test]
fn tls_needs_a_certificate_and_its_key() {
    for text in [
        "[kafka]\ntls = \"required\"\n",
        "[[kafka.listeners]]\nlisten = \"127.0.0.1:1\"\ntls = \"required\"\n",
    ] {
        let message = refused(text, &[], ServeArgs::default());
        assert!(message.contains("tls.certificate and tls.key"), "{message}");
    }
    let message = refused("[pg]\ntls = \"optional\"\n", &[], ServeArgs::default());
    assert!(message.contains("pg.tls asks for TLS"), "{message}");
    let message = refused("[tls]\ncertificate = \"server.pem\"\n", &[], ServeArgs::default());
    assert!(message.contains("tls.key is not"), "{message}");
    let message = refused("[tls]\nkey = \"server.key\"\n", &[], ServeArgs::default());
    assert!(message.contains("tls.certificate is not"), "{message}");
}

#[test]
fn certificates_of_clients_need_tls_and_an_authority() {
    let text = format!("{PAIR}[kafka]\nclient_certificate = \"optional\"\n");
    let message = refused(&text, &[], ServeArgs::default());
    assert!(message.contains("kafka.tls = \"required\""), "{message}");
    let text = format!("{PAIR}[kafka]\ntls = \"required\"\nclient_certificate = \"required\"\n");
    let message = refused(&text, &[], ServeArgs::default());
    assert!(message.contains("tls.client_ca"), "{message}");
    let text = format!(
        "{PAIR}client_ca = \"clients.pem\"\n[kafka]\ntls = \"required\"\nclient_certificate = \"required\"\n"
    );
    assert!(load_text(&text, &[], ServeArgs::default()).is_ok());
}

#[test]
fn the_postgres_port_speaks_tls_when_there_is_a_certificate() {
    let pg_tls = |text: &str| load_text(text, &[], ServeArgs::default()).expect("right settings").pg_tls();
    assert_eq!(pg_tls(""), PgTls::Off);
    assert_eq!(pg_tls(PAIR), PgTls::Optional);
    assert_eq!(pg_tls(&format!("{PAIR}[pg]\ntls = \"off\"\n")), PgTls::Off);
}

#[test]
fn names_are_one_or_a_list() {
    let names = |value: &str| {
        let config = load_text("", &[("STRANDLINE_AUTH_SUPER_USERS", value)], ServeArgs::default());
        config.expect("right settings").auth_super_users.0
    };
    assert_eq!(names("CN=ops,O=example"), ["CN=ops,O=example"]);
    assert_eq!(names("[\"admin\", \"CN=ops,O=example\"]"), ["admin", "CN=ops,O=example"]);
    let config = load_text("auth_super_users = [\"a\", \"b\"]\n", &[], ServeArgs::default());
    assert_eq!(config.expect("right settings").auth_super_users.0, ["a", "b"]);
    let message = refused("auth_super_users = \"User:a\"\n", &[], ServeArgs::default());
    assert!(message.contains("it takes names of users: \"a\""), "{message}");
}
