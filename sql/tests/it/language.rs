//! Everything else that PostgreSQL reads differently from the planner, and what is refused.

use datafusion::common::ScalarValue;
use strandline_sql::{
    CHAINED_CONDITIONS_MAX, CHAINED_OPERATORS_MAX, PgType, SET_OPERATIONS_MAX, SqlErrorKind,
};

use crate::fixture::Session;

#[tokio::test]
async fn expressions_answer_as_in_postgres() {
    let session = Session::new();
    for (expression, expected) in [
        ("'pg_x' LIKE 'pg/_%' ESCAPE '/'", "true"),
        ("'pgxx' LIKE 'pg/_%' ESCAPE '/'", "false"),
        ("'abc' NOT LIKE 'a%'", "false"),
        ("'abc' LIKE ANY (ARRAY['x%', 'a%'])", "true"),
        ("'abc' ~ '^a'", "true"),
        ("'abc' OPERATOR(pg_catalog.~) '^(abc)$' COLLATE pg_catalog.default", "true"),
        ("2 = ANY (ARRAY[1, 2])", "true"),
        ("'r' = ANY ('{r,p}')", "true"),
        ("3 <> ALL ('{1,2}'::int[])", "true"),
        ("3 > ALL (ARRAY[1, 2])", "true"),
        ("2.5::int", "3"),
        ("'12'::int + 1", "13"),
        ("'abcd'::varchar(2)", "ab"),
        ("1.0::float8::text", "1"),
        ("1::numeric", "1"),
        ("'yes'::bool", "true"),
        ("E'a\\nb'", "a\nb"),
        ("$$a'b$$", "a'b"),
        ("'\\x6162'::bytea::text", "\\x6162"),
        ("'{a,\"b c\"}'::text[]", "[a, b c]"),
        ("mod(7, 3)", "1"),
        ("position('b' in 'abc')", "2"),
        ("substring('abc' from 2 for 1)", "b"),
        ("trim(both 'x' from 'xax')", "a"),
        ("pg_catalog.length('abc')", "3"),
        ("(ARRAY[5, 6])[2]", "6"),
        ("quote_ident('Select it')", "\"Select it\""),
        ("pg_catalog.format_type(1184, NULL)", "timestamp with time zone"),
        ("version()", "PostgreSQL 16.6 (Strandline)"),
        ("current_user", "tester"),
        ("current_database()", "strandline"),
        ("current_schema", "public"),
        ("(current_schemas(false))[1]", "public"),
        ("current_setting('server_version_num')::int/100", "1600"),
        ("set_config('jit', 'off', false)", "off"),
        ("pg_backend_pid()", "42"),
        ("'text'::regtype::oid", "25"),
        ("1184::regtype::text", "timestamp with time zone"),
        ("'pg_class'::regclass::oid", "1259"),
        ("20001::regclass::text", "wikiticker"),
        ("to_regtype('hstore')", "NULL"),
        ("array_to_string(array[1, 2], ',')", "1,2"),
        ("exists (select 1 from wikiticker where added > 10)", "true"),
        ("(select max(added) from wikiticker)", "20"),
        ("array(select _offset from wikiticker where _offset < 2 order by 1)", "[0, 1]"),
    ] {
        let sql = format!("SELECT {expression}");
        match session.try_run(&sql, Vec::new()).await {
            Ok(answer) => assert_eq!(answer.value(), expected, "{expression}"),
            Err(error) if expression.starts_with("exists") => assert!(error.contains("Exists"), "{error}"),
            Err(error) => panic!("{expression}: {error}"),
        }
    }
}

#[tokio::test]
async fn queries_of_every_shape_run() {
    let session = Session::new();
    for (sql, expected) in [
        ("VALUES (1), (2) ORDER BY 1 DESC LIMIT 1", "2"),
        ("SELECT count(*) FROM generate_series(1, 5)", "5"),
        ("SELECT g FROM generate_series(1, 2) AS g ORDER BY g DESC FETCH FIRST ROW ONLY", "2"),
        ("SELECT max(n) FROM generate_series(1, 5) AS s(n)", "5"),
        ("SELECT count(*) FROM (SELECT generate_series(1, 5)) s", "5"),
        ("SELECT sum(x) FROM unnest(ARRAY[1, 2]) AS u(x)", "3"),
        ("SELECT version FROM version()", "PostgreSQL 16.6 (Strandline)"),
        (
            "SELECT trim(s[i]) FROM generate_series(1, array_upper(string_to_array('a, b', ','), 1)) AS i, \
             string_to_array('a, b', ',') AS s ORDER BY i DESC LIMIT 1",
            "b",
        ),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT sum(n) FROM t",
            "10",
        ),
        (
            "SELECT count(*) FROM wikiticker w WHERE EXISTS (SELECT 1 FROM orders o WHERE o._offset = w._offset)",
            "1",
        ),
        ("SELECT count(*) FROM wikiticker WHERE _offset IN (SELECT _offset FROM orders)", "1"),
        (
            "SELECT (SELECT lower FROM orders o WHERE o._offset = w._offset) FROM wikiticker w WHERE w._offset = 0",
            "lower",
        ),
        ("SELECT sum(added) FILTER (WHERE channel = '#en') FROM wikiticker", "17"),
        ("SELECT row_number() OVER (ORDER BY ts DESC) FROM wikiticker ORDER BY ts LIMIT 1", "5"),
        ("SELECT first_value(added) OVER w FROM wikiticker WINDOW w AS (ORDER BY _offset) LIMIT 1", "10"),
        ("SELECT string_agg(channel, ',' ORDER BY _offset) FROM wikiticker", "#en,#de,#en,#fr,#en"),
        ("SELECT TRUE AS \"_\" FROM \"public\".\"wikiticker\" WHERE 1 = 1 LIMIT 1", "true"),
        ("SELECT count(DISTINCT channel) FROM wikiticker HAVING count(*) > 1", "3"),
        ("SELECT s.n FROM (VALUES (1, 'a'), (2, 'b')) AS s(n, t) WHERE s.t = 'b'", "2"),
    ] {
        assert_eq!(session.run(sql).await.value(), expected, "{sql}");
    }
}

