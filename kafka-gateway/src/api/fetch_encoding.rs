//! The answer to Fetch as bytes. Pure.
//!
//! It is encoded here and not by the message codec, because that copies every batch: here the parts
//! of the body refer to the batches as the log gave them out. A test decodes with the codec.

use bytes::{BufMut, Bytes, BytesMut};
use strandline_storage::ids::TopicId;
use strandline_storage::log::{AbortedTransaction, Bounds, Isolation};

use super::Body;
use crate::context::TopicKey;
use crate::error_code::NONE;
use crate::fetch_session::{Content, Observed};

const FLEXIBLE_SINCE: i16 = 12;
const SESSIONS_SINCE: i16 = 7;
const LOG_START_OFFSET_SINCE: i16 = 5;
const READ_REPLICA_SINCE: i16 = 11;
const NO_READ_REPLICA: i32 = -1;
const UNKNOWN_OFFSET: i64 = -1;
const DIVERGING_EPOCH_TAG: u32 = 0;
/// The diverging epoch as a tagged field: epoch, end offset, no tags of its own.
const DIVERGING_EPOCH_BYTES: u32 = 13;
/// A batch up to this size is copied, because a part of its own would cost more.
const COPIED_BYTES_MAX: usize = 1024;

/// What a Fetch is answered.
#[derive(Default)]
pub(super) struct FetchAnswer<'a> {
    pub(super) throttle_time_ms: i32,
    pub(super) error_code: i16,
    pub(super) session_id: i32,
    /// Partitions of one topic that follow each other share an entry.
    pub(super) partitions: Vec<(&'a TopicKey, PartitionAnswer)>,
}

pub(super) struct PartitionAnswer {
    partition: i32,
    /// The topic that was found; not part of the answer.
    pub(super) topic_id: Option<TopicId>,
    error_code: i16,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    /// `None` is null on the wire.
    aborted: Option<Vec<AbortedTransaction>>,
    pub(super) diverging: Option<(i32, i64)>,
    pub(super) batches: Vec<Bytes>,
}

impl PartitionAnswer {
    pub(super) fn new(partition: i32, bounds: Bounds) -> Self {
        Self {
            partition,
            topic_id: None,
            error_code: NONE,
            high_watermark: bounds.high_watermark,
            last_stable_offset: bounds.last_stable_offset,
            log_start_offset: bounds.log_start_offset,
            aborted: None,
            diverging: None,
            batches: Vec::new(),
        }
    }

    pub(super) fn error(partition: i32, error_code: i16) -> Self {
        Self {
            partition,
            topic_id: None,
            error_code,
            high_watermark: UNKNOWN_OFFSET,
            last_stable_offset: UNKNOWN_OFFSET,
            log_start_offset: UNKNOWN_OFFSET,
            aborted: None,
            diverging: None,
            batches: Vec::new(),
        }
    }

    /// The list of aborted transactions is given to readers of committed records only.
    pub(super) fn with_isolation(mut self, isolation: Isolation, aborted: Vec<AbortedTransaction>) -> Self {
        self.aborted = (isolation == Isolation::ReadCommitted).then_some(aborted);
        self
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.batches.iter().map(Bytes::len).sum()
    }

    /// Whether it has something that is not to be waited with.
    pub(super) fn has_problem(&self) -> bool {
        self.error_code != NONE || self.diverging.is_some()
    }

    /// What a session has to know of it.
    pub(super) fn observed(&self) -> Observed {
        let content = match self.has_problem() {
            true => Content::Problem,
            false if self.batches.is_empty() => Content::Bounds,
            false => Content::Records,
        };
        Observed {
            topic_id: self.topic_id,
            high_watermark: self.high_watermark,
            log_start_offset: self.log_start_offset,
            content,
        }
    }
}

/// Encodes an answer in one of the versions that are served.
pub(super) fn encode(answer: FetchAnswer<'_>, version: i16) -> Body {
    let mut encoder = Encoder { version, pending: BytesMut::new(), body: Body::default() };
    encoder.answer(answer);
    encoder.flush();
    encoder.body
}

struct Encoder {
    version: i16,
    /// Bytes since the last part.
    pending: BytesMut,
    body: Body,
}

