//! Fetch: limits, waiting and errors; OffsetForLeaderEpoch.

use std::time::Duration;

use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{FetchRequest, OffsetForLeaderEpochRequest, ProduceRequest};

use tokio::io::AsyncWriteExt;

use crate::support::*;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNKNOWN_LEADER_EPOCH: i16 = 75;

/// Waits for data as long as the tests have patience.
const LONG_POLL: Fetch = Fetch { offset: 0, max_wait_ms: 25_000, min_bytes: 1, max_bytes: 1_000_000 };

/// Found by Tansu with franz-go: a position inside a batch gets the whole batch.
#[tokio::test]
async fn every_version_gets_the_batches_as_they_were_sent() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let sent = batch(&[(1, b"a"), (2, b"b")]);
    client.produce("t", 0, sent.clone()).await;
    let id = gateway.log.snapshot().topic("t").unwrap().id.as_uuid();
    for version in 4..=18 {
        let mut request = fetch_request("t", 0, Fetch::from(1));
        name_topics(&mut request, version, id);
        let partition = fetched(client.call::<FetchRequest>(version, &request).await);
        assert_eq!((partition.error_code, partition.high_watermark), (0, 2), "version {version}");
        assert_eq!((partition.last_stable_offset, &partition.aborted_transactions), (2, &None));
        let records = partition.records.unwrap();
        // The leader epoch, at bytes 12 to 16, is the log's.
        assert_eq!((&records[16..], records.len()), (&sent[16..], sent.len()));
    }
    let committed = fetch_request("t", 0, Fetch::from(0)).with_isolation_level(1);
    let partition = fetched(client.call::<FetchRequest>(12, &committed).await);
    assert_eq!(partition.aborted_transactions, Some(Vec::new()));
}

/// Reported as franz-go#809, librdkafka#482, sarama#3541 (KIP-74).
#[tokio::test]
async fn a_first_batch_larger_than_the_limits_is_returned_whole() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let large = batch(&[(1, &vec![7; 900_000])]);
    client.produce("t", 0, large.clone()).await;
    client.produce("t", 0, batch(&[(2, b"small")])).await;
    let limited = |offset, max_bytes| Fetch { max_bytes, ..Fetch::from(offset) };
    let partition = client.fetch("t", 0, limited(0, 1024)).await;
    assert_eq!(partition.records.unwrap().len(), large.len());
    let partition = client.fetch("t", 0, limited(1, 1024)).await;
    assert!((1..1024).contains(&partition.records.unwrap().len()));
    let partition = client.fetch("t", 0, limited(0, 0)).await;
    assert_eq!(partition.records.unwrap().len(), large.len());
}

#[tokio::test]
async fn only_the_first_partition_with_data_may_exceed_the_limits() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 3).await;
    let one = batch(&[(1, &[7; 500])]);
    for partition in [1, 2] {
        client.produce("t", partition, one.clone()).await;
    }
    let mut request = fetch_request("t", 0, Fetch { max_bytes: 100, ..Fetch::from(0) });
    for partition in [1, 2] {
        let more = fetch_request("t", partition, Fetch { max_bytes: 100, ..Fetch::from(0) });
        request.topics[0].partitions.extend(more.topics[0].partitions.clone());
    }
    let response = client.call::<FetchRequest>(11, &request).await;
    let sizes: Vec<_> =
        response.responses[0].partitions.iter().map(|one| one.records.as_ref().unwrap().len()).collect();
    assert_eq!(sizes, [0, one.len(), 0]);
}

#[tokio::test]
async fn a_waiting_fetch_is_woken_by_new_data() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let clock = gateway.log.seams().clock.clone();
    let began = clock.monotonic();
    let waiting = client.send(11, &fetch_request("t", 0, LONG_POLL)).await;
    let mut producer = gateway.connect().await;
    producer.produce("t", 0, batch(&[(1, b"a")])).await;
    let partition = fetched(client.receive::<FetchRequest>(11, waiting).await);
    assert!(!partition.records.unwrap().is_empty());
    assert!(clock.monotonic() - began < Duration::from_secs(20), "woken, not timed out");
}

