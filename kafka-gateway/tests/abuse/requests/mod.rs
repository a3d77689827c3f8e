//! A valid request of every API in every version that is served, and streams of them: what the corpus of the fuzz
//! target is made of.

mod cluster;
mod groups;
mod records;
mod streams;
mod topics;
mod transactions;

use bytes::Bytes;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};
use uuid::Uuid;

pub(crate) use self::streams::{Api, Stream, streams};
use crate::target;

/// What a request needs besides its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// Of [`target::TOPIC`].
    pub(crate) topic_id: Uuid,
}

impl Asked {
    fn frame<R: Request + Encodable + HeaderVersion>(self, request: R) -> Bytes {
        target::frame(self.version, self.correlation_id, &request)
    }

    /// The value for a field that versions from this one on have; before, what the codec wants there.
    fn since<T: Default>(self, version: i16, value: T) -> T {
        if self.version >= version { value } else { T::default() }
    }
}

/// A request of an API in its frame. `None`: there is no such request here.
pub(crate) fn frame(api: ApiKey, asked: Asked) -> Option<Bytes> {
    let areas = [records::frame, topics::frame, groups::frame, transactions::frame, cluster::frame];
    areas.into_iter().find_map(|area| area(api, asked))
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn topic_name() -> TopicName {
    TopicName(text(target::TOPIC))
}

fn group_id() -> GroupId {
    GroupId(text("g"))
}

fn transactional_id() -> TransactionalId {
    TransactionalId(text("x"))
}
