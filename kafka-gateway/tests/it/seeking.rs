//! ListOffsets: seek by time to the exact record, bounds, and odd requests.

use std::sync::Arc;

use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use strandline_storage::format::{BatchOptions, Compression};
use strandline_storage::object::{LogStore, ObjectStoreBackend};

use crate::support::*;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_REQUEST: i16 = 42;
const T: i64 = 1_700_000_000_000;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const GREATEST: i64 = -3;
const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn request(topic: &str, targets: &[(i32, i64)]) -> ListOffsetsRequest {
    let partitions = targets.iter().map(|(partition, timestamp)| {
        ListOffsetsPartition::default().with_partition_index(*partition).with_timestamp(*timestamp)
    });
    let topic =
        ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(partitions.collect());
    ListOffsetsRequest::default().with_topics(vec![topic])
}

async fn list(
    client: &mut Client,
    version: i16,
    topic: &str,
    targets: &[(i32, i64)],
) -> Vec<ListOffsetsPartitionResponse> {
    let response = client.call(version, &request(topic, targets)).await;
    response.topics[0].partitions.clone()
}

/// The offset and timestamp that one partition 0 is answered.
async fn seek(client: &mut Client, topic: &str, timestamp: i64) -> (i64, i64) {
    let answered = list(client, 7, topic, &[(0, timestamp)]).await.remove(0);
    assert_eq!(answered.error_code, 0);
    (answered.offset, answered.timestamp)
}

#[tokio::test]
async fn a_seek_finds_the_record_inside_its_batch() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(T, b"a"), (T + 10, b"b"), (T + 20, b"c")])).await;
    client.produce("t", 0, batch(&[(T + 100, b"d")])).await;
    let cases = [(T, 0), (T + 1, 1), (T + 5, 1), (T + 10, 1), (T + 11, 2), (T + 20, 2), (T + 21, 3)];
    for (time, offset) in cases {
        assert_eq!(seek(&mut client, "t", time).await.0, offset, "{time}");
    }
}

#[tokio::test]
async fn each_record_of_a_compressed_batch_is_found_by_its_own_time_also_after_a_restart() {
    let store: Arc<dyn LogStore> = Arc::new(ObjectStoreBackend::memory());
    let gateway = TestGateway::start_on(store.clone(), settings()).await;
    let mut client = gateway.connect().await;
    let records: Vec<(i64, &[u8])> = (0..50).map(|index| (T + index, &b"value"[..])).collect();
    for compression in CODECS {
        let topic = compression.to_string();
        client.create_topic(&topic, 1).await;
        let options = BatchOptions { compression, ..BatchOptions::default() };
        client.produce(&topic, 0, batch_with(options, &records)).await;
    }
    assert_each_is_found(&mut client).await;
    drop(client);
    gateway.log.close().await;
    gateway.stop().await;
    let gateway = TestGateway::start_on(store, settings()).await;
    let mut client = gateway.connect().await;
    assert_each_is_found(&mut client).await;
}

async fn assert_each_is_found(client: &mut Client) {
    for compression in CODECS {
        for index in 0..50 {
            let found = seek(client, &compression.to_string(), T + index).await;
            assert_eq!(found, (index, T + index), "{compression}");
        }
    }
}

#[tokio::test]
async fn a_time_between_records_gives_the_next_and_after_all_none() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(2, b"a"), (4, b"b"), (6, b"c"), (8, b"d")])).await;
    let cases = [(0, (0, 2)), (3, (1, 4)), (5, (2, 6)), (7, (3, 8)), (8, (3, 8)), (9, (-1, -1))];
    for (time, found) in cases {
        assert_eq!(seek(&mut client, "t", time).await, found, "{time}");
    }
}

#[tokio::test]
async fn partitions_with_and_without_a_match_are_answered_together() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 3).await;
    client.produce("t", 0, batch(&[(T, b"a"), (T + 50, b"b")])).await;
    client.produce("t", 1, batch(&[(T, b"a")])).await;
    for version in 1..=10 {
        let targets = [(0, T + 40), (1, T + 40), (2, T + 40), (3, T + 40)];
        let answered = list(&mut client, version, "t", &targets).await;
        let found: Vec<_> = answered.iter().map(|one| (one.error_code, one.offset, one.timestamp)).collect();
        let unknown = (UNKNOWN_TOPIC_OR_PARTITION, -1, -1);
        assert_eq!(found, [(0, 1, T + 50), (0, -1, -1), (0, -1, -1), unknown], "version {version}");
    }
}

/// Reported as redpanda#17829.
#[tokio::test]
async fn bounds_and_the_greatest_timestamp_are_answered() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    assert_eq!(seek(&mut client, "t", LATEST).await, (0, -1));
    assert_eq!(seek(&mut client, "t", GREATEST).await, (-1, -1));
    client.produce("t", 0, batch(&[(T + 5, b"a"), (T + 9, b"b"), (T + 1, b"c"), (T + 9, b"d")])).await;
    assert_eq!(seek(&mut client, "t", EARLIEST).await, (0, -1));
    assert_eq!(seek(&mut client, "t", LATEST).await, (4, -1));
    assert_eq!(seek(&mut client, "t", GREATEST).await, (1, T + 9));
    let committed = request("t", &[(0, LATEST)]).with_isolation_level(1);
    assert_eq!(client.call(7, &committed).await.topics[0].partitions[0].offset, 4);
    let special = list(&mut client, 9, "t", &[(0, -4)]).await.remove(0);
    assert_eq!((special.error_code, special.offset), (0, 0));
    let special = list(&mut client, 9, "t", &[(0, -5)]).await.remove(0);
    assert_eq!((special.error_code, special.offset, special.leader_epoch), (0, -1, -1));
}

/// Reported as franz-go PR#1434.
#[tokio::test]
async fn odd_requests_are_answered_and_leave_the_connection_open() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    let codes = |answered: Vec<ListOffsetsPartitionResponse>| {
        answered.into_iter().map(|one| one.error_code).collect::<Vec<_>>()
    };
    let twice = list(&mut client, 7, "t", &[(0, T), (1, T), (0, LATEST)]).await;
    assert_eq!(codes(twice), [INVALID_REQUEST, 0]);
    let unknown = list(&mut client, 10, "t", &[(0, -6), (1, i64::MIN)]).await;
    assert_eq!(codes(unknown), [UNSUPPORTED_VERSION; 2]);
    assert_eq!(codes(list(&mut client, 10, "none", &[(0, -7)]).await), [UNSUPPORTED_VERSION]);
    assert_eq!(codes(list(&mut client, 6, "t", &[(0, GREATEST)]).await), [UNSUPPORTED_VERSION]);
    assert_eq!(codes(list(&mut client, 7, "t", &[(0, -4)]).await), [UNSUPPORTED_VERSION]);
    assert_eq!(codes(list(&mut client, 8, "t", &[(0, -5)]).await), [UNSUPPORTED_VERSION]);
    assert_eq!(codes(list(&mut client, 10, "none", &[(0, T)]).await), [UNKNOWN_TOPIC_OR_PARTITION]);
}
