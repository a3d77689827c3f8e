//! Holds the shapes against the message codec: what a shape describes, the codec reads to the last
//! byte and writes again alike.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable};
use proptest::prelude::*;
use strandline_storage::seam::{Rng, SeededRng};

use super::shape::{Element, Field, Kind};
use super::{ELEMENTS_MAX, Encoding, MalformedRequest, check};
use crate::api::{Api, TABLE};

/// Writes random requests of a shape.
struct Generator {
    rng: SeededRng,
    version: i16,
    encoding: Encoding,
    body: BytesMut,
}

impl Generator {
    fn request(api: &Api, version: i16, seed: u64) -> Bytes {
        let encoding = api.request_encoding(version);
        let mut generator = Self { rng: SeededRng::new(seed), version, encoding, body: BytesMut::new() };
        generator.fields(api.shape);
        generator.body.freeze()
    }

    fn below(&mut self, end: usize) -> usize {
        let mut bytes = [0; 4];
        self.rng.fill(&mut bytes);
        u32::from_le_bytes(bytes) as usize % end
    }

    fn fields(&mut self, fields: &[Field]) {
        for field in fields {
            if (field.from..=field.to).contains(&self.version) {
                self.field(&field.kind);
            }
        }
        if self.encoding == Encoding::Flexible {
            let tags = self.below(3);
            self.varint(tags);
            for tag in 0..tags {
                self.varint(100 + tag);
                let size = self.below(200);
                self.varint(size);
                self.bytes(size);
            }
        }
    }

    fn field(&mut self, kind: &Kind) {
        let is_null = self.below(4) == 0;
        match kind {
            Kind::Bool => {
                let value = self.below(2) as u8;
                self.body.put_u8(value);
            }
            Kind::Fixed(size) => self.bytes(*size),
            Kind::NullableString if is_null => self.length(None, 2),
            Kind::NullableBytes | Kind::NullableArray(_) if is_null => self.length(None, 4),
            Kind::String | Kind::NullableString => {
                let size = self.below(200);
                self.length(Some(size), 2);
                self.body.put_bytes(b'x', size);
            }
            Kind::NullableStruct(_) if is_null => self.body.put_i8(-1),
            Kind::NullableStruct(fields) => {
                self.body.put_i8(1);
                self.fields(fields);
            }
            Kind::Bytes | Kind::NullableBytes => {
                let size = self.below(200);
                self.length(Some(size), 4);
                self.bytes(size);
            }
            Kind::Array(element) | Kind::NullableArray(element) => {
                let count = self.below(4);
                self.length(Some(count), 4);
                for _ in 0..count {
                    match element {
                        Element::Scalar(kind) => self.field(kind),
                        Element::Struct(fields) => self.fields(fields),
                    }
                }
            }
        }
    }

    fn bytes(&mut self, size: usize) {
        let mut bytes = vec![0; size];
        self.rng.fill(&mut bytes);
        self.body.put_slice(&bytes);
    }

    fn length(&mut self, length: Option<usize>, classic_bytes: usize) {
        match (self.encoding, length) {
            (Encoding::Flexible, length) => self.varint(length.map_or(0, |length| length + 1)),
            (Encoding::Classic, length) => {
                let length = length.map_or(-1, |length| length as i64);
                self.body.put_int(length, classic_bytes);
            }
        }
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.body.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.body.put_u8(value as u8);
    }
}

/// What the codec makes of a request: the count of bytes that it leaves unread, and the request
/// written again.
type RoundTrip = Result<(usize, Bytes), String>;

fn round_trip<R: Decodable + Encodable>(mut body: Bytes, version: i16) -> RoundTrip {
    let request = R::decode(&mut body, version).map_err(|error| error.to_string())?;
    let mut again = BytesMut::new();
    request.encode(&mut again, version).map_err(|error| error.to_string())?;
    Ok((body.remaining(), again.freeze()))
}

