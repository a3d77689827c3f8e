//! Faults that people met in other systems: mixed types, big integers, damaged values, odd names.
//! Each is looked at in memory and read back from objects after a restart.

use crate::fixture::{Fixture, lines};

#[tokio::test]
async fn a_field_with_different_types_loses_nothing() {
    let mut fixture = Fixture::new().await;
    fixture.topic("scalars", [r#"{"level":false}"#, r#"{"level":"false"}"#, r#"{"level":0}"#]).await;
    let mixed = [r#"{"v":false}"#, r#"{"v":"false"}"#, r#"{"v":0}"#, r#"{"v":{"a":1}}"#, r#"{"v":[1]}"#];
    fixture.topic("nested", mixed).await;
    for _ in 0..2 {
        let by_value = "SELECT _offset FROM scalars WHERE level = 'false' ORDER BY _offset";
        assert_eq!(lines(&fixture.query(by_value).await), ["0", "1"]);
        let zero = "SELECT _offset FROM scalars WHERE level = '0'";
        assert_eq!(lines(&fixture.query(zero).await), ["2"]);
        let raw = "SELECT v FROM nested ORDER BY _offset";
        assert_eq!(lines(&fixture.query(raw).await), ["false", "\"false\"", "0", "{\"a\":1}", "[1]"]);
        let inside = "SELECT _offset FROM nested WHERE v ->> 'a' = '1'";
        assert_eq!(lines(&fixture.query(inside).await), ["3"]);
        let element = "SELECT _offset FROM nested WHERE v ->> 0 = '1'";
        assert_eq!(lines(&fixture.query(element).await), ["4"]);
        fixture = fixture.restart().await;
    }
}

const BIG: [&str; 6] = [
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "327267367867168100000",
    "1e400",
];

#[tokio::test]
async fn big_integers_are_exact() {
    let mut fixture = Fixture::new().await;
    fixture.topic("numbers", BIG.map(|number| format!(r#"{{"n":{number}}}"#))).await;
    fixture.topic("longs", BIG[..3].iter().map(|number| format!(r#"{{"n":{number}}}"#))).await;
    for _ in 0..2 {
        let all = "SELECT n FROM numbers ORDER BY _offset";
        let mut expected: Vec<&str> = BIG[..5].into();
        expected.push("NULL");
        assert_eq!(lines(&fixture.query(all).await), expected);
        for (offset, number) in BIG[..5].iter().enumerate() {
            let equal = format!("SELECT _offset FROM numbers WHERE n = {number}");
            assert_eq!(lines(&fixture.query(&equal).await), [offset.to_string()], "{number}");
        }
        let sum = "SELECT sum(n) FROM numbers";
        assert_eq!(fixture.value(sum).await.as_deref(), Some("345723119140132392607"));
        let ordered = "SELECT n FROM numbers WHERE n IS NOT NULL ORDER BY n LIMIT 2";
        assert_eq!(lines(&fixture.query(ordered).await), ["-9223372036854775808", "9007199254740993"]);
        let whole = "SELECT _value ->> 'n' FROM numbers WHERE n IS NULL";
        assert_eq!(fixture.value(whole).await.as_deref(), Some("1e400"));
        let counted = "SELECT misfits, first_misfit_offset FROM strandline.columns WHERE topic = 'numbers'";
        assert_eq!(lines(&fixture.query(counted).await), ["1|5"]);
        let long = "SELECT _offset FROM longs WHERE n = 9223372036854775807";
        assert_eq!(lines(&fixture.query(long).await), ["1"]);
        fixture = fixture.restart().await;
    }
}

#[tokio::test]
async fn one_bad_value_spoils_its_own_row_only() {
    let mut fixture = Fixture::new().await;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let values: [&[u8]; 6] =
        [br#"{"a":1}"#, b"\xAB\xBB", br#"{"a":"#, br#"{"a":2}"#, deep.as_bytes(), br#"{"a":3}"#];
    fixture.topic("damaged", values).await;
    for _ in 0..2 {
        assert_eq!(fixture.value("SELECT count(*) FROM damaged").await.as_deref(), Some("6"));
        let decoded = "SELECT a, _error IS NULL FROM damaged ORDER BY _offset";
        let expected = ["1|true", "NULL|false", "NULL|false", "2|true", "NULL|false", "3|true"];
        assert_eq!(lines(&fixture.query(decoded).await), expected);
        let lossy = "SELECT _value FROM damaged WHERE _offset = 1";
        assert_eq!(fixture.value(lossy).await.as_deref(), Some("\u{fffd}\u{fffd}"));
        let like = "SELECT _offset FROM damaged WHERE _value LIKE '%2%'";
        assert_eq!(lines(&fixture.query(like).await), ["3"]);
        let operator = "SELECT _value -> 'a' FROM damaged WHERE _offset IN (1, 4)";
        assert_eq!(lines(&fixture.query(operator).await), ["NULL", "NULL"]);
        fixture = fixture.restart().await;
    }
}

#[tokio::test]
async fn odd_names_are_found_as_they_are_written() {
    let mut fixture = Fixture::new().await;
    let long_name = "n".repeat(249);
    let names = ["a.b.c", "frog-hops", "Orders", "orders", "1st", "select", &long_name, "__internal"];
    for name in names {
        fixture.topic(name, [format!(r#"{{"name":"{name}"}}"#)]).await;
    }
    for _ in 0..2 {
        for name in &names[..7] {
            let sql = format!("SELECT \"name\" FROM \"{name}\"");
            assert_eq!(fixture.value(&sql).await.as_deref(), Some(*name));
        }
        assert_eq!(fixture.value("SELECT name FROM orders").await.as_deref(), Some("orders"));
        let internal = "SELECT name FROM internal.__internal";
        assert_eq!(fixture.value(internal).await.as_deref(), Some("__internal"));
        let listed = "SELECT count(*) FROM strandline.topics WHERE schema = 'public'";
        assert_eq!(fixture.value(listed).await.as_deref(), Some("7"));
        fixture = fixture.restart().await;
    }
}

#[tokio::test]
async fn odd_column_names_never_give_another_column() {
    let fixture = Fixture::new().await;
    let value = r#"{"userId":1,"1xx":2,"hg.nginx.org":3,"$type":4,"A":5,"b":6,"B":7,"USERID":8,"only":9}"#;
    fixture.topic("names", [value]).await;
    let quoted = r#"SELECT "userId", "1xx", "hg.nginx.org", "$type", "A", "b", "B", "USERID" FROM names"#;
    assert_eq!(lines(&fixture.query(quoted).await), ["1|2|3|4|5|6|7|8"]);
    assert_eq!(fixture.value("SELECT b FROM names").await.as_deref(), Some("6"));
    assert_eq!(fixture.value("SELECT a FROM names").await.as_deref(), Some("5"));
    assert_eq!(fixture.value("SELECT ONLY FROM names").await.as_deref(), Some("9"));
    let error = fixture.error("SELECT userid FROM names").await;
    assert!(error.to_string().contains("userid") || error.hint.is_some(), "{error:?}");
}
