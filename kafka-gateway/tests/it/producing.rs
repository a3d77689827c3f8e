//! Produce: acknowledgements, order, idempotence and refusals.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{InitProducerIdRequest, MetadataRequest, ProduceRequest};
use strandline_storage::format::{BatchOptions, Compression, ProducerIdentity, set_max_timestamp};

use crate::support::*;

const CORRUPT_MESSAGE: i16 = 2;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const MESSAGE_TOO_LARGE: i16 = 10;
const INVALID_REQUIRED_ACKS: i16 = 21;
const INVALID_REQUEST: i16 = 42;
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
const INVALID_RECORD: i16 = 87;

#[tokio::test]
async fn acked_batches_get_consecutive_offsets_in_every_version() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let mut expected = 0;
    for version in 3..=12 {
        let request = produce_request("t", 0, batch(&[(1, b"a"), (2, b"b")]));
        let answered = single(client.call(version, &request).await);
        assert_eq!((answered.error_code, answered.base_offset), (0, expected), "version {version}");
        assert_eq!(answered.log_start_offset, if version >= 5 { 0 } else { -1 });
        expected += 2;
    }
}

/// Reported as redpanda#25636, sarama#992.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let mut sent = Vec::new();
    for number in 0..40u8 {
        sent.push(client.send(8, &produce_request("t", 0, batch(&[(1, &[number])]))).await);
        if number == 20 {
            sent.push(client.send(4, &MetadataRequest::default()).await);
        }
    }
    let mut offset = 0;
    for (index, correlation_id) in sent.into_iter().enumerate() {
        if index == 21 {
            client.receive::<MetadataRequest>(4, correlation_id).await;
        } else {
            let answered = single(client.receive::<ProduceRequest>(8, correlation_id).await);
            assert_eq!((answered.error_code, answered.base_offset), (0, offset));
            offset += 1;
        }
    }
    let records = client.fetch("t", 0, Fetch::from(0)).await.records.unwrap();
    let values: Vec<u8> = strandline_storage::format::split_batches(records)
        .map(|batch| {
            let (_, batch) = batch.unwrap();
            *batch.iter().rev().nth(1).unwrap()
        })
        .collect();
    assert_eq!(values, (0..40).collect::<Vec<u8>>());
}

/// Reported as KafScale#28, tektite#200, kop#2008, helidon#6718: Java clients are idempotent unless told
/// otherwise.
#[tokio::test]
async fn a_resent_batch_gets_its_first_offset_and_a_gap_is_refused() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let unnamed = InitProducerIdRequest::default().with_transactional_id(None);
    let init = client.call(4, &unnamed).await;
    assert_eq!((init.error_code, init.producer_epoch), (0, 0));
    let other = client.call(0, &unnamed).await;
    assert_ne!(init.producer_id, other.producer_id);
    let sequenced = |base_sequence| {
        let producer = ProducerIdentity { producer_id: init.producer_id.0, producer_epoch: 0, base_sequence };
        batch_with(BatchOptions { producer: Some(producer), ..BatchOptions::default() }, &[(1, b"x")])
    };
    assert_eq!(client.produce("t", 0, sequenced(0)).await.base_offset, 0);
    assert_eq!(client.produce("t", 0, sequenced(1)).await.base_offset, 1);
    let again = client.produce("t", 0, sequenced(0)).await;
    assert_eq!((again.error_code, again.base_offset), (0, 0));
    assert_eq!(again.log_append_time_ms, 1, "of a duplicate, the greatest time of its records");
    assert_eq!(client.produce("t", 0, sequenced(5)).await.error_code, OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(client.produce("t", 0, sequenced(2)).await.base_offset, 2);
}

#[tokio::test]
async fn a_producer_without_a_transactional_id_names_both_of_its_numbers_or_none() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let mut init = async |producer_id: i64, producer_epoch| {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id(producer_id.into())
            .with_producer_epoch(producer_epoch);
        let answered = client.call(4, &request).await;
        (answered.error_code, answered.producer_id.0 >= 0)
    };
    assert_eq!(init(-1, -1).await, (0, true));
    assert_eq!(init(7, 2).await, (0, true));
    assert_eq!(init(7, -1).await, (INVALID_REQUEST, false));
    assert_eq!(init(-1, 2).await, (INVALID_REQUEST, false));
}