fn through_codec(key: ApiKey, body: Bytes, version: i16) -> RoundTrip {
    match key {
        ApiKey::Produce => round_trip::<ProduceRequest>(body, version),
        ApiKey::Fetch => round_trip::<FetchRequest>(body, version),
        ApiKey::ListOffsets => round_trip::<ListOffsetsRequest>(body, version),
        ApiKey::Metadata => round_trip::<MetadataRequest>(body, version),
        ApiKey::OffsetCommit => round_trip::<OffsetCommitRequest>(body, version),
        ApiKey::OffsetFetch => round_trip::<OffsetFetchRequest>(body, version),
        ApiKey::FindCoordinator => round_trip::<FindCoordinatorRequest>(body, version),
        ApiKey::JoinGroup => round_trip::<JoinGroupRequest>(body, version),
        ApiKey::Heartbeat => round_trip::<HeartbeatRequest>(body, version),
        ApiKey::LeaveGroup => round_trip::<LeaveGroupRequest>(body, version),
        ApiKey::SyncGroup => round_trip::<SyncGroupRequest>(body, version),
        ApiKey::DescribeGroups => round_trip::<DescribeGroupsRequest>(body, version),
        ApiKey::ListGroups => round_trip::<ListGroupsRequest>(body, version),
        ApiKey::DeleteGroups => round_trip::<DeleteGroupsRequest>(body, version),
        ApiKey::OffsetDelete => round_trip::<OffsetDeleteRequest>(body, version),
        ApiKey::ConsumerGroupHeartbeat => round_trip::<ConsumerGroupHeartbeatRequest>(body, version),
        ApiKey::ConsumerGroupDescribe => round_trip::<ConsumerGroupDescribeRequest>(body, version),
        ApiKey::ApiVersions => round_trip::<ApiVersionsRequest>(body, version),
        ApiKey::SaslHandshake => round_trip::<SaslHandshakeRequest>(body, version),
        ApiKey::SaslAuthenticate => round_trip::<SaslAuthenticateRequest>(body, version),
        ApiKey::CreateTopics => round_trip::<CreateTopicsRequest>(body, version),
        ApiKey::DeleteRecords => round_trip::<DeleteRecordsRequest>(body, version),
        ApiKey::DeleteTopics => round_trip::<DeleteTopicsRequest>(body, version),
        ApiKey::InitProducerId => round_trip::<InitProducerIdRequest>(body, version),
        ApiKey::OffsetForLeaderEpoch => round_trip::<OffsetForLeaderEpochRequest>(body, version),
        ApiKey::DescribeConfigs => round_trip::<DescribeConfigsRequest>(body, version),
        ApiKey::AddPartitionsToTxn => round_trip::<AddPartitionsToTxnRequest>(body, version),
        ApiKey::AddOffsetsToTxn => round_trip::<AddOffsetsToTxnRequest>(body, version),
        ApiKey::EndTxn => round_trip::<EndTxnRequest>(body, version),
        ApiKey::WriteTxnMarkers => round_trip::<WriteTxnMarkersRequest>(body, version),
        ApiKey::TxnOffsetCommit => round_trip::<TxnOffsetCommitRequest>(body, version),
        ApiKey::DescribeTransactions => round_trip::<DescribeTransactionsRequest>(body, version),
        ApiKey::ListTransactions => round_trip::<ListTransactionsRequest>(body, version),
        ApiKey::DescribeCluster => round_trip::<DescribeClusterRequest>(body, version),
        ApiKey::DescribeAcls => round_trip::<DescribeAclsRequest>(body, version),
        ApiKey::CreateAcls => round_trip::<CreateAclsRequest>(body, version),
        ApiKey::DeleteAcls => round_trip::<DeleteAclsRequest>(body, version),
        ApiKey::AlterConfigs => round_trip::<AlterConfigsRequest>(body, version),
        ApiKey::DescribeLogDirs => round_trip::<DescribeLogDirsRequest>(body, version),
        ApiKey::CreatePartitions => round_trip::<CreatePartitionsRequest>(body, version),
        ApiKey::ElectLeaders => round_trip::<ElectLeadersRequest>(body, version),
        ApiKey::IncrementalAlterConfigs => round_trip::<IncrementalAlterConfigsRequest>(body, version),
        ApiKey::AlterPartitionReassignments => {
            round_trip::<AlterPartitionReassignmentsRequest>(body, version)
        }
        ApiKey::ListPartitionReassignments => round_trip::<ListPartitionReassignmentsRequest>(body, version),
        ApiKey::DescribeClientQuotas => round_trip::<DescribeClientQuotasRequest>(body, version),
        ApiKey::AlterClientQuotas => round_trip::<AlterClientQuotasRequest>(body, version),
        ApiKey::DescribeUserScramCredentials => {
            round_trip::<DescribeUserScramCredentialsRequest>(body, version)
        }
        ApiKey::AlterUserScramCredentials => round_trip::<AlterUserScramCredentialsRequest>(body, version),
        ApiKey::DescribeProducers => round_trip::<DescribeProducersRequest>(body, version),
        ApiKey::ListConfigResources => round_trip::<ListConfigResourcesRequest>(body, version),
        ApiKey::DescribeTopicPartitions => round_trip::<DescribeTopicPartitionsRequest>(body, version),
        other => panic!("{other:?} is served and not tested here"),
    }
}

fn every_version() -> impl Iterator<Item = (&'static Api, i16)> {
    TABLE.iter().flat_map(|api| (api.version_min..=api.version_max).map(move |version| (api, version)))
}

