//! The system catalogs, read the way psql, drivers and BI tools read them.

use datafusion::common::ScalarValue;
use strandline_sql::{PgType, Relations, SqlErrorKind, catalog_tables};

use crate::fixture::Session;

#[tokio::test]
async fn databases_schemas_and_roles_are_listed() {
    let session = Session::new();
    let sql = "SELECT d.datname AS \"Name\", pg_catalog.pg_get_userbyid(d.datdba) AS \"Owner\", \
               pg_catalog.pg_encoding_to_char(d.encoding) AS \"Encoding\", \
               pg_catalog.array_to_string(d.datacl, E'\\n') FROM pg_catalog.pg_database d ORDER BY 1";
    let answer = session.run(sql).await;
    assert_eq!(answer.names, ["Name", "Owner", "Encoding", "array_to_string"]);
    assert_eq!(answer.rows, [["strandline", "tester", "UTF8", "NULL"]]);
    let sql = "SELECT nspname FROM pg_namespace n WHERE n.nspname !~ '^pg_' ORDER BY 1";
    assert_eq!(session.run(sql).await.column(), ["information_schema", "internal", "public", "strandline"]);
    let sql = "SELECT r.rolname, r.rolcanlogin, ARRAY(SELECT b.rolname FROM pg_catalog.pg_auth_members m \
               JOIN pg_catalog.pg_roles b ON m.roleid = b.oid WHERE m.member = r.oid) AS memberof \
               FROM pg_catalog.pg_roles r WHERE r.rolname !~ '^pg_' ORDER BY 1";
    assert_eq!(session.run(sql).await.rows, [["tester", "true", "[]"]]);
}

#[tokio::test]
async fn only_topics_of_public_are_visible_as_tables() {
    let session = Session::new();
    let sql = "SELECT n.nspname, c.relname, CASE c.relkind WHEN 'r' THEN 'table' END AS \"Type\" \
               FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam \
               WHERE c.relkind IN ('r', 'p', '') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' \
               AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2";
    let names: Vec<String> = session.run(sql).await.rows.into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(names, ["Mixed", "Orders", "a.b.c", "cases", "frog-hops", "orders", "wikiticker"]);
}

#[tokio::test]
async fn a_table_is_described_column_by_column() {
    let session = Session::new();
    let sql = "SELECT c.oid FROM pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(wikiticker)$' \
               COLLATE pg_catalog.default AND pg_table_is_visible(c.oid)";
    let answer = session.run(sql).await;
    assert_eq!(answer.types, [PgType::Oid]);
    assert_eq!(answer.value(), "20001");
    let sql = "SELECT a.attname, format_type(a.atttypid, a.atttypmod), \
               (SELECT pg_get_expr(d.adbin, d.adrelid, true) FROM pg_attrdef d WHERE d.adrelid = a.attrelid), \
               a.attnotnull, (SELECT c.collname FROM pg_collation c, pg_type t WHERE c.oid = a.attcollation \
               AND t.oid = a.atttypid), a.attidentity FROM pg_attribute a \
               WHERE a.attrelid = '20001' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
    let rows = session.run(sql).await.rows;
    assert_eq!(rows[0], ["ts", "timestamp with time zone", "NULL", "false", "NULL", ""]);
    assert_eq!(rows[1], ["_partition", "integer", "NULL", "true", "NULL", ""]);
    assert_eq!(rows[5][..2], ["channel", "text"]);
    let sql = "SELECT CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END \
               FROM pg_class c WHERE c.oid = 'wikiticker'::regclass";
    assert_eq!(session.run(sql).await.value(), "");
}

#[tokio::test]
async fn catalogs_of_kinds_that_do_not_exist_answer_no_rows() {
    let session = Session::new();
    for sql in [
        "SELECT pol.polname, CASE WHEN pol.polroles = '{0}' THEN NULL ELSE array_to_string(ARRAY(SELECT rolname \
         FROM pg_roles WHERE oid = ANY (pol.polroles) ORDER BY 1), ',') END FROM pg_policy pol \
         WHERE pol.polrelid = '20001' ORDER BY 1",
        "SELECT oid, stxrelid::pg_catalog.regclass, stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS nsp, \
         'd' = any(stxkind) FROM pg_statistic_ext WHERE stxrelid = '20001' ORDER BY nsp",
        "SELECT pubname, NULL, NULL FROM pg_publication p JOIN pg_publication_namespace pn ON p.oid = pn.pnpubid \
         UNION SELECT pubname, NULL, (SELECT string_agg(attname, ', ') FROM \
         pg_catalog.generate_series(0, array_upper(pr.prattrs::int2[], 1)) s, pg_attribute \
         WHERE attrelid = pr.prrelid AND attnum = prattrs[s]) FROM pg_publication p \
         JOIN pg_publication_rel pr ON p.oid = pr.prpubid ORDER BY 1",
        "SELECT c.oid::regclass FROM pg_class c, pg_inherits i WHERE c.oid = i.inhparent AND i.inhrelid = '20001' \
         ORDER BY inhseqno",
        "SELECT (information_schema._pg_expandarray(i.indkey)).n FROM pg_class c JOIN pg_index i \
         ON c.oid = i.indrelid",
        "SELECT e.extname, c.description FROM pg_extension e LEFT JOIN pg_description c ON c.objoid = e.oid \
         AND c.classoid = 'pg_catalog.pg_extension'::pg_catalog.regclass",
        "SELECT * FROM information_schema.table_constraints",
        "SELECT p.proname, pg_get_function_result(p.oid) FROM pg_proc p",
    ] {
        assert!(session.run(sql).await.rows.is_empty(), "{sql}");
    }
}

