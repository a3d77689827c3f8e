//! Inference in memory for a process that may not write: what the owner pinned, plus what a bounded
//! number of further records shows.
//!
//! Invariant: nothing is written, and at most `RECORDS_PER_PARTITION_MAX` records are read per
//! partition and topic.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use strandline_storage::ids::{TopicId, TopicPartition};
use strandline_storage::log::{Snapshot, Topic};

use super::columns::{ColumnsOrigin, TopicColumns, needs_inference};
use super::owner::stored_inference;
use super::reader::{Step, observe_step};
use super::topic::TopicInference;

/// Records that a process without the right to pin reads to find columns.
pub const RECORDS_PER_PARTITION_MAX: u64 = 10_000;

/// Columns found so far, per topic.
#[derive(Debug, Default)]
pub struct ProvisionalInference {
    topics: Mutex<HashMap<TopicId, Arc<TopicColumns>>>,
}

impl ProvisionalInference {
    /// The columns found last; those that the log holds when none were looked for.
    pub fn columns(&self, snapshot: &Snapshot, topic: &Topic) -> Arc<TopicColumns> {
        let topics = self.topics.lock().expect("no holder of the lock panics");
        topics.get(&topic.id).cloned().unwrap_or_else(|| {
            let inference = stored_inference(snapshot, topic);
            Arc::new(TopicColumns::new(topic, &inference, ColumnsOrigin::Owner))
        })
    }

    /// Looks for columns in the records that the owner has not observed yet.
    pub async fn infer(&self, snapshot: &Snapshot, topic: &Topic) {
        let mut inference = stored_inference(snapshot, topic);
        let mut has_looked = false;
        if needs_inference(topic) {
            for partition in 0..topic.partition_count {
                has_looked |= observe_partition(&mut inference, snapshot, topic.id, partition).await;
            }
        }
        let origin = if has_looked { ColumnsOrigin::Provisional } else { ColumnsOrigin::Owner };
        let columns = Arc::new(TopicColumns::new(topic, &inference, origin));
        self.topics.lock().expect("no holder of the lock panics").insert(topic.id, columns);
    }
}

async fn observe_partition(
    inference: &mut TopicInference,
    snapshot: &Snapshot,
    topic_id: TopicId,
    partition: i32,
) -> bool {
    let Some(view) = snapshot.partition(TopicPartition::new(topic_id, partition)) else { return false };
    let records_before = inference.records;
    while inference.records - records_before < RECORDS_PER_PARTITION_MAX && !inference.is_finished() {
        match observe_step(inference, partition, &view).await {
            Ok(Step::More) => {}
            Ok(Step::CaughtUp) => break,
            Err(error) => {
                tracing::warn!(%error, %topic_id, partition, "records cannot be read to find columns");
                break;
            }
        }
    }
    inference.records > records_before
}