fn guard(api: &Api, version: i16, body: &[u8]) -> Result<(), MalformedRequest> {
    check(api.shape, version, api.request_encoding(version), body).map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_codec_reads_and_writes_what_a_shape_describes(seed: u64) {
        for (api, version) in every_version() {
            let body = Generator::request(api, version, seed);
            prop_assert_eq!(guard(api, version, &body), Ok(()), "{} {}", api.name, version);
            let again = through_codec(api.key, body.clone(), version);
            prop_assert_eq!(again, Ok((0, body)), "{} {}", api.name, version);
        }
    }

    #[test]
    fn a_request_that_ends_early_is_refused_at_every_byte(seed: u64) {
        for (api, version) in every_version() {
            let body = Generator::request(api, version, seed);
            for end in (0..body.len()).rev().take(100) {
                prop_assert!(guard(api, version, &body[..end]).is_err(), "{} {}", api.name, version);
            }
        }
    }

    #[test]
    fn bytes_that_pass_never_make_the_codec_panic(seed: u64, place: usize, value: u8) {
        for (api, version) in every_version() {
            let mut body = BytesMut::from(&Generator::request(api, version, seed)[..]);
            if body.is_empty() {
                continue;
            }
            let place = place % body.len();
            body[place] = value;
            if guard(api, version, &body).is_ok() {
                // Text that is not UTF-8 may still be refused.
                let _ = through_codec(api.key, body.freeze(), version);
            }
        }
    }
}

const NUMBERS: &[Field] = &[Field { from: 0, to: 9, kind: Kind::Array(Element::Scalar(&Kind::Fixed(4))) }];
const TEXTS: &[Field] = &[Field { from: 0, to: 9, kind: Kind::Array(Element::Scalar(&Kind::String)) }];

#[test]
fn counts_larger_than_their_bytes_are_refused() {
    let refused = check(NUMBERS, 0, Encoding::Classic, &i32::MAX.to_be_bytes());
    assert_eq!(refused, Err(MalformedRequest::CountTooLarge { count: i32::MAX as usize, remaining: 0 }));
    let refused = check(NUMBERS, 0, Encoding::Flexible, &[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(refused, Err(MalformedRequest::CountTooLarge { count: u32::MAX as usize - 1, remaining: 0 }));
    // Enough bytes for the count, too few for the elements.
    let refused = check(NUMBERS, 0, Encoding::Classic, &[0, 0, 0, 2, 1, 1, 1, 1]);
    assert_eq!(refused, Err(MalformedRequest::Truncated { missing: 4 }));
}

#[test]
fn negative_lengths_and_wrong_nulls_are_refused() {
    let refused = check(NUMBERS, 0, Encoding::Classic, &(-2i32).to_be_bytes());
    assert_eq!(refused, Err(MalformedRequest::NegativeLength { length: -2 }));
    let refused = check(NUMBERS, 0, Encoding::Classic, &(-1i32).to_be_bytes());
    assert_eq!(refused, Err(MalformedRequest::UnexpectedNull));
    let refused = check(NUMBERS, 0, Encoding::Flexible, &[0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(refused, Err(MalformedRequest::VarintTooLong));
    let refused = check(NUMBERS, 0, Encoding::Flexible, &[0xff, 0xff, 0xff, 0xff, 0x1f]);
    assert_eq!(refused, Err(MalformedRequest::VarintTooLong));
}

#[test]
fn text_is_no_longer_than_in_kafka() {
    const TEXT: &[Field] = &[Field { from: 0, to: 9, kind: Kind::String }];
    let read = |length: usize| {
        let mut body = BytesMut::new();
        // The length plus one, as a varint of three bytes, and no tagged fields behind the text.
        let number = length + 1;
        let digit = |shift: usize| (number >> shift & 0x7f) as u8;
        body.put_slice(&[digit(0) | 0x80, digit(7) | 0x80, digit(14)]);
        body.put_bytes(b'x', length);
        body.put_u8(0);
        check(TEXT, 0, Encoding::Flexible, &body)
    };
    assert_eq!(read(32_767), Ok(0));
    assert_eq!(read(32_768), Err(MalformedRequest::StringTooLong { length: 32_768 }));
}

#[test]
fn more_elements_than_a_request_may_have_are_refused() {
    let flood = |count: usize| {
        let mut body = BytesMut::new();
        body.put_u32(u32::try_from(count).unwrap());
        body.put_bytes(0, count * 2);
        check(TEXTS, 0, Encoding::Classic, &body)
    };
    assert_eq!(flood(ELEMENTS_MAX), Ok(ELEMENTS_MAX));
    assert_eq!(flood(ELEMENTS_MAX + 1), Err(MalformedRequest::TooManyElements));
}

#[test]
fn tagged_fields_are_bounded_like_arrays() {
    let refused = check(&[], 0, Encoding::Flexible, &[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(refused, Err(MalformedRequest::CountTooLarge { count: u32::MAX as usize, remaining: 0 }));
    assert_eq!(check(&[], 0, Encoding::Flexible, &[1, 5, 2, 9, 9]), Ok(1));
    assert_eq!(
        check(&[], 0, Encoding::Flexible, &[1, 5, 3, 9, 9]),
        Err(MalformedRequest::Truncated { missing: 1 })
    );
}
