//! Changes of state other than appends: each is a check against the assigned state that gives the
//! events to commit. Pure.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::assign::Assignment;
use super::committer::{ChangeJob, ChangeOrder, ChangeReply};
use super::config_change::ConfigChanges;
use super::error::{
    AddPartitionsError, CommitOffsetError, CreateTopicError, DeleteRecordsError, PutSchemaError, TopicError,
    WriteError,
};
use super::handle::{CreateTopic, OffsetCommit};
use super::placement;
use super::settings::LogSettings;
use super::shared::Shared;
use super::state::ShardState;
use super::topic_config::TopicConfig;
use super::topic_name;
use crate::format::Event;
use crate::format::event::{
    CommittedOffset, ExpiredProducers, GroupOffsetsDeleted, GroupPartition, LogStart, LogStartsMoved,
    ObjectsDeleted, OffsetsCommitted, PartitionsAdded, ProducerIdsAllocated, ProducersExpired, SchemaPut,
    TopicConfigSet, TopicCreated, TopicDeleted,
};
use crate::ids::{ObjectId, TopicId, TopicPartition};

type Checked<T, E> = Result<(Vec<Event>, T), E>;

/// Gets the assigned state and the append time.
type Check<T, E> = Box<dyn FnOnce(&ShardState, i64) -> Checked<T, E> + Send>;

/// A check that gives events and an answer.
pub(super) struct Change<T, E> {
    order: ChangeOrder,
    check: Check<T, E>,
}

impl<T: Send + 'static, E: From<WriteError> + Send + 'static> Change<T, E> {
    pub(super) fn any_place(check: impl FnOnce(&ShardState, i64) -> Checked<T, E> + Send + 'static) -> Self {
        Self { order: ChangeOrder::AnyPlace, check: Box::new(check) }
    }

    /// For events that take partitions or records away.
    pub(super) fn after_batches(
        check: impl FnOnce(&ShardState, i64) -> Checked<T, E> + Send + 'static,
    ) -> Self {
        Self { order: ChangeOrder::AfterBatches, check: Box::new(check) }
    }
}

impl<T, E> Change<T, E> {
    /// The job for the committer; `answer` gets the result when the events are durable.
    pub(super) fn into_job(self, answer: oneshot::Sender<Result<T, E>>) -> ChangeJob
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        let make = move |assignment: &mut Assignment| {
            let result = (self.check)(assignment.state(), assignment.append_time_ms);
            let result = result.map(|(events, answer)| {
                assignment.push_events(events);
                answer
            });
            answer_when_durable(answer, result)
        };
        ChangeJob { order: self.order, make: Box::new(make) }
    }
}

/// The reply of a change that is answered with this result if it becomes durable.
pub(super) fn answer_when_durable<T, E>(
    answer: oneshot::Sender<Result<T, E>>,
    result: Result<T, E>,
) -> ChangeReply
where
    T: Send + 'static,
    E: From<WriteError> + Send + 'static,
{
    Box::new(move |durable: Result<(), WriteError>| {
        let result = result.and_then(|answer| durable.map(|()| answer).map_err(E::from));
        // A caller that went away needs no answer.
        drop(answer.send(result));
    })
}

/// Creates a topic in a log of so many shards.
pub(super) fn create_topic(
    topic: CreateTopic,
    shards: u32,
    shared: Arc<Shared>,
) -> Change<TopicId, CreateTopicError> {
    Change::any_place(move |state, now_ms| {
        check_new_topic(&topic, state, &shared.settings)?;
        let topic_id = TopicId::from_random(shared.seams.rng.bytes16());
        let event = Event::TopicCreated(TopicCreated {
            topic_id,
            name: topic.name,
            partition_count: topic.partitions,
            configs: topic.configs,
            shards: placement::spread(topic_id, 0..topic.partitions, shards),
            created_at_ms: now_ms,
        });
        Ok((vec![event], topic_id))
    })
}

/// Whether a topic could be created in this state.
pub(super) fn check_new_topic(
    topic: &CreateTopic,
    state: &ShardState,
    settings: &LogSettings,
) -> Result<(), CreateTopicError> {
    let name = || topic.name.clone();
    topic_name::validate(&topic.name)?;
    if state.topic_ids.contains_key(&topic.name) {
        return Err(CreateTopicError::AlreadyExists { name: name() });
    }
    let key = topic_name::collision_key(&topic.name);
    if let Some(existing) = state.topic_ids.keys().find(|existing| topic_name::collision_key(existing) == key)
    {
        return Err(CreateTopicError::NameCollision { name: name(), existing: existing.clone() });
    }
    if topic.partitions < 1 {
        return Err(CreateTopicError::InvalidPartitions { name: name(), partitions: topic.partitions });
    }
    TopicConfig::parse(&topic.configs)?;
    if state.topics.len() >= settings.topics_max {
        return Err(CreateTopicError::TooMany { what: "topics", max: settings.topics_max });
    }
    let partitions = usize::try_from(topic.partitions).expect("the number was just found positive");
    if state.partition_count().saturating_add(partitions) > settings.partitions_max {
        return Err(CreateTopicError::TooMany { what: "partitions", max: settings.partitions_max });
    }
    Ok(())
}