#[tokio::test]
async fn the_log_start_is_told_when_the_records_of_a_batch_are_refused() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let whole = batch(&[(1, b"a"), (2, b"b")]);
    let mut wrong_count = BytesMut::from(&whole[..]);
    wrong_count[57..61].copy_from_slice(&3i32.to_be_bytes());
    set_max_timestamp(&mut wrong_count, 2);
    let mut wrong_magic = BytesMut::from(&whole[..]);
    wrong_magic[16] = 3;
    let cases = [
        (wrong_count.freeze(), INVALID_RECORD, 0),
        (wrong_magic.freeze(), CORRUPT_MESSAGE, -1),
        (whole.slice(..whole.len() - 1), INVALID_RECORD, -1),
        (batch(&[(1, &vec![7; 2_000_000])]), MESSAGE_TOO_LARGE, -1),
    ];
    for (batch, error, log_start_offset) in cases {
        let answered = client.produce("t", 0, batch).await;
        assert_eq!((answered.error_code, answered.log_start_offset), (error, log_start_offset));
    }
}

/// Found by Tansu: only MESSAGE_TOO_LARGE makes a client split its batch.
#[tokio::test]
async fn what_is_refused_moves_no_offset() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let whole = batch(&[(1, b"a")]);
    let mut wrong_crc = BytesMut::from(&whole[..]);
    *wrong_crc.last_mut().unwrap() ^= 1;
    let mut wrong_count = BytesMut::from(&whole[..]);
    wrong_count[57..61].copy_from_slice(&1000i32.to_be_bytes());
    // Computes the crc again, so that the count is all that is wrong.
    set_max_timestamp(&mut wrong_count, 1);
    let twice: Bytes = [&whole[..], &whole[..]].concat().into();
    let large = batch(&[(1, &vec![7; 2_000_000])]);
    let cases = [
        (Bytes::from(wrong_crc), CORRUPT_MESSAGE),
        (Bytes::from(wrong_count), INVALID_RECORD),
        (twice, INVALID_RECORD),
        (Bytes::new(), INVALID_RECORD),
        (Bytes::from_static(b"short"), INVALID_RECORD),
        (large, MESSAGE_TOO_LARGE),
    ];
    for (batch, error) in cases {
        let answered = client.produce("t", 0, batch).await;
        assert_eq!((answered.error_code, answered.base_offset), (error, -1));
        assert!(answered.error_message.is_some());
    }
    assert_eq!(client.produce("t", 1, whole.clone()).await.error_code, UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(client.produce("none", 0, whole.clone()).await.error_code, UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(client.produce("t", 0, whole).await.base_offset, 0);
}

#[tokio::test]
async fn zstd_needs_version_7() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let options = BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() };
    let request = produce_request("t", 0, batch_with(options, &[(1, b"a")]));
    assert_eq!(single(client.call(6, &request).await).error_code, UNSUPPORTED_COMPRESSION_TYPE);
    assert_eq!(single(client.call(7, &request).await).error_code, 0);
}

#[tokio::test]
async fn acks_0_gets_no_answer_and_an_error_closes_the_connection() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let unacknowledged = |topic| produce_request(topic, 0, batch(&[(1, b"a")])).with_acks(0);
    client.send(8, &unacknowledged("t")).await;
    let answered = client.produce("t", 0, batch(&[(1, b"b")])).await;
    assert_eq!((answered.error_code, answered.base_offset), (0, 1));
    client.send(8, &unacknowledged("none")).await;
    client.assert_closed().await;
}

#[tokio::test]
async fn unknown_acks_are_refused() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let request = produce_request("t", 0, batch(&[(1, b"a")])).with_acks(2);
    assert_eq!(single(client.call(8, &request).await).error_code, INVALID_REQUIRED_ACKS);
}

#[tokio::test]
async fn a_topic_that_is_named_twice_is_answered_once() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 2).await;
    let mut request = produce_request("t", 0, batch(&[(1, b"a")]));
    request.topic_data.extend(produce_request("t", 1, batch(&[(1, b"a")])).topic_data);
    let response = client.call(8, &request).await;
    assert_eq!(response.responses.len(), 1);
    let partitions: Vec<_> = response.responses[0].partition_responses.iter().map(|one| one.index).collect();
    assert_eq!(partitions, [0, 1]);
}
