//! Times: literals, exact bounds, zones, buckets.

use datafusion::common::ScalarValue;
use strandline_sql::{PgType, SqlErrorKind};

use crate::fixture::Session;

async fn offsets(session: &Session, condition: &str) -> String {
    let sql = format!("SELECT _offset FROM wikiticker WHERE {condition} ORDER BY _offset");
    session.run(&sql).await.column().join(",")
}

#[tokio::test]
async fn time_literals_select_the_same_rows_in_every_form() {
    let session = Session::new();
    for literal in [
        "'2015-09-12 12:00'",
        "'2015-09-12T12:00:00Z'",
        "'2015-09-12 14:00:00+02:00'",
        "timestamptz '2015-09-12 12:00:00'",
        "'2015-09-12 12:00'::timestamptz",
        "cast('2015-09-12 12:00' as timestamp with time zone)",
        "timestamp '2015-09-12 12:00'",
        "'2015-09-12 13:00'::timestamptz - interval '1 hour'",
    ] {
        assert_eq!(offsets(&session, &format!("ts >= {literal}")).await, "1,2,3,4", "{literal}");
        assert_eq!(offsets(&session, &format!("{literal} > ts")).await, "0", "{literal}");
    }
    assert_eq!(offsets(&session, "ts >= '2015-09-13'").await, "4");
    assert_eq!(offsets(&session, "ts >= date '2015-09-13'").await, "4");
    assert_eq!(offsets(&session, "ts >= 'today'").await, "4");
    assert_eq!(offsets(&session, "ts BETWEEN '2015-09-12 12:00' AND '2015-09-12 13:30'").await, "1,2,3");
    assert_eq!(offsets(&session, "ts IN ('2015-09-12 12:00', '2015-09-13')").await, "1,4");
    assert_eq!(offsets(&session, "ts NOT BETWEEN 'yesterday' AND 'now'").await, "");
    assert_eq!(offsets(&session, "ts::date = '2015-09-12'").await, "0,1,2,3");
}

#[tokio::test]
async fn bounds_between_two_milliseconds_are_not_cut() {
    let session = Session::new();
    let between = "'2015-09-12 12:00:00.0005'";
    for (condition, expected) in [
        ("ts >= {}", "2,3,4"),
        ("ts > {}", "2,3,4"),
        ("ts <= {}", "0,1"),
        ("ts < {}", "0,1"),
        ("ts = {}", ""),
        ("ts <> {}", "0,1,2,3,4"),
        ("{} < ts", "2,3,4"),
        ("ts IN ({}, '2015-09-13')", "4"),
        ("ts NOT IN ({}, '2015-09-13')", "0,1,2,3"),
        ("ts BETWEEN {} AND '2015-09-12 12:00:00.0015'", "2"),
        ("ts NOT BETWEEN {} AND '2015-09-12 12:00:00.0015'", "0,1,3,4"),
    ] {
        assert_eq!(offsets(&session, &condition.replace("{}", between)).await, expected, "{condition}");
    }
    assert_eq!(offsets(&session, "ts = '2015-09-12 12:00:00.001'").await, "2");
    assert_eq!(offsets(&session, "seen = '2015-09-12 12:00:00.001250'").await, "2");
}

#[tokio::test]
async fn parameters_compare_as_exactly_as_literals() {
    let session = Session::new();
    let sql = "SELECT count(*) FROM wikiticker WHERE ts >= $1 AND ts < $2";
    let rewritten = session.rewrite(sql).unwrap();
    let types: Vec<PgType> = rewritten.parameter_types.into_values().collect();
    assert_eq!(types, [PgType::Timestamptz, PgType::Timestamptz]);
    let micros = |micros| ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()));
    let parameters = vec![micros(1_442_059_200_000_500), micros(1_442_064_600_000_001)];
    assert_eq!(session.run_with(sql, parameters).await.value(), "2");
}

#[tokio::test]
async fn the_same_instants_are_selected_in_every_zone() {
    for (zone, midnight) in [("UTC", "4"), ("Asia/Kolkata", "3,4"), ("America/Denver", ""), ("+05:30", "3,4")]
    {
        let session = Session::in_zone(zone);
        assert_eq!(offsets(&session, "ts >= '2015-09-12T12:00:00Z'").await, "1,2,3,4", "{zone}");
        // 18:30 UTC in Kolkata, 06:00 UTC the day after in Denver.
        let bound = "'2015-09-12 19:00:00'";
        let expected = if zone == "UTC" || zone == "America/Denver" { "4" } else { "3,4" };
        let expected = if zone == "America/Denver" { "" } else { expected };
        assert_eq!(offsets(&session, &format!("ts >= {bound}")).await, expected, "{zone}");
        assert_eq!(offsets(&session, &format!("ts >= timestamp {bound}")).await, expected, "{zone}");
        let _ = midnight;
    }
}

