//! Bad input closes its own connection, and changes and harms nothing else.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::{ApiKey, ProduceRequest, RequestHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion};
use strandline_kafka_gateway::GatewaySettings;
use tokio::io::AsyncWriteExt;

use crate::support::*;

/// A gateway with one good connection and a topic with one record.
struct Scene {
    gateway: TestGateway,
    good: Client,
}

impl Scene {
    async fn new() -> Self {
        let gateway = TestGateway::start().await;
        let mut good = gateway.connect().await;
        good.create_topic("t", 1).await;
        good.produce("t", 0, batch(&[(1, b"a")])).await;
        Self { gateway, good }
    }

    /// Sends a frame that must close its connection and leave the rest as it was.
    async fn refuses(&mut self, frame: &[u8]) {
        let mut bad = self.gateway.connect().await;
        bad.send_frame(frame).await;
        bad.assert_closed().await;
        self.is_unharmed().await;
    }

    async fn is_unharmed(&mut self) {
        let partition = self.good.fetch("t", 0, Fetch::from(0)).await;
        assert_eq!((partition.error_code, partition.high_watermark), (0, 1));
    }
}

fn produce_frame(version: i16) -> BytesMut {
    let header = RequestHeader::default()
        .with_request_api_key(key(ApiKey::Produce))
        .with_request_api_version(version)
        .with_correlation_id(1);
    let mut frame = BytesMut::new();
    header.encode(&mut frame, ProduceRequest::header_version(version)).unwrap();
    produce_request("t", 0, batch(&[(1, b"b")])).encode(&mut frame, version).unwrap();
    frame
}

#[tokio::test]
async fn frame_lengths_out_of_bounds_close_the_connection() {
    let mut scene = Scene::new().await;
    for length in [-1, i32::MIN, i32::MAX, 100 * 1024 * 1024 + 1] {
        let mut bad = scene.gateway.connect().await;
        bad.socket.write_all(&length.to_be_bytes()).await.unwrap();
        bad.assert_closed().await;
        scene.is_unharmed().await;
    }
}

#[tokio::test]
async fn counts_that_lie_close_the_connection() {
    let mut scene = Scene::new().await;
    let mut classic = bare_head(key(ApiKey::Metadata), 1);
    classic.put_i32(i32::MAX);
    scene.refuses(&classic).await;
    let mut flexible = bare_head(key(ApiKey::Metadata), 9);
    flexible.put_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    scene.refuses(&flexible).await;
    let mut negative = bare_head(key(ApiKey::ListOffsets), 1);
    negative.put_i32(-1);
    negative.put_i32(-7);
    scene.refuses(&negative).await;
}

#[tokio::test]
async fn a_request_cut_at_any_byte_closes_the_connection_and_stores_nothing() {
    let mut scene = Scene::new().await;
    for version in [8, 9] {
        let frame = produce_frame(version);
        for end in 0..frame.len() {
            let mut bad = scene.gateway.connect().await;
            bad.send_frame(&frame[..end]).await;
            bad.assert_closed().await;
        }
        scene.is_unharmed().await;
    }
}

#[tokio::test]
async fn a_frame_that_ends_with_its_connection_stores_nothing() {
    let mut scene = Scene::new().await;
    let frame = produce_frame(8);
    let mut bad = scene.gateway.connect().await;
    bad.socket.write_u32(u32::try_from(frame.len()).unwrap()).await.unwrap();
    bad.socket.write_all(&frame[..frame.len() - 1]).await.unwrap();
    bad.socket.shutdown().await.unwrap();
    bad.assert_closed().await;
    scene.is_unharmed().await;
}

#[tokio::test]
async fn announced_bytes_take_no_memory_from_others() {
    let settings = GatewaySettings { request_bytes_max: 1_000_000, ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let mut good = gateway.connect().await;
    good.create_topic("t", 1).await;
    let mut announcing = Vec::new();
    for _ in 0..3 {
        let mut bad = gateway.connect().await;
        bad.socket.write_u32(100_000_000).await.unwrap();
        bad.socket.write_all(&[0; 1000]).await.unwrap();
        announcing.push(bad);
    }
    let appended = good.produce("t", 0, batch(&[(1, &vec![7; 900_000])])).await;
    assert_eq!((appended.error_code, appended.base_offset), (0, 0));
}

#[tokio::test]
async fn a_large_request_that_stalls_gives_its_memory_to_others() {
    let settings = GatewaySettings {
        request_bytes_max: 200_000,
        contended_timeout: Duration::from_millis(100),
        ..settings()
    };
    let gateway = TestGateway::start_with(settings).await;
    let mut good = gateway.connect().await;
    good.create_topic("t", 1).await;
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let mut bad = gateway.connect().await;
        bad.socket.write_u32(100_000_000).await.unwrap();
        bad.socket.write_all(&[0; 400_000]).await.unwrap();
        stalled.push(bad);
    }
    let appended = good.produce("t", 0, batch(&[(1, &vec![7; 900_000])])).await;
    assert_eq!(appended.error_code, 0);
}

#[tokio::test]
async fn unknown_keys_and_versions_close_the_connection() {
    let mut scene = Scene::new().await;
    let cases = [
        (999, 0),
        (-1, 0),
        (key(ApiKey::Produce), 2),
        (key(ApiKey::Produce), 13),
        (key(ApiKey::Fetch), 13),
        (key(ApiKey::Metadata), -1),
        (key(ApiKey::JoinGroup), 5),
        (key(ApiKey::SaslHandshake), 2),
    ];
    for (key, version) in cases {
        scene.refuses(&bare_head(key, version)).await;
    }
}

#[tokio::test]
async fn text_that_is_not_utf_8_closes_the_connection() {
    let mut scene = Scene::new().await;
    let mut frame = bare_head(key(ApiKey::Metadata), 1);
    frame.put_i32(1);
    frame.put_i16(2);
    frame.put_slice(&[0xff, 0xfe]);
    scene.refuses(&frame).await;
}

#[tokio::test]
async fn what_was_asked_before_is_answered_before_the_connection_closes() {
    let scene = Scene::new().await;
    let mut client = scene.gateway.connect().await;
    let first = client.send(8, &produce_request("t", 0, batch(&[(1, b"b")]))).await;
    client.send_frame(&bare_head(999, 0)).await;
    let answered = single(client.receive::<ProduceRequest>(8, first).await);
    assert_eq!(answered.base_offset, 1);
    client.assert_closed().await;
}

#[tokio::test]
async fn one_connection_too_many_is_closed() {
    let settings = GatewaySettings { connections_max: 1, ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let mut first = gateway.connect().await;
    first.create_topic("t", 1).await;
    gateway.connect().await.assert_closed().await;
    first.create_topic("u", 1).await;
}

/// Nothing of a peer that has gone without a word shows but its silence.
#[tokio::test]
async fn connections_that_fall_silent_are_closed_wherever_they_are() {
    let silence = Duration::from_millis(300);
    let settings = GatewaySettings { idle_timeout: silence, stall_timeout: silence, ..settings() };
    let gateway = TestGateway::start_with(settings).await;
    let mut silent = Vec::new();
    for said in [&[][..], &[0, 0], &[0, 0, 0, 9], &[0, 0, 0, 9, 0, 3]].repeat(25) {
        let mut client = gateway.connect().await;
        client.socket.write_all(said).await.unwrap();
        silent.push(client);
    }
    for client in &mut silent {
        client.assert_closed().await;
    }
}
