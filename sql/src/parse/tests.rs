use super::*;
use crate::statement::{AccessMode, ExplainDetail, ExplainMode, SetScope, Transaction, TransactionModes};

fn one(text: &str) -> Statement {
    let mut parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(parsed.len(), 1, "{text}");
    parsed.remove(0).statement
}

fn refusal(text: &str) -> SqlError {
    parse(text).expect_err(text)
}

fn set(name: &str, value: &[&str]) -> Statement {
    let value = value.iter().map(|value| (*value).to_owned()).collect();
    Statement::Set { name: name.to_owned(), value, scope: SetScope::Session }
}

#[test]
fn empty_texts_hold_no_statement() {
    for text in ["", ";;;", "  -- nothing\n", "/* a; b */ ;"] {
        assert_eq!(parse(text), Ok(Vec::new()), "{text}");
    }
}

#[test]
fn each_statement_keeps_its_own_text() {
    let parsed = parse("select 'ä;b' ;\n  /* c */ SHOW ALL;").unwrap();
    let texts: Vec<&str> = parsed.iter().map(|parsed| parsed.text.as_str()).collect();
    assert_eq!(texts, ["select 'ä;b'", "SHOW ALL"]);
}

#[test]
fn syntax_errors_name_their_place_in_the_whole_text() {
    let error = refusal("select 1;\nselect ä from t t t");
    assert_eq!(error.kind, SqlErrorKind::Syntax);
    assert_eq!(error.position, Some(29), "{error}");
    assert_eq!(refusal("select 'open").kind, SqlErrorKind::Syntax);
    assert_eq!(refusal("select 1 from t where )").kind, SqlErrorKind::Syntax);
    assert_eq!(refusal("selekt 1").position, Some(1));
}

#[test]
fn every_form_of_set_is_read() {
    assert_eq!(one("SET extra_float_digits = 3"), set("extra_float_digits", &["3"]));
    assert_eq!(one("set DateStyle to ISO, MDY"), set("datestyle", &["iso", "mdy"]));
    assert_eq!(one("SET x.y = 'A b'"), set("x.y", &["A b"]));
    assert_eq!(one("SET SESSION TIMEZONE TO 'Asia/Kolkata'"), set("timezone", &["Asia/Kolkata"]));
    assert_eq!(one("SET TIME ZONE LOCAL"), set("timezone", &[]));
    assert_eq!(one("SET TIME ZONE -7"), set("timezone", &["-7"]));
    assert_eq!(one("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE"), set("timezone", &["-08:00"]));
    assert_eq!(one("SET search_path = \"Public\""), set("search_path", &["Public"]));
    assert_eq!(one("SET statement_timeout TO DEFAULT"), set("statement_timeout", &[]));
    assert_eq!(one("SET NAMES 'utf8'"), set("client_encoding", &["utf8"]));
    assert_eq!(one("SET ROLE NONE"), set("role", &[]));
    assert_eq!(
        one("set local work_mem = '1MB'"),
        Statement::Set { name: "work_mem".to_owned(), value: vec!["1MB".to_owned()], scope: SetScope::Local }
    );
    assert_eq!(refusal("SET ROLE admin").kind, SqlErrorKind::FeatureNotSupported);
    assert_eq!(refusal("SET a 1").kind, SqlErrorKind::Syntax);
}

#[test]
fn transaction_words_are_read() {
    let begin = |isolation: Option<&str>, access| {
        Statement::Transaction(Transaction::Begin(TransactionModes {
            isolation: isolation.map(ToOwned::to_owned),
            access,
        }))
    };
    assert_eq!(one("begin"), begin(None, None));
    assert_eq!(
        one("START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY DEFERRABLE"),
        begin(Some("repeatable read"), Some(AccessMode::ReadOnly))
    );
    assert_eq!(one("BEGIN READ WRITE"), begin(None, Some(AccessMode::ReadWrite)));
    assert_eq!(one("END"), Statement::Transaction(Transaction::Commit));
    assert_eq!(one("COMMIT AND NO CHAIN"), Statement::Transaction(Transaction::Commit));
    assert_eq!(one("abort"), Statement::Transaction(Transaction::Rollback));
    assert_eq!(
        one("ROLLBACK TO SAVEPOINT \"_pg3_1\""),
        Statement::Transaction(Transaction::RollbackTo { name: "_pg3_1".to_owned() })
    );
    assert_eq!(refusal("COMMIT AND CHAIN").kind, SqlErrorKind::FeatureNotSupported);
    assert_eq!(
        one("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"),
        Statement::SetTransaction {
            modes: TransactionModes { isolation: Some("read uncommitted".to_owned()), access: None },
            scope: SetScope::Session,
        }
    );
}

