//! Values of every type in use, through a driver's binary reader and as text.

use tokio_postgres::types::{FromSql, Type};

use crate::fixture::{Server, bounded, rows};

/// The bytes of a value of any type.
struct Bytes(Vec<u8>);

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

const SCALARS: [(&str, Type, &str, &[u8]); 10] = [
    ("true", Type::BOOL, "t", &[1]),
    ("CAST(7 AS SMALLINT)", Type::INT2, "7", &[0, 7]),
    ("CAST(-1 AS INT)", Type::INT4, "-1", &[255; 4]),
    ("CAST(1 AS BIGINT)", Type::INT8, "1", &[0, 0, 0, 0, 0, 0, 0, 1]),
    ("CAST(1.5 AS DOUBLE PRECISION)", Type::FLOAT8, "1.5", &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
    ("CAST('x' AS TEXT)", Type::TEXT, "x", b"x"),
    ("DATE '2000-01-02'", Type::DATE, "2000-01-02", &[0, 0, 0, 1]),
    (
        "TIMESTAMP '2000-01-01 00:00:01'",
        Type::TIMESTAMP,
        "2000-01-01 00:00:01",
        &[0, 0, 0, 0, 0, 0x0f, 0x42, 0x40],
    ),
    ("CAST(1.10 AS NUMERIC(10,2))", Type::NUMERIC, "1.10", &[0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 3, 0xe8]),
    (
        "TIMESTAMPTZ '2000-01-01 00:00:01+00'",
        Type::TIMESTAMPTZ,
        "2000-01-01 00:00:01+00",
        &[0, 0, 0, 0, 0, 0x0f, 0x42, 0x40],
    ),
];

#[tokio::test]
async fn scalars_have_the_types_and_bytes_of_postgres() {
    let server = Server::start().await;
    let client = server.connect().await;
    for (sql, pg_type, text, binary) in SCALARS {
        let select = format!("SELECT {sql}");
        assert_eq!(rows(&client, &select).await, [[text]], "{sql}");
        let row =
            bounded(client.query_one(&select, &[])).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(row.columns()[0].type_(), &pg_type, "{sql}");
        assert_eq!(row.get::<_, Bytes>(0).0, binary, "{sql}");
    }
}

/// The question that asyncpg asks about types that it has no codec for, as short as its shape allows.
const TYPE_INTROSPECTION: &str = "
    WITH RECURSIVE typeinfo_tree(
        oid, ns, name, kind, basetype, elemtype, elemdelim, range_subtype, attrtypoids, attrnames, depth)
    AS (
        SELECT t.oid, 'pg_catalog', t.typname, t.typtype,
               (CASE WHEN t.typtype = 'd' THEN (SELECT b.oid FROM pg_type b WHERE b.oid = t.oid) END),
               t.typelem, t.typdelim, NULL, NULL, NULL, 0
        FROM pg_type t WHERE t.oid = any($1::oid[])
        UNION ALL
        SELECT t.oid, 'pg_catalog', t.typname, t.typtype, NULL, t.typelem, t.typdelim, NULL, NULL, NULL,
               tt.depth + 1
        FROM pg_type t, typeinfo_tree tt WHERE t.oid = tt.elemtype)
    SELECT DISTINCT *, basetype::regtype::text AS basetype_name FROM typeinfo_tree ORDER BY depth DESC";

#[tokio::test]
async fn arrays_lead_to_their_elements_when_types_are_asked_for() {
    let server = Server::start().await;
    let client = server.connect().await;
    let statement = bounded(client.prepare(TYPE_INTROSPECTION)).await.unwrap();
    assert_eq!(statement.params(), [Type::OID_ARRAY]);
    let asked = vec![Type::INT8_ARRAY.oid(), Type::JSON.oid()];
    let found = bounded(client.query(&statement, &[&asked])).await.unwrap();
    let mut found: Vec<_> = found
        .iter()
        .map(|row| {
            let (name, depth): (String, i64) = (row.get("name"), row.get("depth"));
            (depth, row.get::<_, u32>("oid"), name, row.get::<_, u32>("elemtype"))
        })
        .collect();
    found.sort();
    let expected = [
        (0, Type::JSON.oid(), "json".to_owned(), 0),
        (0, Type::INT8_ARRAY.oid(), "_int8".to_owned(), Type::INT8.oid()),
        (1, Type::INT8.oid(), "int8".to_owned(), 0),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn system_columns_have_their_types() {
    let server = Server::with_events().await;
    let client = server.connect().await;
    let sql = "SELECT ts, _partition, _offset, _key, _value, _headers, _append_ts, _key_bytes, _error, deep FROM events";
    let statement = bounded(client.prepare(sql)).await.unwrap();
    let types: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
    let expected =
        ["timestamptz", "int4", "int8", "text", "json", "json", "timestamptz", "bytea", "text", "json"];
    assert_eq!(types, expected);
    let bytes =
        rows(&client, "SELECT _key_bytes, _error, deep FROM events ORDER BY _offset DESC LIMIT 1").await;
    assert_eq!(bytes, [["\\x6b6579", "NULL", "{\"k\":[1,2]}"]]);
}

#[tokio::test]
async fn headers_are_json_in_order() {
    let server = Server::start().await;
    let headers: [(&[u8], Option<&[u8]>); 3] = [(b"k", Some(b"v")), (b"k", None), (b"bytes", Some(b"\xff"))];
    server.topic_with_headers("h", &headers).await;
    let client = server.connect().await;
    let expected = "[{\"key\": \"k\", \"value\": \"v\"}, {\"key\": \"k\", \"value\": null}, {\"key\": \"bytes\", \"value\": \"\u{fffd}\"}]";
    assert_eq!(rows(&client, "SELECT _headers FROM h").await, [[expected]]);
    let row = bounded(client.query_one("SELECT _headers FROM h", &[])).await.unwrap();
    assert_eq!(row.get::<_, Bytes>(0).0, expected.as_bytes());
}

#[tokio::test]
async fn time_parameters_come_in_both_formats() {
    let server = Server::with_events().await;
    let client = server.connect().await;
    let sql = "SELECT count(*) FROM events WHERE ts >= $1";
    let statement = bounded(client.prepare(sql)).await.unwrap();
    assert_eq!(statement.params(), [Type::TIMESTAMPTZ]);
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_001);
    let row = bounded(client.query_one(&statement, &[&at])).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 2);
}

#[tokio::test]
async fn arrays_of_times_and_bytes_are_parameters() {
    let server = Server::with_events().await;
    let client = server.connect().await;
    let statement = bounded(client.prepare("SELECT count(*) FROM events WHERE ts = any($1)")).await.unwrap();
    assert_eq!(statement.params(), [Type::TIMESTAMPTZ_ARRAY]);
    let at =
        |micros| std::time::UNIX_EPOCH + std::time::Duration::from_micros(1_700_000_001_000_000_u64 + micros);
    for (times, expected) in [(vec![at(0)], 1), (vec![at(1)], 0), (vec![at(1), at(0)], 1)] {
        let row = bounded(client.query_one(&statement, &[&times])).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), expected, "{times:?}");
    }
    let sql = "SELECT count(*) FROM events WHERE _key_bytes = any($1)";
    let statement = bounded(client.prepare(sql)).await.unwrap();
    assert_eq!(statement.params(), [Type::BYTEA_ARRAY]);
    let keys: Vec<&[u8]> = vec![b"key", b"none"];
    let all: i64 = bounded(client.query_one("SELECT count(*) FROM events WHERE _key = 'key'", &[]))
        .await
        .unwrap()
        .get(0);
    let row = bounded(client.query_one(&statement, &[&keys])).await.unwrap();
    assert!(all > 0);
    assert_eq!(row.get::<_, i64>(0), all);
}

#[tokio::test]
async fn catalogs_are_sent_in_the_binary_format() {
    let server = Server::with_events().await;
    let client = server.connect().await;
    for table in
        ["pg_type", "pg_class", "pg_attribute", "pg_namespace", "pg_am", "pg_database", "pg_settings"]
    {
        let sql = format!("SELECT * FROM {table}");
        let found = bounded(client.query(&sql, &[])).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert!(!found.is_empty(), "{table}");
    }
}
