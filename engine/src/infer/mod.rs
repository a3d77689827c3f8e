//! Inference: which columns the records of a topic have, and of which types.
//!
//! `sample`, `topic` and `encoding` are pure. `columns` is what queries see of a topic. `reader`
//! walks the records of a log; `owner` does so in the background and pins what it finds in the log,
//! `provisional` does so in memory for a process that may not write.
//!
//! Invariant: only the owner of a shard pins, and a pin is an event in the log.

pub mod columns;
pub mod encoding;
pub mod owner;
pub mod provisional;
pub mod reader;
pub mod sample;
pub mod topic;

use std::sync::Arc;
use std::time::Duration;

use strandline_storage::log::{Snapshot, Topic};
use strandline_storage::seam::Clock;

pub use columns::TopicColumns;
use owner::OwnerInference;
use provisional::ProvisionalInference;

/// How long a statement waits for the columns of what was just produced.
const PREPARE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Where statements get the columns of topics from.
#[derive(Debug)]
pub enum ColumnSource {
    Owner(Arc<OwnerInference>),
    Provisional(ProvisionalInference),
}

impl ColumnSource {
    /// The columns of the topic that are known now.
    pub fn columns(&self, snapshot: &Snapshot, topic: &Topic) -> Arc<TopicColumns> {
        match self {
            Self::Owner(owner) => owner.columns(snapshot, topic),
            Self::Provisional(provisional) => provisional.columns(snapshot, topic),
        }
    }

    /// Brings the columns of these topics up to the snapshot, as far as the bounds on time and on
    /// records allow.
    pub async fn catch_up(&self, snapshot: &Snapshot, topics: &[Arc<Topic>], clock: &dyn Clock) {
        match self {
            Self::Owner(owner) => {
                let all = async {
                    for topic in topics {
                        owner.caught_up(snapshot, topic).await;
                    }
                };
                tokio::select! {
                    () = all => {}
                    () = clock.sleep(PREPARE_WAIT_MAX) => {}
                }
            }
            Self::Provisional(provisional) => {
                for topic in topics {
                    provisional.infer(snapshot, topic).await;
                }
            }
        }
    }
}