impl Encoder {
    fn is_flexible(&self) -> bool {
        self.version >= FLEXIBLE_SINCE
    }

    fn flush(&mut self) {
        self.body.push(self.pending.split().freeze());
    }

    fn answer(&mut self, answer: FetchAnswer<'_>) {
        self.pending.put_i32(answer.throttle_time_ms);
        if self.version >= SESSIONS_SINCE {
            self.pending.put_i16(answer.error_code);
            self.pending.put_i32(answer.session_id);
        }
        let partitions = answer.partitions;
        let lengths: Vec<_> = partitions.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).collect();
        let mut partitions = partitions.into_iter().peekable();
        self.array_length(lengths.len());
        for length in lengths {
            if let Some((topic, _)) = partitions.peek() {
                self.topic(topic);
            }
            self.array_length(length);
            for (_, partition) in partitions.by_ref().take(length) {
                self.partition(partition);
            }
            self.no_tags();
        }
        self.no_tags();
    }

    /// The request of the same version named it in the same way.
    fn topic(&mut self, topic: &TopicKey) {
        match topic {
            TopicKey::Name(name) => self.string(name),
            TopicKey::Id(id) => self.pending.put_slice(id.as_bytes()),
        }
    }

    fn partition(&mut self, answer: PartitionAnswer) {
        self.pending.put_i32(answer.partition);
        self.pending.put_i16(answer.error_code);
        self.pending.put_i64(answer.high_watermark);
        self.pending.put_i64(answer.last_stable_offset);
        if self.version >= LOG_START_OFFSET_SINCE {
            self.pending.put_i64(answer.log_start_offset);
        }
        self.aborted(answer.aborted.as_deref());
        if self.version >= READ_REPLICA_SINCE {
            self.pending.put_i32(NO_READ_REPLICA);
        }
        self.records(answer.batches);
        match answer.diverging {
            Some(diverging) if self.is_flexible() => self.diverging(diverging),
            _ => self.no_tags(),
        }
    }

    fn aborted(&mut self, aborted: Option<&[AbortedTransaction]>) {
        let Some(aborted) = aborted else {
            return self.null_array();
        };
        self.array_length(aborted.len());
        for transaction in aborted {
            self.pending.put_i64(transaction.producer_id);
            self.pending.put_i64(transaction.first_offset);
            self.no_tags();
        }
    }

    /// Never null: librdkafka takes null records for a broken answer.
    fn records(&mut self, batches: Vec<Bytes>) {
        let bytes = batches.iter().map(Bytes::len).sum();
        self.array_length(bytes);
        for batch in batches {
            if batch.len() <= COPIED_BYTES_MAX {
                self.pending.put_slice(&batch);
            } else {
                self.flush();
                self.body.push(batch);
            }
        }
    }

    fn diverging(&mut self, (epoch, end_offset): (i32, i64)) {
        put_varint(&mut self.pending, 1);
        put_varint(&mut self.pending, DIVERGING_EPOCH_TAG);
        put_varint(&mut self.pending, DIVERGING_EPOCH_BYTES);
        self.pending.put_i32(epoch);
        self.pending.put_i64(end_offset);
        self.no_tags();
    }

    /// The length of an array or of bytes: both are written alike.
    fn array_length(&mut self, length: usize) {
        let length = u32::try_from(length).expect("answers are bounded far below 2 GiB");
        if self.is_flexible() {
            put_varint(&mut self.pending, length + 1);
        } else {
            self.pending.put_u32(length);
        }
    }

    fn null_array(&mut self) {
        if self.is_flexible() {
            put_varint(&mut self.pending, 0);
        } else {
            self.pending.put_i32(-1);
        }
    }

    fn string(&mut self, text: &str) {
        let length = u32::try_from(text.len()).expect("the request held the same text");
        if self.is_flexible() {
            put_varint(&mut self.pending, length + 1);
        } else {
            self.pending.put_u16(u16::try_from(length).expect("the request held the same text"));
        }
        self.pending.put_slice(text.as_bytes());
    }

    fn no_tags(&mut self) {
        if self.is_flexible() {
            put_varint(&mut self.pending, 0);
        }
    }
}

fn put_varint(bytes: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        bytes.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.put_u8(value as u8);
}

