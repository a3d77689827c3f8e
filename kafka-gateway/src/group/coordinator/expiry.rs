//! Forgets what groups without members committed long ago, and lets the sessions of members run out
//! that did not come back after a restart.

use strandline_storage::log::{GroupChange, Snapshot};

use super::GroupCoordinator;

impl GroupCoordinator {
    /// Never ends.
    pub(super) async fn run_expiry(&self) {
        loop {
            let snapshot = self.log.snapshot();
            self.load_groups_with_members(&snapshot);
            self.expire(&snapshot).await;
            drop(snapshot);
            self.seams.clock.sleep(self.expiry_interval).await;
        }
    }

    /// Without it the members of a group that nobody asks for would stay for ever.
    fn load_groups_with_members(&self, snapshot: &Snapshot) {
        for (group_id, group) in snapshot.group_states() {
            if group.has_members() {
                self.visit(&mut self.lock(), group_id);
            }
        }
    }

    async fn expire(&self, snapshot: &Snapshot) {
        let retention_ms = i64::try_from(self.offsets_retention.as_millis()).unwrap_or(i64::MAX);
        let since_ms = self.seams.clock.now_ms().saturating_sub(retention_ms);
        let ids = snapshot.groups().chain(snapshot.group_states().map(|(group_id, _)| group_id));
        let ids: Vec<_> = ids.map(str::to_owned).collect();
        for group_id in &ids {
            if !snapshot.has_expired(group_id, since_ms) {
                continue;
            }
            let revision = snapshot.group(group_id).map_or(0, |group| group.revision);
            let change = GroupChange::Expire { since_ms };
            match self.log.change_group(group_id, revision, change).await {
                Ok(_) => {
                    tracing::info!(group = group_id, "offsets that nobody needed any more were forgotten")
                }
                // The group has changed meanwhile, or the log takes no writes: the next round looks again.
                Err(error) => tracing::debug!(group = group_id, %error, "offsets were not forgotten"),
            }
        }
    }
}
