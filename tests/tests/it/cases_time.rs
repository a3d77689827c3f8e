//! Seek by time: the record itself, never its batch; compared between Kafka and SQL.

use strandline_storage::format::Compression;

use crate::raw::{FetchLimits, RawClient, RawRecord, batch, records, seal};
use crate::server::{Server, compacted, from_memory_wal_and_segments};
use crate::sql::{Sql, cells};

const T: i64 = 1_700_000_000_000;
const NONE: (i64, i64) = (-1, -1);

/// The first offset whose time is `timestamp` or later, as SQL sees it.
async fn sql_seek(sql: &Sql, topic: &str, timestamp: i64) -> Option<String> {
    let literal = literal(timestamp);
    sql.value(&format!("SELECT min(_offset) FROM {topic} WHERE ts >= {literal}")).await
}

/// The two seconds that these tests live in, as literals.
fn literal(timestamp: i64) -> String {
    let (second, millisecond) = (timestamp / 1000, timestamp % 1000);
    let second = match second {
        0 => "1970-01-01 00:00:00",
        1_700_000_000 => "2023-11-14 22:13:20",
        _ => panic!("no literal for second {second}"),
    };
    format!("'{second}.{millisecond:03}Z'")
}

/// Reported as redpanda#6604.
#[tokio::test(flavor = "multi_thread")]
async fn a_seek_lands_on_the_record_inside_its_batch() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("inside", 1, &[]);
    let first = [RawRecord::at(T, "a"), RawRecord::at(T + 10, "b"), RawRecord::at(T + 20, "c")];
    client.produce_ok("inside", 0, batch(Compression::None, &first));
    client.produce_ok("inside", 0, batch(Compression::None, &[RawRecord::at(T + 100, "d")]));
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let sql = Sql::connect(server).await;
        for (after, offset, timestamp) in
            [(0, 0, 0), (1, 1, 10), (10, 1, 10), (11, 2, 20), (20, 2, 20), (21, 3, 100)]
        {
            let found = client.list_offset("inside", 0, T + after);
            assert_eq!(found, (offset, T + timestamp), "T+{after}");
            assert_eq!(sql_seek(&sql, "inside", T + after).await, Some(offset.to_string()), "T+{after}");
        }
        let statement = format!("SELECT count(*) FROM inside WHERE ts >= {} AND _offset < 3", literal(T + 5));
        assert_eq!(sql.text(&statement).await, "2");
    })
    .await;
}

/// Reported as redpanda#25769, redpanda PR#25932.
#[tokio::test(flavor = "multi_thread")]
async fn a_seek_finds_each_record_of_a_compressed_batch() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    let records: Vec<RawRecord<'_>> = (0..50).map(|step| RawRecord::at(T + step, "v")).collect();
    for compression in Compression::ALL {
        let topic = format!("seek_{compression}");
        client.create_topic(&topic, 1, &[]);
        client.produce_ok(&topic, 0, batch(compression, &records));
    }
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        for compression in Compression::ALL {
            let topic = format!("seek_{compression}");
            for step in 0..50 {
                assert_eq!(client.list_offset(&topic, 0, T + step), (step, T + step), "{topic}");
            }
            assert_eq!(client.list_offset(&topic, 0, T + 50), NONE, "{topic}");
        }
    })
    .await;
}

/// Reported as redpanda PR#25200, redpanda PR#27529.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_without_max_timestamp_does_not_hide_its_records() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("unset", 1, &[]);
    let mut lying = batch(Compression::None, &[RawRecord::at(T, "a"), RawRecord::at(T + 7, "b")]).to_vec();
    lying[35..43].copy_from_slice(&(-1_i64).to_be_bytes());
    seal(&mut lying);
    client.produce_ok("unset", 0, lying.into());
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        assert_eq!(client.list_offset("unset", 0, T), (0, T));
        assert_eq!(client.list_offset("unset", 0, T + 1), (1, T + 7));
        let sql = Sql::connect(server).await;
        let statement = format!("SELECT count(*) FROM unset WHERE ts >= {}", literal(T));
        assert_eq!(sql.text(&statement).await, "2");
    })
    .await;
}

/// Reported as kop#334.
#[tokio::test(flavor = "multi_thread")]
async fn a_seek_between_records_finds_the_next_and_after_all_finds_none() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("gapped", 1, &[]);
    for timestamp in [2, 4, 6, 8] {
        client.produce_ok("gapped", 0, batch(Compression::None, &[RawRecord::at(timestamp, "v")]));
    }
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        for (asked, found) in [(3, (1, 4)), (5, (2, 6)), (7, (3, 8)), (9, NONE)] {
            assert_eq!(client.list_offset("gapped", 0, asked), found, "{asked}");
        }
        let sql = Sql::connect(server).await;
        assert_eq!(sql_seek(&sql, "gapped", 5).await, Some("2".to_owned()));
        assert_eq!(
            sql.rows("SELECT _offset FROM gapped WHERE ts >= '1970-01-01 00:00:00.009Z'").await.len(),
            0
        );
    })
    .await;
}

/// Reported as redpanda PR#4010 (redpanda#3924).
#[tokio::test(flavor = "multi_thread")]
async fn times_that_run_backwards_keep_true_bounds() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("backwards", 1, &[]);
    for timestamp in [T, T - 60_000, T + 1] {
        client.produce_ok("backwards", 0, batch(Compression::Lz4, &[RawRecord::at(timestamp, "v")]));
    }
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        assert_eq!(client.list_offset("backwards", 0, T - 60_000), (0, T));
        assert_eq!(client.list_offset("backwards", 0, T + 1), (2, T + 1));
        assert_eq!(client.list_offset("backwards", 0, T + 2), NONE);
        assert_eq!(client.list_offset("backwards", 0, -3), (2, T + 1));
        let sql = Sql::connect(server).await;
        let statement = format!("SELECT _offset FROM backwards WHERE ts < {}", literal(T));
        assert_eq!(sql.column(&statement).await, cells(&["1"]));
        let statement = "SELECT _offset FROM backwards WHERE ts = (SELECT max(ts) FROM backwards)";
        assert_eq!(sql.column(statement).await, cells(&["2"]));
    })
    .await;
}