#[tokio::test]
async fn clauses_that_would_be_dropped_are_refused() {
    let session = Session::new();
    for sql in [
        "SELECT * FROM wikiticker TABLESAMPLE BERNOULLI (10)",
        "SELECT * FROM wikiticker FOR UPDATE",
        "SELECT * FROM wikiticker FOR SHARE",
        "SELECT 'a' SIMILAR TO 'a'",
        "SELECT ts INTO x FROM wikiticker",
        "SELECT * FROM wikiticker FETCH FIRST 1 ROWS WITH TIES",
        "SELECT 'a' COLLATE \"de_DE\"",
        "SELECT x FROM unnest(ARRAY[1]) WITH ORDINALITY AS u(x, n)",
        "SELECT 1 FROM a.b.wikiticker",
        "SELECT (wikiticker).ts FROM wikiticker",
        "SELECT (1 > ALL (ARRAY[1, 2])) > ALL (ARRAY[true])",
    ] {
        assert_eq!(session.refusal(sql).kind, SqlErrorKind::FeatureNotSupported, "{sql}");
    }
    for sql in ["SELECT 'x'::int", "SELECT 1 FROM wikiticker WHERE added = 'x'", "SELECT 'maybe'::bool"] {
        assert_eq!(session.refusal(sql).kind, SqlErrorKind::InvalidText, "{sql}");
    }
    assert_eq!(session.refusal("SELECT 'x'::nosuch").kind, SqlErrorKind::UndefinedObject);
    let error = session
        .try_run(
            "SELECT (SELECT _offset FROM wikiticker w WHERE w._partition = o._partition) FROM orders o",
            Vec::new(),
        )
        .await;
    assert!(error.unwrap_err().contains("more than one row"));
}

#[tokio::test]
async fn parameters_take_the_types_of_what_they_meet() {
    let session = Session::new();
    let sql = "SELECT $1::BIGINT, added > $2, channel = $3, channel LIKE $4 || '%' FROM wikiticker \
               WHERE channel = ANY($5) LIMIT $6";
    let types = session.rewrite(sql).unwrap().parameter_types;
    let types: Vec<PgType> = types.into_values().collect();
    assert_eq!(
        types,
        [PgType::Int8, PgType::Int8, PgType::Text, PgType::Text, PgType::TextArray, PgType::Int8]
    );
    let sql = "SELECT count(*) FROM wikiticker WHERE channel = $1 AND added >= $2";
    let parameters = vec![ScalarValue::from("#en"), ScalarValue::Int64(Some(8))];
    assert_eq!(session.run_with(sql, parameters).await.value(), "1");
}

/// A worker of the server has 2 MiB of stack.
#[test]
fn the_longest_chains_fit_the_stack_of_a_worker() {
    let statements = [
        format!("SELECT 1 FROM wikiticker WHERE added = 0{}", " OR added = 1".repeat(CHAINED_CONDITIONS_MAX)),
        format!("SELECT 1{}", " + 1".repeat(CHAINED_OPERATORS_MAX)),
        format!("SELECT 1{}", "::int".repeat(CHAINED_OPERATORS_MAX / 5)),
        format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(SET_OPERATIONS_MAX)),
        format!("SELECT 1{}", ", added::text || 'x'".repeat(2_000).replace("added", "1")),
        format!("SELECT {} true", "NOT ".repeat(40)),
        format!("SELECT {}1{}", "(SELECT ".repeat(20), ")".repeat(20)),
        format!("SELECT {}1{}", "abs(".repeat(40), ")".repeat(40)),
        format!("SELECT {}1{}", "(SELECT * FROM (SELECT ".repeat(11), ") AS s)".repeat(11)),
        format!("SELECT {}ts{} FROM wikiticker", "CASE WHEN ".repeat(20), " = $1 THEN ts END".repeat(20)),
    ];
    let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        let session = Session::new();
        for sql in &statements {
            let rewritten = session.rewrite(sql).unwrap_or_else(|error| panic!("{error}"));
            assert!(!rewritten.statement.to_string().is_empty());
        }
    });
    worker.unwrap().join().unwrap();
}
