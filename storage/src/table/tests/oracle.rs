//! What a query returns, held against the records that a fetch returns: random data with late, equal
//! and missing timestamps in every codec, random filters, limits and orders.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::{Fixture, T, TestRecord, bytes, integers, row_count};
use crate::format::{Compression, DecompressionBudget, Records};
use crate::ids::TopicPartition;
use crate::log::{FetchOptions, FirstBatch, Isolation};

/// A record as a fetch returns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fetched {
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

/// What a filter says of a record: one of SQL's three values.
type Test = Box<dyn Fn(&Fetched) -> Option<bool>>;
/// Whether one number stands to another as an operator says.
type Holds = fn(&i64, &i64) -> bool;
/// What rows are sorted by.
type SortKey = fn(&Fetched) -> (i64, i64);

/// A filter in SQL, and what it says of a record: SQL's three values.
struct Filter {
    sql: String,
    passes: Test,
}

const PARTITIONS: i32 = 4;

async fn random_fixture(rng: &mut StdRng) -> Fixture {
    let fixture = Fixture::new(PARTITIONS).await;
    // Some logs have slices before the tail, and a log start inside of either.
    let compactions = if rng.random_bool(0.5) { 0.1 } else { 0.0 };
    for _ in 0..rng.random_range(0..40) {
        // The last partition stays empty.
        let partition = rng.random_range(0..PARTITIONS - 1);
        let records: Vec<_> = (0..rng.random_range(1..30)).map(|_| random_record(rng)).collect();
        let codec = Compression::ALL[rng.random_range(0..Compression::ALL.len())];
        fixture.append(partition, codec, &records).await;
        if rng.random_bool(compactions) {
            fixture.compact().await;
        }
    }
    if rng.random_bool(0.5) {
        fixture.delete_records(0, rng.random_range(0..100)).await;
    }
    fixture
}

fn random_record(rng: &mut StdRng) -> TestRecord {
    let length = if rng.random_bool(0.1) { 3000 } else { rng.random_range(0..40) };
    TestRecord {
        timestamp: rng.random_bool(0.9).then(|| T + rng.random_range(0..200)),
        key: rng.random_bool(0.9).then(|| format!("k{}", rng.random_range(0..5)).into_bytes()),
        value: rng.random_bool(0.9).then(|| vec![b'v'; length]),
    }
}

async fn fetch_all(fixture: &Fixture) -> Vec<Fetched> {
    let mut all = Vec::new();
    for partition in 0..PARTITIONS {
        let topic_partition = TopicPartition::new(fixture.topic.id, partition);
        let view = fixture.snapshot().partition(topic_partition).unwrap();
        let options = FetchOptions {
            from: view.bounds().log_start_offset,
            bytes_max: usize::MAX,
            isolation: Isolation::ReadCommitted,
            first_batch: FirstBatch::Whole,
        };
        for batch in view.fetch(options).await.unwrap().batches {
            let records = Records::decode(&batch, &mut DecompressionBudget::new(usize::MAX)).unwrap();
            let records = records.iter().map(Result::unwrap);
            // A fetch gives whole batches: the reader drops what is below the log start.
            let records = records.filter(|record| record.offset >= view.bounds().log_start_offset);
            all.extend(records.map(|record| Fetched {
                partition,
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
            }));
        }
    }
    all
}

