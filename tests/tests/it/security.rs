//! Users, from outside: the first one, those that it makes, and who is not let in.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::raw::RawClient;
use crate::server::{Server, command};

const PASSWORD: &str = "STRANDLINE_PASSWORD";
const FIRST: (&str, &str) = ("STRANDLINE_ADMIN_PASSWORD", "pencil");

/// A server on which users prove who they are, with the first user's password.
fn start() -> Server {
    Server::start_in(|_| command(), &[FIRST, ("STRANDLINE_AUTH", "required")])
}

fn run(server: &Server, login: Option<(&str, &str)>, args: &[&str]) -> Output {
    finish(prepared(server, login, args).stdin(Stdio::null()))
}

fn prepared(server: &Server, login: Option<(&str, &str)>, args: &[&str]) -> Command {
    let mut command = command();
    command.args(args).args(["--bootstrap", &server.bootstrap()]);
    if let Some((user, password)) = login {
        command.args(["--user", user]).env(PASSWORD, password);
    }
    command
}

fn finish(command: &mut Command) -> Output {
    command.output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ADMIN: Option<(&str, &str)> = Some(("admin", "pencil"));

#[test]
fn a_server_to_which_nobody_could_come_does_not_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let mut serve = command();
    serve.args(["serve", "--auth", "required", "--data"]).arg(data);
    for port in ["--kafka-listen", "--pg-listen", "--http-listen"] {
        serve.args([port, "127.0.0.1:0"]);
    }
    let output = finish(&mut serve);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("STRANDLINE_ADMIN_PASSWORD"), "{}", stderr(&output));
}

