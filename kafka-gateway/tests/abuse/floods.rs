//! Small requests that ask for much: what is named many times is answered once, so that an answer is bounded by what
//! there is.

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};
use uuid::Uuid;

use crate::panics::NoPanics;
use crate::target::{Target, frame};

const MENTIONS: usize = 2000;
const WIDE: &str = "wide";

fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}

fn wide() -> TopicName {
    TopicName(text(WIDE))
}

async fn ask<R: Request + Encodable + HeaderVersion>(target: &Target, version: i16, request: R) -> Bytes {
    let answers = target.run(&[&[0][..], &frame(version, 1, &request)].concat()).await;
    let [answer] = &answers[..] else { panic!("one request is answered once, not {} times", answers.len()) };
    answer.clone()
}

/// A target with a topic of 100 partitions.
async fn with_wide_topic() -> (Target, Uuid) {
    let target = Target::start().await;
    let topic =
        CreatableTopic::default().with_name(wide()).with_num_partitions(100).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    ask(&target, 5, request).await;
    let id = target.log.snapshot().topic(WIDE).expect("it was created").id.as_uuid();
    (target, id)
}

/// The same answer for one mention and for many.
async fn is_answered_once<R>(target: &Target, version: i16, naming: impl Fn(usize) -> R)
where
    R: Request + Encodable + HeaderVersion,
{
    let once = ask(target, version, naming(1)).await;
    let often = ask(target, version, naming(MENTIONS)).await;
    assert!(once.len() > 8, "there is an answer");
    assert_eq!(once.len(), often.len(), "api {} version {version}", R::KEY);
}

#[tokio::test]
async fn what_is_named_often_is_described_once() {
    let panics = NoPanics::from_now_on();
    let (target, id) = with_wide_topic().await;
    let numbers = |mentions: usize| 0..u128::try_from(mentions).expect("it is small");
    // Beside what is looked at stands something that is not.
    is_answered_once(&target, 12, |mentions| {
        let topics = numbers(mentions).map(|number| {
            MetadataRequestTopic::default()
                .with_topic_id(id)
                .with_name(Some(TopicName(text(number.to_string()))))
        });
        MetadataRequest::default().with_topics(Some(topics.collect()))
    })
    .await;
    is_answered_once(&target, 10, |mentions| {
        let topics = numbers(mentions).map(|number| {
            MetadataRequestTopic::default().with_topic_id(Uuid::from_u128(number)).with_name(Some(wide()))
        });
        MetadataRequest::default().with_topics(Some(topics.collect()))
    })
    .await;
    is_answered_once(&target, 0, |mentions| {
        let topic = TopicRequest::default().with_name(wide()).with_partition_indexes(vec![0; mentions]);
        DescribeProducersRequest::default().with_topics(vec![topic])
    })
    .await;
    is_answered_once(&target, 5, |mentions| {
        DescribeGroupsRequest::default().with_groups(vec![GroupId(text("g")); mentions])
    })
    .await;
    is_answered_once(&target, 1, |mentions| {
        ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text("g")); mentions])
    })
    .await;
    is_answered_once(&target, 0, |mentions| {
        let names = vec![TransactionalId(text("x")); mentions];
        DescribeTransactionsRequest::default().with_transactional_ids(names)
    })
    .await;
    is_answered_once(&target, 8, |mentions| {
        let topic =
            OffsetFetchRequestTopics::default().with_name(wide()).with_partition_indexes(vec![7; mentions]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text("g")))
            .with_topics(Some(vec![topic]));
        OffsetFetchRequest::default().with_topics(Some(Vec::new())).with_groups(vec![group])
    })
    .await;
    is_answered_once(&target, 12, |mentions| {
        let partition = FetchPartition::default().with_partition(7).with_partition_max_bytes(1_000_000);
        let topic = FetchTopic::default().with_topic(wide()).with_partitions(vec![partition; mentions]);
        FetchRequest::default().with_session_epoch(-1).with_max_bytes(1_000_000).with_topics(vec![topic])
    })
    .await;
    target.stop().await;
    panics.check("many mentions");
}