#[tokio::test]
async fn reflection_with_parameters_runs() {
    let session = Session::new();
    let text = |value: &str| ScalarValue::from(value);
    let sql = "SELECT pg_catalog.pg_namespace.nspname FROM pg_catalog.pg_namespace \
               WHERE (pg_catalog.pg_namespace.nspname NOT LIKE $1::VARCHAR || '%' ESCAPE '/') ORDER BY 1";
    let names = session.run_with(sql, vec![text("pg/_")]).await.column();
    assert_eq!(names, ["information_schema", "internal", "public", "strandline"]);
    let sql = "SELECT pg_catalog.pg_class.relname, pg_catalog.pg_description.description FROM pg_catalog.pg_class \
               LEFT OUTER JOIN pg_catalog.pg_description ON pg_catalog.pg_class.oid = pg_catalog.pg_description.objoid \
               AND pg_catalog.pg_description.classoid = CAST($1 AS REGCLASS) \
               WHERE pg_catalog.pg_class.relkind = ANY (ARRAY[$2::VARCHAR, $3::VARCHAR]) \
               AND pg_catalog.pg_class.relname IN ($4::VARCHAR)";
    let parameters = vec![text("pg_catalog.pg_class"), text("r"), text("p"), text("orders")];
    assert_eq!(session.run_with(sql, parameters).await.rows, [["orders", "NULL"]]);
    let sql = "SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype FROM pg_type t \
               WHERE t.oid = to_regtype($1) ORDER BY t.oid";
    let rows = session.run_with(sql, vec![text("int4")]).await.rows;
    assert_eq!(rows, [["int4", "23", "1007", "integer"]]);
    assert!(session.run_with(sql, vec![text("hstore")]).await.rows.is_empty());
}

#[tokio::test]
async fn information_schema_has_the_names_of_postgres() {
    let session = Session::new();
    let sql = "SELECT column_name, data_type, udt_name, is_nullable FROM information_schema.columns \
               WHERE table_schema = 'public' AND table_name = 'wikiticker' ORDER BY ordinal_position LIMIT 2";
    let rows = session.run(sql).await.rows;
    assert_eq!(rows[0], ["ts", "timestamp with time zone", "timestamptz", "YES"]);
    assert_eq!(rows[1], ["_partition", "integer", "int4", "NO"]);
    let sql = "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema \
               NOT IN ('information_schema', 'pg_catalog') AND table_type = 'BASE TABLE' ORDER BY 1";
    let names = session.run(sql).await.column();
    assert!(names.contains(&"\"a.b.c\"".to_owned()) && names.contains(&"wikiticker".to_owned()));
}

#[tokio::test]
async fn a_type_is_found_by_its_number() {
    let session = Session::new();
    let sql = "SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, n.nspname, t.typbasetype, t.typrelid \
               FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid \
               INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = $1";
    let answer = session.run_with(sql, vec![ScalarValue::UInt32(Some(1185))]).await;
    assert_eq!(answer.rows, [["_timestamptz", "b", "1184", "NULL", "pg_catalog", "0", "0"]]);
    assert_eq!(answer.types[..3], [PgType::Name, PgType::Char, PgType::Oid]);
}

#[tokio::test]
async fn every_catalog_table_can_be_read() {
    let session = Session::new();
    let tables = catalog_tables(session.topics.as_ref());
    assert!(tables.len() > 60);
    for table in tables {
        let sql = format!("SELECT * FROM {}.{}", table.schema, table.name);
        let answer = session.run(&sql).await;
        assert_eq!(answer.rows.len(), table.batch.num_rows(), "{sql}");
    }
    assert_eq!(session.refusal("SELECT 1 FROM pg_catalog.nosuch").kind, SqlErrorKind::UndefinedTable);
    assert_eq!(session.topics.relations().len(), 9);
}

#[tokio::test]
async fn sizes_are_shown_as_postgresql_shows_them() {
    let session = Session::new();
    // The values of PostgreSQL 15.
    for (bytes, shown) in [
        ("0", "0 bytes"),
        ("10239", "10239 bytes"),
        ("10240", "10 kB"),
        ("10485247", "10239 kB"),
        ("10485248", "10 MB"),
        ("-20480", "-20 kB"),
        ("9223372036854775807", "8192 PB"),
    ] {
        let answer = session.run(&format!("SELECT pg_size_pretty({bytes}::bigint)")).await;
        assert_eq!(answer.value(), shown, "{bytes}");
    }
}