#[test]
fn the_first_user_comes_in_and_nobody_else() {
    let server = start();
    assert!(stdout(&run(&server, ADMIN, &["topic", "list"])).contains("topic"));
    for (login, said) in [
        (None, "add --user NAME"),
        (Some(("admin", "pen")), "did not let \"admin\" in"),
        (Some(("nobody", "pencil")), "did not let \"nobody\" in"),
    ] {
        let refused = run(&server, login, &["topic", "list"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

#[test]
fn the_first_user_is_made_once() {
    let mut server = start();
    server.kill();
    let again = [("STRANDLINE_ADMIN_PASSWORD", "another"), ("STRANDLINE_AUTH", "required")];
    server.start_again_with(&again);
    assert!(run(&server, ADMIN, &["topic", "list"]).status.success());
    assert!(!run(&server, Some(("admin", "another")), &["topic", "list"]).status.success());
    server.kill();
    server.start_again_with(&[("STRANDLINE_AUTH", "required")]);
    assert!(run(&server, ADMIN, &["topic", "list"]).status.success());
}

/// Runs a command that reads a new password.
fn with_password(server: &Server, args: &[&str], password: &str) -> Output {
    with_input(server, ADMIN, args, password)
}

fn produce(server: &Server, login: Option<(&str, &str)>, topic: &str) -> Output {
    with_input(server, login, &["produce", topic], "a line")
}

/// Runs a command that reads a line.
fn with_input(server: &Server, login: Option<(&str, &str)>, args: &[&str], line: &str) -> Output {
    let mut child = prepared(server, login, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut input = child.stdin.take().expect("it is piped");
    // A command that refuses before it reads is fine.
    let _ = input.write_all(format!("{line}\n").as_bytes());
    drop(input);
    child.wait_with_output().expect("it ends")
}

#[test]
fn users_are_made_changed_listed_and_deleted() {
    let mut server = start();
    let alice = |password| Some(("alice", password));
    stdout(&with_password(&server, &["user", "create", "alice"], "first"));
    let again = with_password(&server, &["user", "create", "alice"], "first");
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("exists already"), "{}", stderr(&again));
    let users = stdout(&run(&server, ADMIN, &["user", "list"]));
    assert!(users.contains("alice | SCRAM-SHA-256, SCRAM-SHA-512"), "{users}");
    stdout(&run(&server, alice("first"), &["topic", "list"]));
    stdout(&with_password(&server, &["user", "password", "alice"], "second"));
    server.kill();
    server.start_again_with(&[("STRANDLINE_AUTH", "required")]);
    assert!(!run(&server, alice("first"), &["topic", "list"]).status.success());
    stdout(&run(&server, alice("second"), &["topic", "list"]));
    stdout(&run(&server, ADMIN, &["user", "delete", "alice"]));
    assert!(!run(&server, alice("second"), &["topic", "list"]).status.success());
    let gone = run(&server, ADMIN, &["user", "delete", "alice"]);
    assert!(stderr(&gone).contains("does not exist"), "{}", stderr(&gone));
    let strange = with_password(&server, &["user", "create", "carol"], "pässword");
    assert_eq!(strange.status.code(), Some(2));
}

#[test]
fn users_may_do_what_rules_allow() {
    let server = start();
    let alice = Some(("alice", "pw"));
    stdout(&with_password(&server, &["user", "create", "alice"], "pw"));
    stdout(&run(&server, ADMIN, &["topic", "create", "orders"]));
    let describe = ["topic", "describe", "orders"];
    assert!(!run(&server, alice, &describe).status.success());
    let rule =
        ["--allow", "alice", "--operation", "read", "--operation", "describe-configs", "--topic", "orders"];
    stdout(&run(&server, ADMIN, &[&["acl", "add"], &rule[..]].concat()));
    stdout(&run(&server, alice, &describe));
    let refused = produce(&server, alice, "orders");
    assert!(stderr(&refused).contains("uthoriz"), "{}", stderr(&refused));
    let listed = stdout(&run(&server, ADMIN, &["acl", "list", "--topic", "orders"]));
    assert!(listed.contains("User:alice") && listed.contains("describe-configs"), "{listed}");
    let create = ["topic", "create", "other"];
    let refused = run(&server, alice, &create);
    assert!(stderr(&refused).contains("uthoriz"), "{}", stderr(&refused));
    stdout(&run(&server, ADMIN, &[&["acl", "remove"], &rule[..]].concat()));
    assert!(!run(&server, alice, &describe).status.success());
    let none = run(&server, ADMIN, &[&["acl", "remove"], &rule[..]].concat());
    assert!(stderr(&none).contains("no such rule"), "{}", stderr(&none));
    let refused = run(&server, alice, &["user", "list"]);
    assert!(stderr(&refused).contains("uthoriz"), "{}", stderr(&refused));
}

#[test]
fn who_may_write_to_a_topic_needs_no_other_right_to_produce() {
    let server = start();
    let alice = Some(("alice", "pw"));
    stdout(&with_password(&server, &["user", "create", "alice"], "pw"));
    stdout(&run(&server, ADMIN, &["topic", "create", "orders"]));
    stdout(&run(
        &server,
        ADMIN,
        &["acl", "add", "--allow", "alice", "--operation", "write", "--topic", "orders"],
    ));
    assert!(stdout(&produce(&server, alice, "orders")).contains("1 record to topic"));
    let described = stdout(&run(&server, alice, &["topic", "describe", "orders"]));
    assert!(described.contains("describe-configs"), "{described}");
    let described = stdout(&run(&server, ADMIN, &["topic", "describe", "orders"]));
    assert!(described.contains("all settings are the defaults"), "{described}");
}

#[test]
fn where_nobody_is_asked_there_are_no_rules_and_no_logins() {
    let server = Server::start();
    let rules = run(&server, None, &["acl", "list"]);
    assert!(stderr(&rules).contains("--auth required"), "{}", stderr(&rules));
    let login = run(&server, ADMIN, &["topic", "list"]);
    assert!(stderr(&login).contains("leave out --user"), "{}", stderr(&login));
    RawClient::connect(server.kafka).create_topic("open", 1, &[]);
}

fn sql(server: &Server, login: Option<(&str, &str)>, statement: &str) -> Output {
    let mut command = command();
    command.args(["sql", "--server", &server.pg.to_string(), "--format", "csv", statement]);
    if let Some((user, password)) = login {
        command.args(["--user", user]).env(PASSWORD, password);
    }
    finish(command.stdin(Stdio::null()))
}

#[test]
fn sql_is_for_the_same_users_and_by_the_same_rules() {
    let server = start();
    let alice = Some(("alice", "pw"));
    stdout(&with_password(&server, &["user", "create", "alice"], "pw"));
    stdout(&run(&server, ADMIN, &["topic", "create", "orders"]));
    let count = "SELECT count(*) AS n FROM orders";
    for (login, said) in [
        (None, "name a user with --user"),
        (Some(("alice", "PW")), "28P01"),
        (Some(("nobody", "pw")), "28P01"),
        (alice, "42P01"),
    ] {
        let refused = sql(&server, login, count);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
    let rule = ["--allow", "alice", "--operation", "read", "--topic", "orders"];
    stdout(&run(&server, ADMIN, &[&["acl", "add"], &rule[..]].concat()));
    for login in [alice, ADMIN] {
        assert_eq!(stdout(&sql(&server, login, count)), "n\n0\n");
    }
}