pub(super) fn delete_topic(topic_id: TopicId) -> Change<(), TopicError> {
    let check = move |state: &ShardState, _: i64| {
        state.topics.get(&topic_id).ok_or(TopicError::UnknownTopic)?;
        Ok((vec![Event::TopicDeleted(TopicDeleted { topic_id })], ()))
    };
    Change { order: ChangeOrder::AfterBatches, check: Box::new(check) }
}

pub(super) fn alter_topic_config(topic_id: TopicId, changes: ConfigChanges) -> Change<(), TopicError> {
    Change::any_place(move |state, _| {
        let topic = state.topics.get(&topic_id).ok_or(TopicError::UnknownTopic)?;
        let configs: BTreeMap<_, _> = changes.resolve(&topic.config)?.into_iter().collect();
        let changes_nothing = configs.is_empty();
        let event = Event::TopicConfigSet(TopicConfigSet { topic_id, configs });
        Ok((if changes_nothing { Vec::new() } else { vec![event] }, ()))
    })
}

/// Adds partitions to a topic in a log of so many shards.
pub(super) fn add_partitions(
    topic_id: TopicId,
    partition_count: i32,
    shards: u32,
    shared: Arc<Shared>,
) -> Change<(), AddPartitionsError> {
    Change::any_place(move |state, _| {
        let new = check_more_partitions(topic_id, partition_count, state, &shared.settings)?;
        let shards = placement::spread(topic_id, new, shards);
        let event = PartitionsAdded { topic_id, partition_count, shards };
        Ok((vec![Event::PartitionsAdded(event)], ()))
    })
}

/// The partitions that a topic would get in this state.
pub(super) fn check_more_partitions(
    topic_id: TopicId,
    partition_count: i32,
    state: &ShardState,
    settings: &LogSettings,
) -> Result<Range<i32>, AddPartitionsError> {
    let current = state.topics.get(&topic_id).ok_or(AddPartitionsError::UnknownTopic)?.partition_count;
    let added = usize::try_from(i64::from(partition_count) - i64::from(current)).unwrap_or(0);
    if added == 0 {
        return Err(AddPartitionsError::NotMore { current, requested: partition_count });
    }
    let max = settings.partitions_max;
    if state.partition_count().saturating_add(added) > max {
        return Err(AddPartitionsError::TooMany { max });
    }
    Ok(current..partition_count)
}

pub(super) fn commit_offsets(
    group: String,
    offsets: Vec<OffsetCommit>,
) -> Change<Vec<Result<(), CommitOffsetError>>, WriteError> {
    Change::any_place(move |state, now_ms| {
        let (event, results) = checked_offsets(group, offsets, state, now_ms);
        Ok((event.into_iter().collect(), results))
    })
}

/// The event that commits those of the offsets that can be, if any, and what became of each.
pub(super) fn checked_offsets(
    group: String,
    offsets: Vec<OffsetCommit>,
    state: &ShardState,
    now_ms: i64,
) -> (Option<Event>, Vec<Result<(), CommitOffsetError>>) {
    let mut results = Vec::with_capacity(offsets.len());
    let mut committed = Vec::new();
    for offset in offsets {
        let partition = offset.topic_partition;
        if !state.knows(partition) {
            results.push(Err(CommitOffsetError::UnknownTopicPartition(partition)));
            continue;
        }
        results.push(Ok(()));
        committed.push(CommittedOffset {
            topic_id: partition.topic_id,
            partition: partition.partition,
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            metadata: offset.metadata,
            commit_time_ms: now_ms,
        });
    }
    let event = OffsetsCommitted { group, offsets: committed };
    ((!event.offsets.is_empty()).then_some(Event::OffsetsCommitted(event)), results)
}

pub(super) fn delete_group_offsets(
    group: String,
    partitions: Option<Vec<TopicPartition>>,
) -> Change<(), WriteError> {
    Change::any_place(move |state, _| {
        // No partitions named in the event means all of them.
        let deletes_nothing = partitions.as_ref().is_some_and(Vec::is_empty);
        if deletes_nothing || !state.groups.contains_key(&group) {
            return Ok((Vec::new(), ()));
        }
        let in_event = |partition: TopicPartition| GroupPartition {
            topic_id: partition.topic_id,
            partition: partition.partition,
        };
        let partitions = partitions.unwrap_or_default().into_iter().map(in_event).collect();
        Ok((vec![Event::GroupOffsetsDeleted(GroupOffsetsDeleted { group, partitions })], ()))
    })
}

