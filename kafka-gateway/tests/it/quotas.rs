//! Client quotas: how they are set and described, and what clients feel of them.

use std::time::Duration;

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use strandline_storage::seam::{Clock, Seams};

use crate::support::*;

const INVALID_REQUEST: i16 = 42;

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn part(entity_type: &str, name: Option<&str>) -> EntityData {
    EntityData::default().with_entity_type(text(entity_type)).with_entity_name(name.map(text))
}

fn set(key: &str, value: f64) -> OpData {
    OpData::default().with_key(text(key)).with_value(value)
}

fn entry(entity: &[EntityData], ops: &[OpData]) -> EntryData {
    EntryData::default().with_entity(entity.to_vec()).with_ops(ops.to_vec())
}

async fn alter(client: &mut Client, version: i16, entries: Vec<EntryData>) -> Vec<i16> {
    let altered = client.call(version, &AlterClientQuotasRequest::default().with_entries(entries)).await;
    for one in &altered.entries {
        assert_eq!(one.error_code == 0, one.error_message.is_none(), "{one:?}");
    }
    altered.entries.iter().map(|one| one.error_code).collect()
}

/// Types and names of the entity, keys and values.
type Described = Vec<(Vec<(String, Option<String>)>, Vec<(String, f64)>)>;

async fn describe(client: &mut Client, version: i16, filter: &[ComponentData], strict: bool) -> Described {
    let request = DescribeClientQuotasRequest::default().with_components(filter.to_vec()).with_strict(strict);
    let described = client.call(version, &request).await;
    assert_eq!(described.error_code, 0);
    let entries = described.entries.unwrap_or_default();
    let entries = entries.iter().map(|entry| {
        let name = |part: &describe_client_quotas_response::EntityData| {
            (part.entity_type.to_string(), part.entity_name.as_ref().map(ToString::to_string))
        };
        let values = entry.values.iter().map(|one| (one.key.to_string(), one.value));
        (entry.entity.iter().map(name).collect(), values.collect())
    });
    entries.collect()
}

#[tokio::test]
async fn quotas_are_set_described_and_taken_away() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    for version in 0..=1 {
        assert!(describe(&mut client, version, &[], false).await.is_empty());
        let entries = vec![
            entry(
                &[part("user", Some("alice"))],
                &[set("producer_byte_rate", 1000.0), set("request_percentage", 12.5)],
            ),
            entry(&[part("user", None), part("client-id", Some("c"))], &[set("consumer_byte_rate", 1.0)]),
        ];
        let only_checked =
            AlterClientQuotasRequest::default().with_entries(entries.clone()).with_validate_only(true);
        let checked = client.call(version, &only_checked).await;
        assert!(checked.entries.iter().all(|one| one.error_code == 0));
        assert!(describe(&mut client, version, &[], false).await.is_empty());

        assert_eq!(alter(&mut client, version, entries).await, [0, 0]);
        let described = describe(&mut client, version, &[], false).await;
        assert_eq!(described.len(), 2);
        let exact = ComponentData::default()
            .with_entity_type(text("user"))
            .with_match_type(EXACT)
            .with_match(Some(text("alice")));
        let alice = describe(&mut client, version, &[exact], true).await;
        let values = vec![("producer_byte_rate".to_owned(), 1000.0), ("request_percentage".to_owned(), 12.5)];
        assert_eq!(alice, [(vec![("user".to_owned(), Some("alice".to_owned()))], values)]);
        let default =
            ComponentData::default().with_entity_type(text("user")).with_match_type(DEFAULT).with_match(None);
        let any_client = ComponentData::default()
            .with_entity_type(text("client-id"))
            .with_match_type(SPECIFIED)
            .with_match(None);
        let default = describe(&mut client, version, &[default, any_client], true).await;
        let names = vec![("user".to_owned(), None), ("client-id".to_owned(), Some("c".to_owned()))];
        assert_eq!(default[0].0, names);

        let gone = |key: &str| set(key, 0.0).with_remove(true);
        let entries = vec![
            entry(
                &[part("user", Some("alice"))],
                &[gone("producer_byte_rate"), gone("request_percentage"), gone("consumer_byte_rate")],
            ),
            entry(&[part("user", None), part("client-id", Some("c"))], &[gone("consumer_byte_rate")]),
        ];
        assert_eq!(alter(&mut client, version, entries).await, [0, 0]);
    }
}

#[tokio::test]
async fn an_entity_with_one_wrong_quota_is_refused_as_a_whole_and_alone() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    let entries = vec![
        entry(&[part("user", Some("a"))], &[set("producer_byte_rate", 1.0), set("consumer_byte_rate", -1.0)]),
        entry(&[part("ip", Some("10.0.0.1"))], &[set("connection_creation_rate", 1.0)]),
        entry(&[part("user", Some("b"))], &[set("producer_byte_rate", 1.0)]),
    ];
    assert_eq!(alter(&mut client, 1, entries).await, [INVALID_REQUEST, INVALID_REQUEST, 0]);
    let described = describe(&mut client, 1, &[], false).await;
    assert_eq!(described.len(), 1);
    let twice =
        ComponentData::default().with_entity_type(text("user")).with_match_type(SPECIFIED).with_match(None);
    let request = DescribeClientQuotasRequest::default().with_components(vec![twice.clone(), twice]);
    let refused = client.call(1, &request).await;
    assert_eq!((refused.error_code, refused.entries), (INVALID_REQUEST, None));
}

