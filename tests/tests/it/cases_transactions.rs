//! What is committed, aborted or open: each reader sees what its isolation level says, in every place.

use kafka_protocol::messages::fetch_response::PartitionData;
use rdkafka::Message;

use crate::kafka::drain;
use crate::raw::{FetchLimits, RawClient, records};
use crate::raw_producer::RawProducer;
use crate::server::{Server, from_memory_wal_and_segments};
use crate::sql::{Sql, cells};

const NONE: (i64, i64) = (-1, -1);
/// In 2096: later than any marker, whose times are those of the test.
const T: i64 = 4_000_000_000_000;
/// Two committed transactions with an aborted one between them, three records and a marker each, and an
/// open one behind them.
const COMMITTED: [i64; 6] = [0, 1, 2, 8, 9, 10];
const ABORTED: [i64; 3] = [4, 5, 6];
const OPEN: [i64; 3] = [12, 13, 14];
const LAST_STABLE_OFFSET: i64 = 12;

fn sorted(parts: &[&[i64]]) -> Vec<i64> {
    let mut offsets = parts.concat();
    offsets.sort_unstable();
    offsets
}

fn offsets(fetched: &PartitionData) -> Vec<i64> {
    records(fetched).iter().map(|record| record.offset).collect()
}

/// What a consumer of an isolation level returns to its user.
async fn consumed(server: &Server, isolation_level: &str) -> Vec<i64> {
    let messages = drain(&server.bootstrap(), "mixed", 1, isolation_level).await;
    messages.iter().map(Message::offset).collect()
}

fn write_transactions(server: &Server) -> RawProducer {
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("mixed", 1, &[("message.timestamp.after.max.ms", &i64::MAX.to_string())]);
    let mut producer = RawProducer::init(&mut client).with_times_from(T);
    for is_committed in [true, false, true] {
        producer.produce(&mut client, "mixed", 1);
        assert_eq!(producer.end(&mut client, is_committed), 0);
        producer = producer.next();
    }
    producer.produce(&mut client, "mixed", 1);
    producer
}

/// Reported as redpanda#6630, kop#1283, brod PR#659; the lookups as franz-go PR#1434.
#[tokio::test(flavor = "multi_thread")]
async fn aborted_and_open_records_are_for_readers_of_the_uncommitted_only() {
    let mut server = Server::start();
    let producer_id = write_transactions(&server).producer_id;
    from_memory_wal_and_segments(&mut server, async |server| {
        let mut client = RawClient::connect(server.kafka);
        let uncommitted = client.fetch("mixed", 0, FetchLimits::from(0));
        assert_eq!(offsets(&uncommitted), (0..15).collect::<Vec<_>>(), "with markers at 3, 7 and 11");
        assert_eq!((uncommitted.high_watermark, uncommitted.aborted_transactions), (15, None));
        let committed = client.fetch_committed("mixed", 0, FetchLimits::from(0));
        assert_eq!(offsets(&committed), (0..LAST_STABLE_OFFSET).collect::<Vec<_>>());
        assert_eq!(committed.last_stable_offset, LAST_STABLE_OFFSET);
        let aborted: Vec<_> = committed.aborted_transactions.into_iter().flatten().collect();
        let aborted: Vec<_> = aborted.iter().map(|one| (one.producer_id.0, one.first_offset)).collect();
        assert_eq!(aborted, [(producer_id, ABORTED[0])]);

        assert_eq!(consumed(server, "read_uncommitted").await, sorted(&[&COMMITTED, &ABORTED, &OPEN]));
        assert_eq!(consumed(server, "read_committed").await, COMMITTED);
        let selected = Sql::connect(server).await.column("SELECT _offset FROM mixed ORDER BY 1").await;
        let expected: Vec<_> = COMMITTED.iter().map(i64::to_string).collect();
        assert_eq!(selected, cells(&expected.iter().map(String::as_str).collect::<Vec<_>>()));

        // The records of the open transaction have the sequences 9 to 11.
        assert_eq!(client.list_offset("mixed", 0, T + 10), (13, T + 10));
        assert_eq!(client.list_committed_offset("mixed", 0, T + 10), NONE);
        assert_eq!(client.list_committed_offset("mixed", 0, T + 8), (10, T + 8));
        assert_eq!(client.list_committed_end("mixed", 0), LAST_STABLE_OFFSET);
    })
    .await;
}