#[tokio::test]
async fn days_begin_at_midnight_of_the_session_zone() {
    let session = Session::in_zone("Asia/Kolkata");
    let sql = "SELECT ts::date, count(*) FROM wikiticker GROUP BY 1 ORDER BY 1";
    let rows = session.run(sql).await.rows;
    assert_eq!(rows, [["2015-09-12", "4"], ["2015-09-13", "1"]]);
    let sql = "SELECT date_trunc('day', ts), count(*) FROM wikiticker GROUP BY 1 ORDER BY 1";
    let rows = session.run(sql).await.rows;
    assert_eq!(rows, [["2015-09-11T18:30:00Z", "4"], ["2015-09-12T18:30:00Z", "1"]]);
    let sql = "SELECT extract(hour from ts), ts::text FROM wikiticker WHERE _offset = 1";
    assert_eq!(session.run(sql).await.rows, [["17.0", "2015-09-12 17:30:00+05:30"]]);
    let sql = "SELECT ts AT TIME ZONE 'America/Denver' FROM wikiticker WHERE _offset = 1";
    assert_eq!(session.run(sql).await.value(), "2015-09-12T06:00:00");
}

#[tokio::test]
async fn at_time_zone_moves_between_instants_and_clocks() {
    let session = Session::new();
    for (expression, expected) in [
        ("timestamptz '2015-09-12 12:00' AT TIME ZONE 'utc'", "2015-09-12T12:00:00"),
        ("timestamptz '2015-09-12 12:00' AT TIME ZONE 'Europe/Berlin'", "2015-09-12T14:00:00"),
        ("timestamp '2015-09-12 12:00' AT TIME ZONE 'Europe/Berlin'", "2015-09-12T10:00:00Z"),
        ("timezone('Europe/Berlin', timestamptz '2015-09-12 12:00')", "2015-09-12T14:00:00"),
    ] {
        assert_eq!(session.run(&format!("SELECT {expression}")).await.value(), expected, "{expression}");
    }
    assert_eq!(session.refusal("SELECT now() AT TIME ZONE 'Mars'").kind, SqlErrorKind::InvalidParameter);
}

#[tokio::test]
async fn what_is_no_time_is_refused_with_the_accepted_forms() {
    let session = Session::new();
    for sql in [
        "SELECT 1 FROM wikiticker WHERE ts >= 'x'",
        "SELECT 1 FROM wikiticker WHERE ts BETWEEN '2015-09-12' AND '2015-13-12'",
        "SELECT 1 FROM wikiticker WHERE ts IN ('2015')",
        "SELECT 'x'::timestamptz",
        "SELECT date '2015-02-30'",
        "SELECT interval 'x'",
    ] {
        let error = session.refusal(sql);
        assert_eq!(error.kind, SqlErrorKind::InvalidDatetime, "{sql}: {error}");
        assert!(error.hint.is_some(), "{sql}");
    }
}

