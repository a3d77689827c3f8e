//! Names of tables and columns, `*`, and the names that the columns of an answer have.

use strandline_sql::SqlErrorKind;

use crate::fixture::Session;

#[tokio::test]
async fn star_on_a_topic_shows_the_short_list_and_derived_tables_keep_all() {
    let session = Session::new();
    let short = ["ts", "_partition", "_offset", "_key", "lower"];
    assert_eq!(session.run("SELECT * FROM orders").await.names, short);
    assert_eq!(session.run("SELECT o.* FROM orders AS o").await.names, short);
    assert_eq!(session.run("TABLE orders").await.names, short);
    let derived = "SELECT * FROM (SELECT _value, lower FROM orders) AS s";
    assert_eq!(session.run(derived).await.names, ["_value", "lower"]);
    let common = "WITH s AS (SELECT _value FROM orders) SELECT * FROM s";
    assert_eq!(session.run(common).await.names, ["_value"]);
    assert_eq!(session.run("SELECT * FROM strandline.topics").await.names.len(), 6);
}

#[tokio::test]
async fn names_are_exact_after_folding_or_unique_without_case() {
    let session = Session::new();
    for (sql, expected) in [
        ("SELECT b FROM cases", "b"),
        ("SELECT B FROM cases", "b"),
        ("SELECT \"B\" FROM cases", "B"),
        ("SELECT A FROM cases", "A"),
        ("SELECT é FROM cases", "é"),
        ("SELECT É FROM cases", "É"),
        ("SELECT \"É\" FROM cases", "É"),
        ("SELECT userid FROM cases", "userId"),
        ("SELECT USERID FROM cases AS C", "userId"),
        ("SELECT c.\"nameX\" FROM cases c", "nameX"),
        ("SELECT lower FROM ORDERS", "lower"),
        ("SELECT upper FROM \"Orders\"", "upper"),
        ("SELECT ts2 FROM mixed", "ts2"),
        ("SELECT \"hg.nginx.org\" FROM \"a.b.c\"", "hg.nginx.org"),
        ("SELECT \"1xx\" FROM public.\"a.b.c\"", "1xx"),
        ("SELECT \"a.b.c\".\"select\" FROM strandline.public.\"a.b.c\"", "select"),
        ("SELECT x FROM \"frog-hops\"", "x"),
    ] {
        assert_eq!(session.run(sql).await.value(), expected, "{sql}");
    }
}

#[tokio::test]
async fn names_that_fit_several_or_none_are_refused_with_candidates() {
    let session = Session::new();
    for (sql, kind, hint) in [
        ("SELECT namex FROM cases", SqlErrorKind::AmbiguousColumn, "\"nameX\" or \"NAMEX\""),
        ("SELECT \"userid\" FROM cases", SqlErrorKind::UndefinedColumn, "\"userId\""),
        ("SELECT 1 FROM \"ORDERS\"", SqlErrorKind::UndefinedTable, "\"Orders\""),
        ("SELECT 1 FROM __consumer_offsets", SqlErrorKind::UndefinedTable, "internal."),
        ("SELECT o.ts FROM orders", SqlErrorKind::UndefinedTable, ""),
        ("SELECT ts FROM orders, cases", SqlErrorKind::AmbiguousColumn, "\"orders\".\"ts\""),
        ("SELECT 1 FROM orders, orders", SqlErrorKind::DuplicateAlias, "alias"),
        ("SELECT orders FROM orders", SqlErrorKind::FeatureNotSupported, "orders.*"),
    ] {
        let error = session.refusal(sql);
        assert_eq!(error.kind, kind, "{sql}: {error}");
        assert!(error.hint.clone().unwrap_or_default().contains(hint), "{sql}: {:?}", error.hint);
    }
    assert_eq!(session.refusal("SELECT\n nope FROM orders").position, Some(9));
}

#[tokio::test]
async fn columns_are_named_as_postgres_names_them() {
    let session = Session::new();
    let sql = "SELECT 1, 1, count(*), date_trunc('hour', max(ts)), max(ts)::text, max(ts)::date, \
               case when true then 1 end, 'x'::text, now() - interval '1h', (SELECT 1 AS inner_one), \
               extract(year from max(ts)), array[1], coalesce(max(added), 0) AS total FROM wikiticker";
    let names = session.run(sql).await.names;
    assert_eq!(
        names,
        [
            "?column?",
            "?column?",
            "count",
            "date_trunc",
            "max",
            "max",
            "case",
            "text",
            "?column?",
            "inner_one",
            "extract",
            "array",
            "total"
        ]
    );
}