#[tokio::test]
async fn a_fetch_waits_for_its_least_bytes() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let one = batch(&[(1, &[7; 1000])]);
    let fetch = Fetch { min_bytes: i32::try_from(one.len() * 2).unwrap(), ..LONG_POLL };
    let waiting = client.send(11, &fetch_request("t", 0, fetch)).await;
    let mut producer = gateway.connect().await;
    producer.produce("t", 0, one.clone()).await;
    producer.produce("t", 0, one.clone()).await;
    let partition = fetched(client.receive::<FetchRequest>(11, waiting).await);
    assert_eq!(partition.records.unwrap().len(), one.len() * 2);
}

#[tokio::test]
async fn a_fetch_at_the_end_of_an_idle_topic_answers_when_its_wait_is_over() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"a")])).await;
    let clock = gateway.log.seams().clock.clone();
    let began = clock.monotonic();
    let partition = client.fetch("t", 0, Fetch { offset: 1, max_wait_ms: 500, ..LONG_POLL }).await;
    assert_eq!((partition.error_code, partition.records.as_deref()), (0, Some(&b""[..])));
    assert!(clock.monotonic() - began >= Duration::from_millis(500));
}

#[tokio::test]
async fn a_waiting_fetch_is_told_when_its_topic_is_deleted() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let waiting = client.send(11, &fetch_request("t", 0, LONG_POLL)).await;
    let id = gateway.log.snapshot().topic("t").unwrap().id;
    gateway.log.delete_topic(id).await.unwrap();
    let partition = fetched(client.receive::<FetchRequest>(11, waiting).await);
    assert_eq!(partition.error_code, UNKNOWN_TOPIC_OR_PARTITION);
}

#[tokio::test]
async fn errors_are_those_of_their_partition_and_are_not_waited_with() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"a")])).await;
    for offset in [-1, 2] {
        let partition = client.fetch("t", 0, Fetch { offset, ..LONG_POLL }).await;
        assert_eq!((partition.error_code, partition.high_watermark), (OFFSET_OUT_OF_RANGE, -1));
        assert_eq!(partition.records.as_deref(), Some(&b""[..]));
    }
    let partition = client.fetch("t", 5, LONG_POLL).await;
    assert_eq!(partition.error_code, UNKNOWN_TOPIC_OR_PARTITION);
    let mut request = fetch_request("t", 0, LONG_POLL);
    request.topics[0].partitions[0].current_leader_epoch = 5;
    let partition = fetched(client.call::<FetchRequest>(11, &request).await);
    assert_eq!(partition.error_code, UNKNOWN_LEADER_EPOCH);
}

#[tokio::test]
async fn every_negative_leader_epoch_checks_nothing() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"a")])).await;
    for epoch in [-1, -2, i32::MIN] {
        let mut request = fetch_request("t", 0, Fetch::from(0));
        let partition = &mut request.topics[0].partitions[0];
        (partition.current_leader_epoch, partition.last_fetched_epoch) = (epoch, epoch);
        let partition = fetched(client.call::<FetchRequest>(12, &request).await);
        assert_eq!((partition.error_code, partition.high_watermark), (0, 1), "epoch {epoch}");
    }
}

#[tokio::test]
async fn a_position_of_an_epoch_that_never_was_is_out_of_range() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"a")])).await;
    let mut request = fetch_request("t", 0, LONG_POLL);
    request.topics[0].partitions[0].last_fetched_epoch = 1;
    let partition = fetched(client.call::<FetchRequest>(12, &request).await);
    assert_eq!((partition.error_code, partition.high_watermark), (OFFSET_OUT_OF_RANGE, -1));
    assert_eq!((partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset), (-1, -1));
    let known = &mut request.topics[0].partitions[0];
    (known.last_fetched_epoch, known.fetch_offset) = (0, 5);
    let partition = fetched(client.call::<FetchRequest>(12, &request).await);
    assert_eq!((partition.error_code, partition.high_watermark), (0, 1));
    assert_eq!((partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset), (0, 1));
}