async fn limit(client: &mut Client, key: &str, bytes_per_second: f64) {
    let entries = vec![entry(&[part("client-id", Some("test"))], &[set(key, bytes_per_second)])];
    assert_eq!(alter(client, 1, entries).await, [0]);
}

fn monotonic(seams: &Seams) -> Duration {
    let clock: &dyn Clock = seams.clock.as_ref();
    clock.monotonic()
}

#[tokio::test]
async fn who_produces_too_much_is_answered_at_once_and_read_from_later() {
    let gateway = TestGateway::start().await;
    let (mut client, mut other) = (gateway.connect().await, gateway.connect().await);
    client.create_topic("t", 1).await;
    limit(&mut client, "producer_byte_rate", 1000.0).await;
    let seams = Seams::system();
    let began = monotonic(&seams);
    // 10,000 bytes may come at once; 500 more take half a second.
    let request = produce_request("t", 0, batch(&[(1, &[7; 10_400])]));
    let response = client.call(8, &request).await;
    let throttle_time_ms = u64::try_from(response.throttle_time_ms).unwrap();
    assert!((400..600).contains(&throttle_time_ms), "{throttle_time_ms}");
    assert_eq!(single(response).error_code, 0, "a request that is too much is served");
    let muted = client.send(0, &ApiVersionsRequest::default()).await;
    // Others are not held up, also those who share the quota.
    other.call(0, &ApiVersionsRequest::default()).await;
    client.receive::<ApiVersionsRequest>(0, muted).await;
    let waited = monotonic(&seams).saturating_sub(began);
    assert!(waited >= Duration::from_millis(throttle_time_ms), "{waited:?}");
}

#[tokio::test]
async fn who_fetched_too_much_gets_nothing_more_at_once() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let sent = batch(&[(1, &[7; 900])]);
    for _ in 0..4 {
        client.produce("t", 0, sent.clone()).await;
    }
    let size = sent.len();
    // Two batches are as much as may go out at once, for ten seconds.
    limit(&mut client, "consumer_byte_rate", (size / 5 + 1) as f64).await;
    let seams = Seams::system();
    let began = monotonic(&seams);
    let request = |epoch, id| {
        let mut request = fetch_request("t", 0, Fetch::from(i64::from(epoch) * 2));
        (request.session_epoch, request.session_id) = (epoch, id);
        request
    };
    let first = client.call::<FetchRequest>(11, &request(0, 0)).await;
    assert_eq!((first.throttle_time_ms, first.responses.len()), (0, 1));
    let records = fetched(first.clone()).records.unwrap();
    assert_eq!(records.len(), 2 * size);
    let session = first.session_id;
    assert_ne!(session, 0);

    let again = client.call::<FetchRequest>(11, &request(1, session)).await;
    assert!(again.throttle_time_ms > 5_000, "{again:?}");
    assert_eq!(fetched(again).records.unwrap().len(), 2 * size, "what is too much counts, and comes");
    // A connection of its own, which is not muted yet.
    let mut other = gateway.connect().await;
    let beyond = other.call::<FetchRequest>(11, &request(2, session)).await;
    assert!(beyond.throttle_time_ms > 5_000, "{beyond:?}");
    assert_eq!((beyond.error_code, beyond.responses.len()), (0, 0));
    assert_eq!(beyond.session_id, session, "the session stays");
    let waited = monotonic(&seams).saturating_sub(began);
    assert!(waited < Duration::from_secs(5), "nothing but the next request waits: {waited:?}");
}

#[tokio::test]
async fn a_batch_larger_than_the_quota_of_ten_seconds_goes_out_all_the_same() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    let sent = batch(&[(1, &[7; 5000])]);
    client.produce("t", 0, sent.clone()).await;
    limit(&mut client, "consumer_byte_rate", 100.0).await;
    let answered = client.call::<FetchRequest>(11, &fetch_request("t", 0, Fetch::from(0))).await;
    assert!(answered.throttle_time_ms > 40_000, "{answered:?}");
    assert_eq!(fetched(answered).records.unwrap().len(), sent.len());
}

#[tokio::test]
async fn a_gateway_stops_while_a_client_is_throttled() {
    let gateway = TestGateway::start().await;
    let mut client = gateway.connect().await;
    client.create_topic("t", 1).await;
    limit(&mut client, "producer_byte_rate", 1.0).await;
    let response =
        client.call::<ProduceRequest>(8, &produce_request("t", 0, batch(&[(1, &[7; 1000])]))).await;
    assert!(response.throttle_time_ms > 100_000);
    client.send(0, &ApiVersionsRequest::default()).await;
    gateway.stop().await;
    client.assert_closed().await;
}