#[tokio::test]
async fn an_alias_is_kept_that_is_its_column_but_for_case() {
    let session = Session::new();
    for (sql, name, value) in [
        ("SELECT \"userId\" AS userid FROM cases", "userid", "userId"),
        ("SELECT \"userId\" AS \"USERID\" FROM cases", "USERID", "userId"),
        ("SELECT \"userid\" FROM (SELECT \"userId\" AS userid FROM cases) AS x", "userid", "userId"),
        ("SELECT b FROM (SELECT b AS \"B\", \"B\" AS b FROM cases) AS z", "b", "B"),
        ("SELECT \"B\" FROM (SELECT b AS \"B\", \"B\" AS b FROM cases) AS z", "B", "b"),
        ("WITH x AS (SELECT \"userId\" AS userid FROM cases) SELECT x.\"userid\" FROM x", "userid", "userId"),
        ("SELECT userid FROM cases", "userId", "userId"),
    ] {
        let answer = session.run(sql).await;
        assert_eq!(answer.names, [name], "{sql}");
        assert_eq!(answer.value(), value, "{sql}");
    }
}

#[tokio::test]
async fn output_names_may_repeat() {
    let session = Session::new();
    let answer = session
        .run(
            "SELECT ts::text, ts::date, null, null, added AS a, added AS a FROM wikiticker WHERE _offset = 0",
        )
        .await;
    assert_eq!(answer.names, ["ts", "ts", "?column?", "?column?", "a", "a"]);
    assert_eq!(answer.rows[0][1], "2015-09-12");
    let answer = session.run("SELECT * FROM (SELECT 1, 1) AS s").await;
    assert_eq!(answer.names, ["?column?", "?column?"]);
    let answer = session.run("SELECT *, ts FROM orders").await;
    assert_eq!(answer.names.last().map(String::as_str), Some("ts"));
}

#[tokio::test]
async fn order_by_means_outputs_before_inputs_and_group_by_the_reverse() {
    let session = Session::new();
    let sql = "SELECT -added AS added FROM wikiticker WHERE added IS NOT NULL ORDER BY added LIMIT 1";
    assert_eq!(session.run(sql).await.value(), "-20");
    let sql = "SELECT ts::date AS ts FROM wikiticker ORDER BY wikiticker.ts DESC, lower(channel) LIMIT 1";
    assert_eq!(session.run(sql).await.value(), "2015-09-13");
    let sql = "SELECT channel, count(*) FROM wikiticker GROUP BY channel ORDER BY count(*) DESC, 1 LIMIT 1";
    assert_eq!(session.run(sql).await.rows, [["#en", "3"]]);
    let sql =
        "SELECT upper(channel) AS up, count(*) AS n FROM wikiticker GROUP BY up ORDER BY n DESC LIMIT 1";
    assert_eq!(session.run(sql).await.rows, [["#EN", "3"]]);
    let sql = "SELECT DISTINCT channel FROM wikiticker ORDER BY channel";
    assert_eq!(session.run(sql).await.column(), ["#de", "#en", "#fr"]);
    let sql = "SELECT DISTINCT ON (channel) channel, added FROM wikiticker ORDER BY channel, _offset DESC";
    assert_eq!(session.run(sql).await.rows, [["#de", "20"], ["#en", "7"], ["#fr", "-5"]]);
    let sql = "SELECT added FROM wikiticker UNION ALL SELECT 1000 ORDER BY added DESC NULLS LAST LIMIT 1";
    assert_eq!(session.run(sql).await.value(), "1000");
    assert_eq!(
        session.refusal("SELECT added FROM wikiticker ORDER BY 2").kind,
        SqlErrorKind::InvalidReference
    );
}

#[tokio::test]
async fn joins_resolve_both_sides_and_merge_using_columns() {
    let session = Session::new();
    let sql = "SELECT w.added, o.lower FROM wikiticker w JOIN orders o ON w._offset = o._offset";
    assert_eq!(session.run(sql).await.rows, [["10", "lower"]]);
    let sql = "SELECT _offset, lower, added FROM wikiticker JOIN orders USING (_offset)";
    assert_eq!(session.run(sql).await.rows, [["0", "lower", "10"]]);
    let sql = "SELECT a._offset FROM wikiticker a, wikiticker b WHERE a._offset = b._offset + 4";
    assert_eq!(session.run(sql).await.value(), "4");
    let sql =
        "SELECT count(*) FROM wikiticker RIGHT JOIN orders USING (_offset, _partition) WHERE _partition = 0";
    assert_eq!(session.run(sql).await.value(), "1");
}