#[tokio::test]
async fn buckets_and_fields_are_those_of_postgres() {
    let session = Session::new();
    for (expression, expected) in [
        ("date_bin('5 minutes', ts, '2000-01-01')", "2015-09-12T12:00:00Z"),
        ("date_bin(interval '1 hour', ts)", "2015-09-12T12:00:00Z"),
        ("time_bucket('300.000s', ts)", "2015-09-12T12:00:00Z"),
        ("time_bucket('1 week', ts)", "2015-09-07T00:00:00Z"),
        ("time_bucket('1 month', ts)", "2015-09-01T00:00:00Z"),
        ("date_trunc('week', ts)", "2015-09-07T00:00:00Z"),
        ("date_trunc('day', ts, 'America/Denver')", "2015-09-12T06:00:00Z"),
        ("extract(second from ts)", "0.001"),
        ("extract(milliseconds from ts)", "1.0"),
        ("extract(year from ts)", "2015.0"),
        ("date_part('hour', ts) / 8", "1.5"),
        ("floor(extract(epoch from ts)/300)*300", "1442059200.0"),
        ("to_char(ts, 'YYYY-MM-DD HH24:MI:SS.MS TZ')", "2015-09-12 12:00:00.001 UTC"),
        ("ts::text", "2015-09-12 12:00:00.001+00"),
        ("to_timestamp('2015-09-12 12:00:00.5', 'YYYY-MM-DD HH24:MI:SS.US')", "2015-09-12T12:00:00.500Z"),
        ("to_timestamp(1442059200)", "2015-09-12T12:00:00Z"),
        ("to_date('12.09.2015', 'DD.MM.YYYY')", "2015-09-12"),
        ("extract(isodow from ts)", "6.0"),
        ("extract(dow from ts)", "6.0"),
        ("extract(isoyear from ts)", "2015.0"),
        ("date '2015-10-01' - date '2015-09-12'", "19"),
        ("date '2015-09-30' + 1", "2015-10-01"),
        ("(date '2015-09-30' + interval '1 hour')::text", "2015-09-30 01:00:00"),
        ("ts::date - 1", "2015-09-11"),
        ("timestamptz '2015-10-01' + interval '-30 day'", "2015-09-01T00:00:00Z"),
        ("timestamptz '2015-10-01' - interval 'P1M1DT1S'", "2015-08-30T23:59:59Z"),
        ("timestamp 'epoch' + added * interval '1 second'", "NULL"),
        ("(interval '1 hour' * 2.5)::text", "02:30:00"),
        ("(interval '1 day' / 2)::text", "12:00:00"),
        ("(ts - timestamptz '2015-09-12')::text", "12:00:00.001"),
    ] {
        let sql = format!("SELECT {expression} FROM wikiticker WHERE _offset = 2");
        assert_eq!(session.run(&sql).await.value(), expected, "{expression}");
    }
}

#[tokio::test]
async fn within_a_day_a_cut_time_keeps_its_distance_from_utc() {
    let cut = "date_trunc('second', timestamptz '2010-11-07 07:00:00Z')";
    let denver = Session::in_zone("America/Denver");
    let shown = format!("SELECT ({cut})::text");
    assert_eq!(denver.run(&shown).await.value(), "2010-11-07 01:00:00-06");
    for (time, expected) in [
        ("date_trunc('decade', timestamptz '0001-02-03 00:00Z')", "0001-01-01 00:00:00+00 BC"),
        ("timestamptz '9999-12-31 23:59:59Z' + interval '1 second'", "10000-01-01 00:00:00+00"),
    ] {
        assert_eq!(Session::new().run(&format!("SELECT ({time})::text")).await.value(), expected);
    }
    for (expression, expected) in [
        ("date_trunc('hour', timestamptz '2010-11-07 07:59Z', 'America/Denver')", "2010-11-07T07:00:00Z"),
        (
            "date_trunc('hour', timestamptz '2024-04-06 15:10Z', 'Australia/Lord_Howe')",
            "2024-04-06T14:30:00Z",
        ),
        ("date_trunc('hour', timestamptz '2024-07-01 12:00Z', 'America/St_Johns')", "2024-07-01T11:30:00Z"),
        ("date_trunc('day', timestamptz '2010-11-08 06:59Z', 'America/Denver')", "2010-11-07T06:00:00Z"),
        ("date_trunc('hour', timestamp '9999-12-31 23:59:59')", "9999-12-31T23:00:00"),
        ("date_trunc('month', date '2015-09-12')", "2015-09-01T00:00:00Z"),
    ] {
        let value = Session::new().run(&format!("SELECT {expression}")).await.value();
        assert_eq!(value, expected, "{expression}");
    }
}

#[tokio::test]
async fn time_bounds_reach_the_scan_as_constants_of_the_column() {
    let session = Session::new();
    for condition in [
        "ts >= '2015-09-12 12:00'",
        "ts >= '2015-09-12 11:59:59.9991'",
        "ts >= timestamp '2015-09-12 12:00'",
        "ts >= '2015-09-12 13:00'::timestamptz - interval '1 hour'",
    ] {
        let plan = session.plan(&format!("SELECT count(*) FROM wikiticker WHERE {condition}")).await;
        let bound = "wikiticker.ts >= TimestampMillisecond(1442059200000, Some(\"UTC\"))";
        assert!(plan.contains(bound), "{condition}\n{plan}");
    }
}

#[tokio::test]
async fn grafana_filters_and_groups_run() {
    let session = Session::new();
    let sql = "SELECT floor(extract(epoch from ts)/300)*300 AS \"time\", count(*) FROM wikiticker \
               WHERE ts BETWEEN '2015-09-12T12:00:00.000000000Z' AND '2015-09-12T13:00:00Z' \
               GROUP BY time ORDER BY time";
    let answer = session.run(sql).await;
    assert_eq!(answer.names, ["time", "count"]);
    assert_eq!(answer.rows, [["1442059200.0", "2"]]);
}
