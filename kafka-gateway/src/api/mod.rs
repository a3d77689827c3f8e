//! The APIs that are served: one table of keys, versions, request shapes and handlers, and the way
//! from a request's bytes to its answer's bytes.
//!
//! Invariant: what ApiVersions advertises is this table and nothing else.

mod access_change;
mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod api_versions;
mod client_quotas;
mod config_resource;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod describe_transactions;
mod elect_leaders;
mod end_txn;
mod fetch;
mod fetch_encoding;
mod fetch_request;
mod find_coordinator;
mod group_requests;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod partition_reassignments;
mod produce;
pub(crate) mod sasl;
mod sync_group;
mod table;
mod txn_offset_commit;
mod user_scram_credentials;
mod write_txn_markers;

use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::{Decodable, Encodable};
use thiserror::Error;

pub(crate) use self::api_versions::unsupported_version_answer;
pub(crate) use self::table::{TABLE, find};
use crate::context::Context;
use crate::frame::answer_head;
use crate::guard::shape::Field;
use crate::guard::{self, Encoding, MalformedRequest};
use crate::memory::Memory;

/// What an array element takes, about, in a request that was decoded and in what is made of it.
const ELEMENT_BYTES: usize = 200;

/// One API that is served.
pub(crate) struct Api {
    pub(crate) key: ApiKey,
    /// The name in logs and metrics.
    pub(crate) name: &'static str,
    /// Inclusive.
    pub(crate) version_min: i16,
    /// Inclusive.
    pub(crate) version_max: i16,
    /// The lowest version that ApiVersions names; lower ones than `version_min` are refused anyway.
    pub(crate) advertised_min: i16,
    pub(crate) shape: &'static [Field],
    pub(crate) turn: Turn,
    /// For bodies that were checked.
    pub(crate) begin: fn(Context, Bytes) -> Begin,
}

impl Api {
    pub(crate) fn request_encoding(&self, version: i16) -> Encoding {
        if self.key.request_header_version(version) >= 2 { Encoding::Flexible } else { Encoding::Classic }
    }

    pub(crate) fn answer_header_encoding(&self, version: i16) -> Encoding {
        if self.key.response_header_version(version) >= 1 { Encoding::Flexible } else { Encoding::Classic }
    }

    /// Checks the shape of a request's body, and says what it takes in memory when it is decoded, beside the body.
    pub(crate) fn check(&self, version: i16, body: &[u8]) -> Result<usize, MalformedRequest> {
        let elements = guard::check(self.shape, version, self.request_encoding(version), body)?;
        Ok(elements * ELEMENT_BYTES)
    }
}

/// Which requests of one connection wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Runs beside all others.
    Any,
    /// Begins when the one before it of its kind is answered: their order has meaning.
    Group,
    /// The same, so that a connection holds one large answer at a time.
    Fetch,
    /// The same, for what is answered with much more than was asked.
    Describe,
}

/// The first part of a request, which ends before the next request of the connection begins, and
/// gives the second part, which runs beside others.
pub(crate) type Begin = BoxFuture<'static, Result<Running, RequestError>>;

/// The second part of a request.
pub(crate) type Running = BoxFuture<'static, Result<Answer, RequestError>>;

/// Why a request ends its connection.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    #[error("request does not decode: {0}")]
    Undecodable(String),
    #[error("answer does not encode: {0}")]
    Unencodable(String),
    /// With acks=0 there is no other way to tell the client.
    #[error("unacknowledged produce failed: {0}")]
    UnacknowledgedProduce(String),
}

/// The bytes of an answer, without the head of its frame.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// `None`: the client expects no answer.
    pub(crate) body: Option<Body>,
    /// Given back as the answer is written.
    pub(crate) memory: Option<Memory>,
}

/// The parts of an answer's body, so that batches need not be copied into one buffer.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) parts: VecDeque<Bytes>,
}

impl Body {
    pub(crate) fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.parts.push_back(part);
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// Puts the frame's head before the body. `None`: it is too large for a frame.
    pub(crate) fn into_frame(mut self, correlation_id: i32, encoding: Encoding) -> Option<Self> {
        let head = answer_head(correlation_id, encoding, self.size_bytes())?;
        self.parts.push_front(head.freeze());
        Some(self)
    }
}

/// Decodes a request and answers it beside all others of its connection.
fn answer_with<Request, Response, Handler, Handled>(context: Context, body: Bytes, handler: Handler) -> Begin
where
    Request: Decodable + Send + 'static,
    Response: Encodable,
    Handler: FnOnce(Context, Request) -> Handled + Send + 'static,
    Handled: Future<Output = Response> + Send + 'static,
{
    let version = context.version;
    let begun = decode::<Request>(body, version).map(|request| {
        let handled = handler(context, request);
        async move { encode(&handled.await, version) }.boxed()
    });
    ready(begun).boxed()
}

/// The first mention of each: what is named a million times in a small request would otherwise be described a
/// million times.
fn once_each<T: Clone + Ord>(named: Vec<T>) -> impl Iterator<Item = T> {
    let mut seen = BTreeSet::new();
    named.into_iter().filter(move |one| seen.insert(one.clone()))
}

impl Buf for Body {
    fn remaining(&self) -> usize {
        self.size_bytes()
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&[], |part| part)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pairs = slices.iter_mut().zip(&self.parts);
        pairs.map(|(slice, part)| *slice = IoSlice::new(part)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(part) = self.parts.front_mut().filter(|_| count > 0) {
            let taken = count.min(part.len());
            part.advance(taken);
            count -= taken;
            if part.is_empty() {
                self.parts.pop_front();
            }
        }
        assert_eq!(count, 0, "no more is taken than there is");
    }
}

pub(crate) fn decode<Request: Decodable>(mut body: Bytes, version: i16) -> Result<Request, RequestError> {
    Request::decode(&mut body, version).map_err(|error| RequestError::Undecodable(error.to_string()))
}

fn encode<Response: Encodable>(response: &Response, version: i16) -> Result<Answer, RequestError> {
    let mut bytes = BytesMut::new();
    response.encode(&mut bytes, version).map_err(|error| RequestError::Unencodable(error.to_string()))?;
    let mut body = Body::default();
    body.push(bytes.freeze());
    Ok(Answer { body: Some(body), memory: None })
}