pub(super) fn allocate_producer_ids(count: u32) -> Change<Range<i64>, WriteError> {
    Change::any_place(move |state, _| {
        let next_producer_id = state.next_producer_id + i64::from(count);
        let event = Event::ProducerIdsAllocated(ProducerIdsAllocated { next_producer_id });
        Ok((vec![event], state.next_producer_id..next_producer_id))
    })
}

/// Moves log starts forward. Those of topics that are gone, or that moved further already, are left out.
pub(super) fn move_log_starts(starts: Vec<LogStart>) -> Change<(), WriteError> {
    Change::any_place(move |state, _| {
        let applies = |start: &LogStart| {
            let id = TopicPartition::new(start.topic_id, start.partition);
            let partition = state.partitions.get(&id);
            partition.is_some_and(|partition| start.log_start_offset > partition.log_start_offset)
        };
        let partitions: Vec<_> = starts.into_iter().filter(applies).collect();
        let moves_nothing = partitions.is_empty();
        let event = Event::LogStartsMoved(LogStartsMoved { partitions });
        Ok((if moves_nothing { Vec::new() } else { vec![event] }, ()))
    })
}

/// Deletes the records of partitions below an offset; -1 stands for the high watermark. Gives the
/// log start of each (Kafka's `DeleteRecords`).
pub(super) fn delete_records(
    before: Vec<(TopicPartition, i64)>,
) -> Change<Vec<Result<i64, DeleteRecordsError>>, WriteError> {
    let check = move |state: &ShardState, _: i64| {
        let mut partitions = Vec::new();
        let results = before.iter().map(|(id, offset)| {
            let partition = state.partitions.get(id).ok_or(DeleteRecordsError::UnknownTopicPartition(*id))?;
            let high_watermark = partition.next_offset;
            let offset = if *offset == -1 { high_watermark } else { *offset };
            if offset < 0 || offset > high_watermark {
                return Err(DeleteRecordsError::OutOfRange { offset, high_watermark });
            }
            if offset > partition.log_start_offset {
                let (topic_id, partition) = (id.topic_id, id.partition);
                partitions.push(LogStart { topic_id, partition, log_start_offset: offset });
            }
            Ok(offset.max(partition.log_start_offset))
        });
        let results = results.collect();
        let event = Event::LogStartsMoved(LogStartsMoved { partitions: partitions.clone() });
        Ok((if partitions.is_empty() { Vec::new() } else { vec![event] }, results))
    };
    Change { order: ChangeOrder::AfterBatches, check: Box::new(check) }
}

/// Forgets producers that were silent since a time. Those that wrote again meanwhile stay.
pub(super) fn expire_producers(partitions: Vec<ExpiredProducers>, since_ms: i64) -> Change<(), WriteError> {
    let check = move |state: &ShardState, _: i64| {
        let still_silent = |mut expired: ExpiredProducers| {
            let id = TopicPartition::new(expired.topic_id, expired.partition);
            let partition = state.partitions.get(&id)?;
            expired.producer_ids.retain(|producer_id| partition.is_silent_since(*producer_id, since_ms));
            (!expired.producer_ids.is_empty()).then_some(expired)
        };
        let partitions: Vec<_> = partitions.into_iter().filter_map(still_silent).collect();
        let expires_nothing = partitions.is_empty();
        let event = Event::ProducersExpired(ProducersExpired { partitions });
        Ok((if expires_nothing { Vec::new() } else { vec![event] }, ()))
    };
    Change { order: ChangeOrder::AfterBatches, check: Box::new(check) }
}

/// Notes that segments were deleted from the store.
pub(super) fn objects_deleted(objects: Vec<ObjectId>) -> Change<(), WriteError> {
    Change::any_place(move |_, _| Ok((vec![Event::ObjectsDeleted(ObjectsDeleted { objects })], ())))
}

pub(super) fn put_schema(
    topic_id: TopicId,
    kind: String,
    expected: u32,
    bytes: Bytes,
) -> Change<u32, PutSchemaError> {
    Change::any_place(move |state, _| {
        state.topics.get(&topic_id).ok_or(PutSchemaError::UnknownTopic)?;
        let current = state.schemas.get(&(topic_id, kind.clone())).map_or(0, |schema| schema.version);
        if current != expected {
            return Err(PutSchemaError::VersionMismatch { expected, current });
        }
        let version = current + 1;
        let event = SchemaPut { topic_id, kind, version, bytes: bytes.to_vec() };
        Ok((vec![Event::SchemaPut(event)], version))
    })
}