/// Reported as KAFKA-16342 (kafka#15474), KAFKA-16310 (kafka#15621), KAFKA-17552 (kafka#17248).
#[tokio::test(flavor = "multi_thread")]
async fn the_greatest_time_is_found_inside_a_batch_of_any_codec() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    let records = [
        RawRecord::at(T + 5, "a"),
        RawRecord::at(T + 9, "b"),
        RawRecord::at(T + 9, "c"),
        RawRecord::at(T + 1, "d"),
    ];
    for compression in Compression::ALL {
        let topic = format!("max_{compression}");
        client.create_topic(&topic, 1, &[]);
        client.produce_ok(&topic, 0, batch(compression, &records));
    }
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        for compression in Compression::ALL {
            let topic = format!("max_{compression}");
            assert_eq!(client.list_offset(&topic, 0, -3), (1, T + 9), "{topic}");
        }
    })
    .await;
}

/// Reported as redpanda PR#18112, automq PR#3609.
#[tokio::test(flavor = "multi_thread")]
async fn a_seek_never_lands_below_the_log_start() {
    const OFFSET_OUT_OF_RANGE: i16 = 1;
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("trimmed", 1, &[]);
    for first in [0, 10, 20] {
        let records: Vec<_> = (first..first + 10).map(|step| RawRecord::at(T + step, "v")).collect();
        client.produce_ok("trimmed", 0, batch(Compression::Zstd, &records));
    }
    assert_eq!(client.delete_records("trimmed", 0, 15), 15);
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        for (asked, found) in [(0, 15), (14, 15), (15, 15), (16, 16), (29, 29)] {
            assert_eq!(client.list_offset("trimmed", 0, T + asked), (found, T + found), "T+{asked}");
        }
        assert_eq!(client.list_offset("trimmed", 0, -2), (15, -1));
        assert_eq!(client.list_offset("trimmed", 0, -3), (29, T + 29));
        assert_eq!(client.fetch("trimmed", 0, FetchLimits::from(14)).error_code, OFFSET_OUT_OF_RANGE);
        let fetched = client.fetch("trimmed", 0, FetchLimits::from(15));
        let offsets =
            records(&fetched).into_iter().map(|record| record.offset).filter(|offset| *offset >= 15);
        assert!(offsets.eq(15..30), "a consumer reads on from the log start");
        let sql = Sql::connect(server).await;
        assert_eq!(sql.text("SELECT min(_offset) FROM trimmed").await, "15");
        assert_eq!(sql.text("SELECT count(*) FROM trimmed").await, "15");
        assert_eq!(sql_seek(&sql, "trimmed", T).await, Some("15".to_owned()));
    })
    .await;
}

/// Reported as redpanda PR#9815 (redpanda#9669), redpanda PR#28642.
#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_found_while_the_wal_is_compacted_under_the_lookups() {
    let mut server = Server::start();
    server.kill();
    server.start_again_with(&[("STRANDLINE_MAINTENANCE_COMPACTION_INTERVAL", "20ms")]);
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("moving", 1, &[]);
    for step in 0..150 {
        client.produce_ok("moving", 0, batch(Compression::None, &[RawRecord::at(T + step, "v")]));
        for sought in [0, step / 2, step] {
            assert_eq!(client.list_offset("moving", 0, T + sought), (sought, T + sought), "at {step}");
        }
    }
    compacted(&server).await;
    for step in 0..150 {
        assert_eq!(client.list_offset("moving", 0, T + step), (step, T + step));
    }
    assert_eq!(client.list_offset("moving", 0, T + 150), NONE);
}

/// Reported as kop#135, nisshi#527.
#[tokio::test(flavor = "multi_thread")]
async fn what_retention_has_emptied_answers_none_and_an_offset_always_has_its_time() {
    let mut server = Server::start();
    server.kill();
    server.start_again_with(&[("STRANDLINE_MAINTENANCE_RETENTION_INTERVAL", "50ms")]);
    let mut client = RawClient::connect(server.kafka);
    let topics = [("expired", "1000"), ("never_kept", "0")];
    for (topic, retention_ms) in topics {
        client.create_topic(topic, 1, &[("retention.ms", retention_ms)]);
        for step in 0..3 {
            client.produce_ok(topic, 0, batch(Compression::None, &[RawRecord::at(T + step, "v")]));
        }
    }
    let sql = Sql::connect(&server).await;
    let emptied = async {
        let mut pause = tokio::time::interval(std::time::Duration::from_millis(20));
        while sql.text("SELECT min(log_start_offset) FROM strandline.partitions").await != "3" {
            pause.tick().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), emptied).await.expect("retention runs in time");
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let sql = Sql::connect(server).await;
        for (topic, _) in topics {
            assert_eq!(client.list_offset(topic, 0, T), NONE);
            assert_eq!(client.list_offset(topic, 0, -3), NONE);
            assert_eq!(client.list_offset(topic, 0, -2), (3, -1));
            assert_eq!(client.list_offset(topic, 0, -1), (3, -1));
            assert_eq!(sql.text(&format!("SELECT count(*) FROM {topic}")).await, "0");
        }
    })
    .await;
}