#[tokio::test]
async fn clients_that_do_not_read_do_not_stop_the_others() {
    let small = strandline_kafka_gateway::GatewaySettings { response_bytes_max: 16_000_000, ..settings() };
    let gateway = TestGateway::start_with(small).await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    for _ in 0..20 {
        client.produce("t", 0, batch(&[(1, &vec![7; 900_000])])).await;
    }
    let everything = Fetch { max_bytes: 50_000_000, ..Fetch::from(0) };
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut connection = gateway.connect().await;
        connection.send(11, &fetch_request("t", 0, everything)).await;
        slow.push(connection);
    }
    let mut offset = 0;
    while offset < 20 {
        let partition = client.fetch("t", 0, Fetch::from(offset)).await;
        let records = partition.records.unwrap();
        offset += i64::try_from(strandline_storage::format::split_batches(records).count()).unwrap();
    }
}

#[tokio::test]
async fn clients_that_stall_lose_their_connection_when_others_need_the_memory() {
    let small = strandline_kafka_gateway::GatewaySettings {
        response_bytes_max: 16_000_000,
        contended_timeout: Duration::from_millis(100),
        ..settings()
    };
    let gateway = TestGateway::start_with(small).await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    for _ in 0..10 {
        client.produce("t", 0, batch(&[(1, &vec![7; 900_000])])).await;
    }
    let everything = Fetch { max_bytes: 50_000_000, ..Fetch::from(0) };
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut connection = gateway.connect().await;
        // More than the buffers of the sockets take.
        for _ in 0..20 {
            connection.send(11, &fetch_request("t", 0, everything)).await;
        }
        slow.push(connection);
    }
    for offset in 0..10 {
        let partition = client.fetch("t", 0, Fetch::from(offset)).await;
        assert!(partition.records.is_some_and(|records| records.len() > 900_000));
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_no_waiting_fetch_behind() {
    let one = strandline_kafka_gateway::GatewaySettings { connections_max: 1, ..settings() };
    let gateway = TestGateway::start_with(one).await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.create_topic("sign", 1).await;
    let for_ever = Fetch { max_wait_ms: i32::MAX, ..LONG_POLL };
    client.send(11, &fetch_request("t", 0, for_ever)).await;
    client.send(8, &produce_request("sign", 0, batch(&[(1, b"a")]))).await;
    gateway.until_written("sign").await;
    drop(client);
    // There is room for one connection, so the next one is served only when the first has ended.
    let served = async {
        loop {
            let mut next = gateway.connect().await;
            let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
            let sent = next.socket.write_all(&request).await;
            if sent.is_ok() && next.receive_frame().await.is_some() {
                return;
            }
        }
    };
    within(served).await;
}

#[tokio::test]
async fn a_shutdown_answers_what_waits() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.create_topic("sign", 1).await;
    let waiting = client.send(11, &fetch_request("t", 0, LONG_POLL)).await;
    let produced = client.send(8, &produce_request("sign", 0, batch(&[(1, b"a")]))).await;
    // Requests are begun in order: once the second is done, the first is waiting.
    gateway.until_written("sign").await;
    gateway.stop().await;
    let answered = client.receive::<FetchRequest>(11, waiting).await;
    client.receive::<ProduceRequest>(8, produced).await;
    assert_eq!(fetched(answered).error_code, 0);
    client.assert_closed().await;
}

#[tokio::test]
async fn a_leader_epoch_ends_at_the_end_of_the_log() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    client.produce("t", 0, batch(&[(1, b"a")])).await;
    for version in 2..=4 {
        let asked = |leader_epoch| {
            let partition = OffsetForLeaderPartition::default()
                .with_partition(0)
                .with_current_leader_epoch(-1)
                .with_leader_epoch(leader_epoch);
            let topic =
                OffsetForLeaderTopic::default().with_topic(topic_name("t")).with_partitions(vec![partition]);
            OffsetForLeaderEpochRequest::default().with_topics(vec![topic])
        };
        let known = client.call(version, &asked(0)).await.topics[0].partitions[0].clone();
        assert_eq!((known.error_code, known.leader_epoch, known.end_offset), (0, 0, 1));
        let unknown = client.call(version, &asked(7)).await.topics[0].partitions[0].clone();
        assert_eq!((unknown.error_code, unknown.leader_epoch, unknown.end_offset), (0, -1, -1));
    }
}
