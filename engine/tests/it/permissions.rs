//! What a session sees and reads when rules say so.

use std::sync::Arc;

use strandline_engine::access::{
    AccessChange, AclBinding, Authorizer, Operation, PatternKind, Permission, ResourceKind, WithoutRules,
};
use strandline_engine::{EngineError, ErrorKind, Permissions, Principal, Session, SessionOptions};
use strandline_storage::ids::TopicPartition;
use strandline_storage::log::OffsetCommit;

use crate::fixture::{Fixture, answer, lines, options, run};

fn allow(operation: Operation, topic: &str) -> AclBinding {
    AclBinding {
        resource_kind: ResourceKind::Topic,
        pattern_kind: PatternKind::Literal,
        resource_name: topic.to_owned(),
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation,
        permission: Permission::Allow,
    }
}

async fn change(fixture: &Fixture, change: AccessChange) {
    let changed: Result<(), Box<dyn std::error::Error + Send + Sync>> =
        fixture.log.change_access(|_| Ok((vec![change], ()))).await;
    changed.unwrap();
}

/// Alice may read one topic, know of another, and knows nothing of the third.
async fn guarded() -> Fixture {
    let fixture = Fixture::new().await;
    for topic in ["readable", "known", "hidden"] {
        fixture.topic(topic, [format!(r#"{{"{topic}_member":1}}"#)]).await;
    }
    let rules = vec![allow(Operation::Read, "readable"), allow(Operation::Describe, "known")];
    change(&fixture, AccessChange::AddAcls(rules)).await;
    fixture
}

fn session(fixture: &Fixture, user: &str, authorizer: Authorizer) -> Session {
    let principal = Principal {
        name: format!("User:{user}"),
        host: "10.0.0.1".to_owned(),
        authorizer: Arc::new(authorizer),
    };
    let permissions = Permissions::Rules(principal);
    fixture.engine.session(SessionOptions { user: user.to_owned(), permissions, ..options(&[]) }).unwrap()
}

fn strict() -> Authorizer {
    Authorizer { super_users: vec!["admin".to_owned()], ..Authorizer::default() }
}

async fn rows(session: &Session, sql: &str) -> Vec<String> {
    lines(&run(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).rows)
}

async fn refused(session: &Session, sql: &str) -> EngineError {
    run(session, sql).await.map(|answer| answer.rows).expect_err(sql)
}

#[tokio::test]
async fn a_topic_is_read_with_the_right_to_and_not_without() {
    let fixture = guarded().await;
    let alice = session(&fixture, "alice", strict());
    assert_eq!(rows(&alice, "SELECT readable_member FROM readable").await, ["1"]);
    for sql in [
        "SELECT known_member FROM known",
        "SELECT count(*) FROM known",
        "EXPLAIN SELECT * FROM known",
        "SELECT 1 FROM readable WHERE EXISTS (SELECT 1 FROM public.known)",
        "SELECT (SELECT max(_offset) FROM known)",
        "WITH k AS (SELECT * FROM known) SELECT 1 FROM k JOIN readable ON true",
        "SELECT 1 UNION ALL SELECT known_member FROM known",
        "SELECT * FROM readable LEFT JOIN LATERAL (SELECT * FROM known LIMIT 1) k ON true",
        "SELECT * FROM known WHERE false",
    ] {
        let error = refused(&alice, sql).await;
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{sql}: {error:?}");
        assert_eq!(error.message, "permission denied for table known", "{sql}");
    }
    let named_alike = "WITH known AS (SELECT 7 AS n) SELECT n FROM known";
    assert_eq!(rows(&alice, named_alike).await, ["7"]);
}

#[tokio::test]
async fn a_topic_that_may_not_be_described_is_not_there() {
    let fixture = guarded().await;
    let alice = session(&fixture, "alice", strict());
    for sql in ["SELECT * FROM hidden", "SELECT hidden_member FROM hidden", "SELECT 'hidden'::regclass"] {
        let error = refused(&alice, sql).await;
        assert_eq!(error.kind, ErrorKind::UndefinedTable, "{sql}: {error:?}");
    }
    // An error has no more to say of a topic in another case than of one that is not there.
    let (hidden, missing) = (
        refused(&alice, "SELECT * FROM \"Hidden\"").await,
        refused(&alice, "SELECT * FROM \"Nowhere\"").await,
    );
    assert_eq!((hidden.kind, hidden.detail, hidden.hint), (missing.kind, missing.detail, missing.hint));
}

#[tokio::test]
async fn catalogs_and_system_tables_show_what_may_be_described() {
    let fixture = guarded().await;
    let topic = fixture.log.snapshot().topic("readable").unwrap().id;
    let hidden = fixture.log.snapshot().topic("hidden").unwrap().id;
    for (group, id) in [("seen", topic), ("unseen", topic), ("seen", hidden)] {
        let topic_partition = TopicPartition::new(id, 0);
        let commit = OffsetCommit { topic_partition, offset: 0, leader_epoch: -1, metadata: None };
        fixture.log.commit_offsets(group, vec![commit]).await.unwrap();
    }
    let group = AclBinding { resource_kind: ResourceKind::Group, ..allow(Operation::Describe, "seen") };
    change(&fixture, AccessChange::AddAcls(vec![group])).await;
    let alice = session(&fixture, "alice", strict());
    let admin = session(&fixture, "admin", strict());
    let cases = [
        ("SELECT topic FROM strandline.topics ORDER BY 1", &["hidden", "known", "readable"][..]),
        ("SELECT topic FROM strandline.partitions ORDER BY 1", &["hidden", "known", "readable"]),
        ("SELECT DISTINCT topic FROM strandline.columns ORDER BY 1", &["hidden", "known", "readable"]),
        (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1",
            &["hidden", "known", "readable"],
        ),
        (
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = 'public' AND c.relkind = 'r' ORDER BY 1",
            &["hidden", "known", "readable"],
        ),
        (
            "SELECT \"group\" || ' ' || topic FROM strandline.consumer_offsets ORDER BY 1",
            &["seen hidden", "seen readable", "unseen readable"],
        ),
    ];
    for (sql, all) in cases {
        let is_shown = |row: &&str| !row.contains("hidden") && !row.starts_with("unseen");
        let shown: Vec<_> = all.iter().copied().filter(is_shown).collect();
        assert_eq!(rows(&admin, sql).await, *all, "{sql}");
        assert_eq!(rows(&alice, sql).await, shown, "{sql}");
    }
    fixture.log.compact_now().await.unwrap();
    let segments = "SELECT topic FROM strandline.segments ORDER BY 1";
    assert_eq!(rows(&admin, segments).await, ["hidden", "known", "readable"]);
    assert_eq!(rows(&alice, segments).await, ["known", "readable"]);
}

#[tokio::test]
async fn what_others_run_is_not_shown() {
    let fixture = guarded().await;
    let alice = session(&fixture, "alice", strict());
    let queries = "SELECT \"user\", query = '<insufficient privilege>' FROM strandline.queries ORDER BY 1";
    let admin = session(&fixture, "admin", strict());
    fixture.topic("big", (0..200).map(|number| number.to_string())).await;
    let parsed = admin.parse("SELECT a.* FROM big a, big b, big c").await.unwrap().remove(0);
    let prepared = admin.prepare(parsed, Vec::new()).await.unwrap();
    // It runs for as long as nobody takes its rows.
    let running = admin.execute(&prepared, Vec::new()).await.unwrap();
    assert_eq!(rows(&alice, queries).await, ["admin|true", "alice|false"]);
    let others = session(&fixture, "admin", strict());
    assert_eq!(rows(&others, queries).await, ["admin|false", "admin|false"]);
    drop(running);
}

#[tokio::test]
async fn a_prepared_statement_is_checked_again_when_it_is_run() {
    let fixture = guarded().await;
    let alice = session(&fixture, "alice", strict());
    let parsed = alice.parse("SELECT readable_member FROM readable").await.unwrap().remove(0);
    let prepared = alice.prepare(parsed, Vec::new()).await.unwrap();
    let run = async || answer(alice.execute(&prepared, Vec::new()).await?).await;
    assert_eq!(lines(&run().await.unwrap().rows), ["1"]);
    change(&fixture, AccessChange::RemoveAcls(vec![allow(Operation::Read, "readable")])).await;
    assert_eq!(run().await.unwrap_err().kind, ErrorKind::PermissionDenied);
    change(&fixture, AccessChange::AddAcls(vec![allow(Operation::All, "readable")])).await;
    assert_eq!(lines(&run().await.unwrap().rows), ["1"]);
    let deny = AclBinding { permission: Permission::Deny, ..allow(Operation::Read, "readable") };
    change(&fixture, AccessChange::AddAcls(vec![deny])).await;
    assert_eq!(run().await.unwrap_err().kind, ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn without_rules_the_setting_decides() {
    let fixture = guarded().await;
    let open = Authorizer { without_rules: WithoutRules::Allow, ..strict() };
    let bob = session(&fixture, "bob", open);
    assert_eq!(rows(&bob, "SELECT hidden_member FROM hidden").await, ["1"]);
    // A topic with rules is for those whom they name.
    assert_eq!(refused(&bob, "SELECT * FROM readable").await.kind, ErrorKind::UndefinedTable);
}
