//! Any event about a group, for the tests of all events.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn bytes() -> impl Strategy<Value = bytes::Bytes> {
    vec(any::<u8>(), 0..8).prop_map(bytes::Bytes::from)
}

fn classic_member() -> impl Strategy<Value = ClassicMember> {
    let protocol = ("[a-z]{0,4}", bytes()).prop_map(|(name, metadata)| MemberProtocol { name, metadata });
    let texts = ("[a-z]{0,4}", option::of("[a-z]{0,4}"), "[a-z]{0,4}", "[a-z]{0,4}");
    (texts, any::<(i32, i32)>(), vec(protocol, 0..3), bytes()).prop_map(
        |((member_id, instance_id, client_id, client_host), timeouts, protocols, assignment)| ClassicMember {
            member_id,
            instance_id,
            client_id,
            client_host,
            session_timeout_ms: timeouts.0,
            rebalance_timeout_ms: timeouts.1,
            protocols,
            assignment,
        },
    )
}

fn classic_put() -> impl Strategy<Value = ClassicGroupPut> {
    let numbers = any::<(u64, i32, Option<i64>)>();
    ("[a-z]{0,4}", "[a-z]{0,4}", numbers, vec(classic_member(), 0..3)).prop_map(
        |(group, text, (revision, generation, empty_since_ms), members)| ClassicGroupPut {
            group,
            revision,
            state: ClassicGroup {
                protocol_type: text.clone(),
                protocol: text.clone(),
                leader: text,
                generation,
                empty_since_ms,
                members,
            },
        },
    )
}

fn partitions() -> impl Strategy<Value = Vec<MemberPartitions>> {
    let one = (any::<[u8; 16]>(), vec(any::<i32>(), 0..3))
        .prop_map(|(id, partitions)| MemberPartitions { topic_id: TopicId::from_bytes(id), partitions });
    vec(one, 0..2)
}

fn consumer_member() -> impl Strategy<Value = ConsumerMember> {
    let phase = prop_oneof![
        Just(ConsumerMemberPhase::Stable),
        Just(ConsumerMemberPhase::Revoking),
        Just(ConsumerMemberPhase::Waiting)
    ];
    let texts = ("[a-z]{0,4}", option::of("[a-z]{0,4}"), vec("[a-z]{0,4}", 0..2));
    let places = (partitions(), partitions(), partitions());
    (texts, any::<(i32, i32, i32)>(), phase, places).prop_map(
        |((text, maybe, subscribed_topics), numbers, phase, (assigned, revoking, target))| ConsumerMember {
            member_id: text.clone(),
            instance_id: maybe.clone(),
            rack_id: maybe.clone(),
            client_id: text.clone(),
            client_host: text,
            rebalance_timeout_ms: numbers.0,
            subscribed_topics,
            subscribed_regex: maybe.clone(),
            assignor: maybe,
            epoch: numbers.1,
            previous_epoch: numbers.2,
            phase,
            assigned,
            revoking,
            target,
        },
    )
}

fn consumer_changed() -> impl Strategy<Value = ConsumerGroupChanged> {
    let topic = (any::<[u8; 16]>(), any::<i32>()).prop_map(|(id, partition_count)| SubscribedTopic {
        topic_id: TopicId::from_bytes(id),
        partition_count,
    });
    let numbers = any::<(u64, i32, i32, Option<i64>)>();
    let members = (vec(consumer_member(), 0..3), vec("[a-z]{0,4}", 0..2));
    ("[a-z]{0,4}", numbers, option::of(vec(topic, 0..3)), members).prop_map(
        |(group, numbers, topics, (members, removed_members))| ConsumerGroupChanged {
            assignor: group.clone(),
            group,
            revision: numbers.0,
            epoch: numbers.1,
            assignment_epoch: numbers.2,
            empty_since_ms: numbers.3,
            topics,
            members,
            removed_members,
        },
    )
}

pub(super) fn group_state_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        classic_put().prop_map(Event::ClassicGroupPut),
        consumer_changed().prop_map(Event::ConsumerGroupChanged),
        "[a-z]{0,4}".prop_map(|group| Event::GroupDeleted(GroupDeleted { group })),
        ("[a-z]{0,4}", any::<(u64, i32)>()).prop_map(|(group, (revision, last))| {
            Event::GenerationsReserved(GenerationsReserved { group, revision, last })
        }),
    ]
}