#[test]
fn pool_reset_of_a_driver_is_four_statements() {
    let parsed = parse("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;").unwrap();
    let statements: Vec<&Statement> = parsed.iter().map(|parsed| &parsed.statement).collect();
    assert!(matches!(statements[0], Statement::Query(_)));
    assert_eq!(statements[1], &Statement::Close { name: None });
    assert_eq!(statements[2], &Statement::Unlisten);
    assert_eq!(statements[3], &Statement::Reset { name: None });
    assert_eq!(one("DISCARD ALL"), Statement::DiscardAll);
    assert_eq!(one("DEALLOCATE PREPARE all"), Statement::Deallocate { name: None });
    assert_eq!(one("DEALLOCATE s1"), Statement::Deallocate { name: Some("s1".to_owned()) });
}

#[test]
fn show_knows_the_settings_with_several_words() {
    let show = |name: &str| Statement::Show { name: name.to_owned() };
    assert_eq!(one("show transaction isolation level"), show("transaction_isolation"));
    assert_eq!(one("SHOW TIME ZONE"), show("timezone"));
    assert_eq!(one("SHOW ALL"), show("all"));
    assert_eq!(one("show Standard_Conforming_Strings"), show("standard_conforming_strings"));
}

#[test]
fn explain_options_are_read_or_refused() {
    let Statement::Explain(explain) = one("EXPLAIN (ANALYZE, VERBOSE off, COSTS false) SELECT 1") else {
        panic!("not an EXPLAIN");
    };
    assert_eq!((explain.mode, explain.detail), (ExplainMode::Analyze, ExplainDetail::Normal));
    assert!(matches!(one("explain analyze select 1"), Statement::Explain(_)));
    assert_eq!(refusal("EXPLAIN (FORMAT JSON) SELECT 1").kind, SqlErrorKind::FeatureNotSupported);
    assert_eq!(refusal("EXPLAIN (BUFFERS) SELECT 1").kind, SqlErrorKind::FeatureNotSupported);
    assert_eq!(refusal("EXPLAIN DELETE FROM t").kind, SqlErrorKind::FeatureNotSupported);
}

#[test]
fn other_statements_are_refused_by_name() {
    for text in [
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "CREATE TABLE t (a int)",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "COPY t TO '/tmp/x'",
        "COPY (SELECT 1) TO STDOUT",
        "DROP TABLE t",
        "DECLARE c CURSOR FOR SELECT 1",
        "FETCH 1 FROM c",
        "MOVE 1 IN c",
        "DO $$ begin end $$",
        "CHECKPOINT",
        "VACUUM",
        "PREPARE s AS SELECT 1",
        "EXECUTE s",
        "LISTEN c",
        "NOTIFY c",
        "GRANT ALL ON t TO u",
        "TRUNCATE t",
        "LOCK TABLE t",
    ] {
        let error = refusal(text);
        let verb = text.split(' ').next().unwrap();
        assert_eq!(error.kind, SqlErrorKind::FeatureNotSupported, "{text}: {error}");
        assert!(error.message.starts_with(verb), "{text}: {error}");
        assert_eq!(error.position, Some(1));
    }
}

#[test]
fn deep_statements_are_refused_not_overflowed() {
    let parentheses = format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(refusal(&parentheses).kind, SqlErrorKind::TooComplex);
    let chain = format!("select 1 where true{}", " or true".repeat(5_000));
    assert_eq!(refusal(&chain).kind, SqlErrorKind::TooComplex);
    let list = format!("select 1 where 1 in (1{})", ", 1".repeat(20_000));
    assert!(matches!(one(&list), Statement::Query(_)));
}

#[test]
fn brackets_without_end_are_refused_at_once() {
    for text in ["(".repeat(200_000), "[".repeat(200_000), format!("f{}", "(1, ".repeat(200_000))] {
        let error = parse(&format!("SELECT {text}")).unwrap_err();
        assert_eq!(error.kind, SqlErrorKind::TooComplex);
    }
    for depth in [1, 10, 20] {
        parse(&format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth))).unwrap();
        parse(&format!("SELECT * FROM {}t{}", "(SELECT * FROM ".repeat(depth), ") x".repeat(depth))).unwrap();
    }
}
