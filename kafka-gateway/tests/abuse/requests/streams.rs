//! What clients send one after the other: every API in every version, and what is a conversation.

use std::ops::RangeInclusive;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use strandline_storage::format::{BatchBuilder, BatchKind, BatchOptions, ProducerIdentity};
use uuid::Uuid;

use super::{Asked, cluster, frame, groups, records, text, transactional_id, transactions};
use crate::target::Way;

/// An API as it is advertised.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) key: ApiKey,
    pub(crate) versions: RangeInclusive<i16>,
}

/// An input of the fuzz target whose requests are all valid.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) way: Way,
    /// With their lengths.
    frames: Vec<Bytes>,
    /// Of the requests, in their order.
    pub(crate) correlation_ids: Vec<i32>,
}

impl Stream {
    fn new(name: &str, way: Way, frames: Vec<Bytes>) -> Self {
        let correlation_ids = frames.iter().map(|frame| frame.slice(8..12).get_i32()).collect();
        Self { name: name.to_owned(), way, frames, correlation_ids }
    }

    pub(crate) fn input(&self) -> Vec<u8> {
        let way = Way::ALL.iter().position(|way| *way == self.way).expect("there are no other ways");
        let way = vec![u8::try_from(way).expect("there are few ways")];
        [way, self.frames.concat()].concat()
    }
}

/// All streams; `apis` is what is served, and `topic_id` the topic's.
pub(crate) fn streams(apis: &[Api], topic_id: Uuid) -> Vec<Stream> {
    let asked = |version, correlation_id| Asked { version, correlation_id, topic_id };
    let mut streams: Vec<_> = apis
        .iter()
        .map(|api| {
            let frames = api.versions.clone().zip(1..).map(|(version, correlation_id)| {
                let request = frame(api.key, asked(version, correlation_id));
                request.unwrap_or_else(|| panic!("{:?} is served, and no request of it is here", api.key))
            });
            Stream::new(&format!("{:?}", api.key).to_lowercase(), Way::Open, frames.collect())
        })
        .collect();
    streams.extend([login(topic_id), login_by_token(topic_id), transaction(topic_id), members(topic_id)]);
    streams
}

/// The requests of APIs in these versions, one after the other.
fn in_turn(topic_id: Uuid, requests: &[(ApiKey, i16)]) -> Vec<Bytes> {
    let frames = requests.iter().zip(1..).map(|((key, version), correlation_id)| {
        let request = frame(*key, Asked { version: *version, correlation_id, topic_id });
        request.expect("every API has a request")
    });
    frames.collect()
}

/// Twice: the second time a session is renewed.
fn login(topic_id: Uuid) -> Stream {
    let requests = [
        (ApiKey::ApiVersions, 3),
        (ApiKey::SaslHandshake, 1),
        (ApiKey::SaslAuthenticate, 0),
        (ApiKey::Metadata, 9),
        (ApiKey::SaslHandshake, 1),
        (ApiKey::SaslAuthenticate, 2),
        (ApiKey::Fetch, 11),
    ];
    Stream::new("login", Way::Stranger, in_turn(topic_id, &requests))
}

fn login_by_token(topic_id: Uuid) -> Stream {
    let requests = in_turn(topic_id, &[(ApiKey::SaslHandshake, 0), (ApiKey::Metadata, 9)]);
    let mut stream = Stream::new("login-by-token", Way::Stranger, requests);
    let token = cluster::token();
    let mut framed = BytesMut::new();
    framed.put_u32(u32::try_from(token.len()).expect("a token is short"));
    framed.put_slice(&token);
    stream.frames.insert(1, framed.freeze());
    stream
}

fn transaction(topic_id: Uuid) -> Stream {
    let requests = [
        (ApiKey::InitProducerId, 4),
        (ApiKey::AddPartitionsToTxn, 3),
        (ApiKey::AddOffsetsToTxn, 3),
        (ApiKey::TxnOffsetCommit, 3),
        (ApiKey::DescribeTransactions, 0),
        (ApiKey::EndTxn, 3),
    ];
    let mut frames = in_turn(topic_id, &requests);
    let producer =
        ProducerIdentity { producer_id: transactions::PRODUCER_ID, producer_epoch: 0, base_sequence: 0 };
    let options =
        BatchOptions { producer: Some(producer), kind: BatchKind::Transactional, ..Default::default() };
    let mut builder = BatchBuilder::new(options);
    builder.append(Some(1), None, Some(b"v"), &[]).expect("it is small");
    let asked = Asked { version: 9, correlation_id: 100, topic_id };
    let produce = records::produce(asked, Some(transactional_id()), builder.finish());
    frames.insert(2, asked.frame(produce));
    Stream::new("transaction", Way::LoggedIn, frames)
}

/// Of a group of the consumer protocol.
fn members(topic_id: Uuid) -> Stream {
    let epochs = [0, 1, 1, -1];
    let frames = epochs.into_iter().zip(1..).map(|(epoch, correlation_id)| {
        let asked = Asked { version: 1, correlation_id, topic_id };
        asked.frame(groups::heartbeat(asked, epoch).with_rack_id(Some(text("r"))))
    });
    Stream::new("members", Way::Open, frames.collect())
}