fn random_filter(rng: &mut StdRng, depth: u32) -> Filter {
    if depth == 0 || rng.random_bool(0.4) {
        return random_comparison(rng);
    }
    let (a, b) = (random_filter(rng, depth - 1), random_filter(rng, depth - 1));
    match rng.random_range(0..3) {
        0 => Filter {
            sql: format!("({} AND {})", a.sql, b.sql),
            passes: Box::new(move |row| match ((a.passes)(row), (b.passes)(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }),
        },
        1 => Filter {
            sql: format!("({} OR {})", a.sql, b.sql),
            passes: Box::new(move |row| match ((a.passes)(row), (b.passes)(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }),
        },
        _ => Filter {
            sql: format!("(NOT {})", a.sql),
            passes: Box::new(move |row| (a.passes)(row).map(|passes| !passes)),
        },
    }
}

fn random_comparison(rng: &mut StdRng) -> Filter {
    match rng.random_range(0..8) {
        0 => Filter { sql: "ts IS NULL".into(), passes: Box::new(|row| Some(row.timestamp.is_none())) },
        1 => Filter { sql: "_value IS NULL".into(), passes: Box::new(|row| Some(row.value.is_none())) },
        2 => {
            let key = format!("k{}", rng.random_range(0..6));
            let sql = format!("_key = '{key}'");
            Filter { sql, passes: Box::new(move |row| row.key.as_ref().map(|k| *k == key.as_bytes())) }
        }
        3 => {
            let length = rng.random_range(0..40);
            let sql = format!("length(_value) > {length}");
            Filter { sql, passes: Box::new(move |row| row.value.as_ref().map(|value| value.len() > length)) }
        }
        4 => {
            let partition = rng.random_range(0..PARTITIONS);
            compare(rng, "_partition", i64::from(partition), |row| Some(i64::from(row.partition)))
        }
        5 => {
            let offset = rng.random_range(-5..300);
            compare(rng, "_offset", offset, |row| Some(row.offset))
        }
        _ => {
            let timestamp = T + rng.random_range(-20..220);
            let filter = compare(rng, "ts", timestamp, |row| row.timestamp);
            let literal = format!("arrow_cast({timestamp}, 'Timestamp(ms, \"UTC\")')");
            Filter { sql: filter.sql.replace(&timestamp.to_string(), &literal), ..filter }
        }
    }
}

fn compare(rng: &mut StdRng, column: &str, value: i64, of: fn(&Fetched) -> Option<i64>) -> Filter {
    let operators: [(&str, Holds); 6] =
        [("<", i64::lt), ("<=", i64::le), (">", i64::gt), (">=", i64::ge), ("=", i64::eq), ("<>", i64::ne)];
    let (operator, holds) = operators[rng.random_range(0..operators.len())];
    let sql = format!("{column} {operator} {value}");
    Filter { sql, passes: Box::new(move |row| of(row).map(|found| holds(&found, &value))) }
}

async fn select(fixture: &Fixture, clauses: &str) -> Vec<Fetched> {
    let columns = "_partition, _offset, ts, _key_bytes, _value_bytes";
    let batches = fixture.query(&format!("SELECT {columns} FROM t {clauses}")).await;
    let (partitions, offsets) = (integers(&batches, 0), integers(&batches, 1));
    let timestamps = integers(&batches, 2);
    let (keys, values) = (bytes(&batches, 3), bytes(&batches, 4));
    let row = |index: usize| Fetched {
        partition: partitions[index].unwrap() as i32,
        offset: offsets[index].unwrap(),
        timestamp: timestamps[index],
        key: keys[index].clone(),
        value: values[index].clone(),
    };
    (0..row_count(&batches)).map(row).collect()
}

async fn check(fixture: &Fixture, rng: &mut StdRng, all: &[Fetched]) {
    let filter = random_filter(rng, 3);
    let passing: Vec<_> = all.iter().filter(|row| (filter.passes)(row) == Some(true)).cloned().collect();
    let clause = format!("WHERE {}", filter.sql);

    let mut found = select(fixture, &clause).await;
    found.sort();
    assert_eq!(found, passing, "{clause}");
    let count = fixture.integer(&format!("SELECT count(*) FROM t {clause}")).await;
    assert_eq!(count, Some(passing.len() as i64), "{clause}");

    let limit = rng.random_range(0..20);
    let limited = select(fixture, &format!("{clause} LIMIT {limit}")).await;
    assert_eq!(limited.len(), limit.min(passing.len()), "{clause}");
    assert!(limited.iter().all(|row| passing.contains(row)), "{clause}");

    check_orders(fixture, &clause, passing, limit).await;
}

async fn check_orders(fixture: &Fixture, clause: &str, passing: Vec<Fetched>, limit: usize) {
    let sorted = |key: SortKey| {
        let mut rows = passing.clone();
        rows.sort_by_key(key);
        rows.truncate(limit);
        rows
    };
    let orders: [(&str, SortKey); 5] = [
        ("_partition, _offset", |row| (i64::from(row.partition), row.offset)),
        ("_partition DESC, _offset", |row| (-i64::from(row.partition), row.offset)),
        ("_partition DESC, _offset DESC", |row| (-i64::from(row.partition), -row.offset)),
        ("_offset, _partition DESC", |row| (row.offset, -i64::from(row.partition))),
        ("_offset DESC, _partition", |row| (-row.offset, i64::from(row.partition))),
    ];
    for (order, key) in orders {
        let clauses = format!("{clause} ORDER BY {order} LIMIT {limit}");
        assert_eq!(select(fixture, &clauses).await, sorted(key), "{clauses}");
    }
    // Ties in time may come in any order.
    let mut timestamps: Vec<_> = passing.iter().map(|row| row.timestamp).collect();
    timestamps.sort_by_key(|timestamp| (timestamp.is_none(), *timestamp));
    for order in ["ts", "ts DESC"] {
        let clauses = format!("{clause} ORDER BY {order} LIMIT {limit}");
        let found: Vec<_> = select(fixture, &clauses).await.iter().map(|row| row.timestamp).collect();
        assert_eq!(found, timestamps.iter().take(limit).copied().collect::<Vec<_>>(), "{clauses}");
        timestamps.reverse();
    }
}

async fn check_aggregates(fixture: &Fixture, all: &[Fetched]) {
    let timestamps = || all.iter().filter_map(|row| row.timestamp);
    let expected = [
        ("count(*)", Some(all.len() as i64)),
        ("count(ts)", Some(timestamps().count() as i64)),
        ("count(DISTINCT _partition)", {
            let mut partitions: Vec<_> = all.iter().map(|row| row.partition).collect();
            partitions.dedup();
            Some(partitions.len() as i64)
        }),
        ("min(ts)", timestamps().min()),
        ("max(ts)", timestamps().max()),
        ("min(_offset)", all.iter().map(|row| row.offset).min()),
        ("max(_offset)", all.iter().map(|row| row.offset).max()),
    ];
    for (aggregate, expected) in expected {
        assert_eq!(fixture.integer(&format!("SELECT {aggregate} FROM t")).await, expected, "{aggregate}");
    }
}

async fn check_seed(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut fixture = random_fixture(&mut rng).await;
    fixture.target_partitions = rng.random_range(1..6);
    let all = fetch_all(&fixture).await;
    for fixture in &fixture.three_ways().await {
        check_aggregates(fixture, &all).await;
        for _ in 0..3 {
            check(fixture, &mut rng, &all).await;
        }
    }
}

#[tokio::test]
async fn queries_agree_with_fetches() {
    for seed in 0..8 {
        println!("seed {seed}");
        check_seed(seed).await;
    }
}
