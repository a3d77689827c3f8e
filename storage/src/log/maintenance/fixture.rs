//! What the tests of maintenance begin from: a log on a store in memory, in which nothing happens by itself.

use std::sync::Arc;
use std::time::Duration;

use crate::log::{Log, LogSettings, MaintenanceSettings};
use crate::object::{CountingStore, LogStore, ObjectStoreBackend};
use crate::seam::Seams;

pub(in crate::log) struct World {
    pub(in crate::log) store: Arc<CountingStore>,
    pub(in crate::log) seams: Seams,
    pub(in crate::log) settings: LogSettings,
}

impl World {
    pub(in crate::log) fn new() -> Self {
        let never = Duration::from_secs(1 << 30);
        let maintenance = MaintenanceSettings {
            compaction_interval: never,
            checkpoint_interval: never,
            checkpoint_age_max: never,
            checkpoints_kept: 1,
            ..MaintenanceSettings::default()
        };
        Self {
            store: Arc::new(CountingStore::new(Arc::new(ObjectStoreBackend::memory()))),
            seams: Seams::simulated(1),
            settings: LogSettings { maintenance, ..LogSettings::default() },
        }
    }

    pub(in crate::log) fn store(&self) -> Arc<dyn LogStore> {
        self.store.clone()
    }

    pub(in crate::log) async fn open(&self) -> Log {
        Log::open(self.store(), self.settings.clone(), self.seams.clone()).await.expect("the log opens")
    }

    /// The keys of shard 0 below a prefix.
    pub(in crate::log) async fn keys(&self, part: &str) -> Vec<String> {
        let listed = self.store.list(&format!("shards/0/{part}")).await.expect("memory lists");
        listed.into_iter().map(|object| object.key).collect()
    }

    /// Whether some bytes are in any object.
    pub(in crate::log) async fn contains(&self, needle: &[u8]) -> bool {
        for object in self.store.list("").await.expect("memory lists") {
            let bytes = self.store.get(&object.key).await.expect("memory reads");
            if bytes.windows(needle.len()).any(|window| window == needle) {
                return true;
            }
        }
        false
    }
}
