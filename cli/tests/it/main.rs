//! The command line as it is typed, where no server is needed.

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STRANDLINE_") {
            command.env_remove(name);
        }
    }
    command.args(args).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in ["serve", "sql", "topic", "produce", "tail"] {
        let output = run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        let help = text(&output.stdout);
        assert!(help.contains("Examples:") && help.contains(&format!("strandline {command}")), "{help}");
    }
}

#[test]
fn a_wrong_flag_is_exit_code_2() {
    for args in [vec!["serve", "--sideways"], vec!["nonsense"], vec!["tail", "t", "--from", "yesterday"]] {
        assert_eq!(run(&args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn config_check_prints_what_serve_would_use() {
    let output = run(&["config", "check", "--kafka-listen", "127.0.0.1:19092"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("listen = \"127.0.0.1:19092\""), "{}", text(&output.stdout));
}

#[test]
fn an_unknown_setting_is_exit_code_2_and_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("s.toml");
    std::fs::write(&path, "[kafka]\nlissen = \"127.0.0.1:1\"\n").expect("it is written");
    let output = run(&["config", "check", "--config", path.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("lissen"), "{}", text(&output.stderr));
}

#[test]
fn listening_beyond_this_machine_is_refused_without_no_auth() {
    let output = run(&["serve", "--kafka-listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--no-auth"), "{}", text(&output.stderr));
}

#[test]
fn formats_are_listed_with_their_versions() {
    let output = run(&["version", "--formats"]);
    assert!(
        text(&output.stdout).contains("durable format: writes 4, reads 1 to 4"),
        "{}",
        text(&output.stdout)
    );
}