#[cfg(test)]
mod tests {
    use bytes::Buf;
    use kafka_protocol::messages::{FetchResponse, TopicName};
    use kafka_protocol::protocol::{Decodable, StrBytes};
    use uuid::Uuid;

    use super::super::fetch_request::naming;
    use super::*;
    use crate::fetch_session::Naming;

    fn bounds() -> Bounds {
        Bounds {
            log_start_offset: 3,
            last_stable_offset: 90,
            high_watermark: 100,
            log_end_offset: 100,
            leader_epoch: 0,
        }
    }

    fn key(version: i16) -> TopicKey {
        match naming(version) {
            Naming::Names => TopicKey::Name(TopicName(StrBytes::from_static_str("topic"))),
            Naming::Ids => TopicKey::Id(Uuid::from_u128(77)),
        }
    }

    fn answer<'a>(topic: &'a TopicKey, partitions: Vec<PartitionAnswer>) -> FetchAnswer<'a> {
        let partitions = partitions.into_iter().map(|one| (topic, one)).collect();
        FetchAnswer { throttle_time_ms: 40, error_code: NONE, session_id: 5, partitions }
    }

    fn three_partitions() -> Vec<PartitionAnswer> {
        let mut full = PartitionAnswer::new(7, bounds());
        full.batches = vec![Bytes::from(vec![1; 10]), Bytes::from(vec![2; 5000]), Bytes::from(vec![3; 100])];
        let full = full.with_isolation(
            Isolation::ReadCommitted,
            vec![AbortedTransaction { producer_id: 5, first_offset: 6 }],
        );
        let empty = PartitionAnswer::new(8, bounds()).with_isolation(Isolation::ReadUncommitted, Vec::new());
        vec![full, empty, PartitionAnswer::error(9, 1)]
    }

    fn decode(body: Body, version: i16) -> FetchResponse {
        let mut bytes = Bytes::from(body.parts.into_iter().flatten().collect::<Vec<u8>>());
        let response = FetchResponse::decode(&mut bytes, version).unwrap();
        assert!(!bytes.has_remaining(), "version {version}");
        response
    }

    #[test]
    fn the_codec_reads_every_version() {
        for version in 4..=18 {
            let key = key(version);
            let response = decode(encode(answer(&key, three_partitions()), version), version);
            let [topic] = &response.responses[..] else { panic!("one entry: {response:?}") };
            assert_eq!(response.session_id, if version >= 7 { 5 } else { 0 });
            assert_eq!(response.throttle_time_ms, 40);
            match key {
                TopicKey::Name(name) => assert_eq!(topic.topic, name),
                TopicKey::Id(id) => assert_eq!(topic.topic_id, id),
            }
            let [full, empty, failed] = &topic.partitions[..] else { panic!("three partitions") };
            assert_eq!((full.partition_index, full.high_watermark, full.last_stable_offset), (7, 100, 90));
            assert_eq!(full.log_start_offset, if version >= 5 { 3 } else { -1 });
            let aborted = full.aborted_transactions.as_ref().unwrap();
            assert_eq!((aborted[0].producer_id.0, aborted[0].first_offset), (5, 6));
            let records = full.records.as_ref().unwrap();
            assert_eq!((records.len(), records[9], records[10], records[5109]), (5110, 1, 2, 3));
            assert_eq!((&empty.aborted_transactions, empty.records.as_deref()), (&None, Some(&b""[..])));
            assert_eq!((failed.error_code, failed.high_watermark), (1, -1));
        }
    }

    #[test]
    fn large_batches_are_not_copied() {
        let batch = Bytes::from(vec![2; 5000]);
        let mut partition = PartitionAnswer::new(0, bounds());
        partition.batches = vec![batch.clone()];
        let body = encode(answer(&key(12), vec![partition]), 12);
        assert!(body.parts.iter().any(|part| part.as_ptr() == batch.as_ptr()));
    }

    #[test]
    fn a_diverging_epoch_is_a_tagged_field() {
        let mut partition = PartitionAnswer::new(0, bounds());
        partition.diverging = Some((2, 30));
        let response = decode(encode(answer(&key(12), vec![partition]), 12), 12);
        let diverging = &response.responses[0].partitions[0].diverging_epoch;
        assert_eq!((diverging.epoch, diverging.end_offset), (2, 30));
    }
}
