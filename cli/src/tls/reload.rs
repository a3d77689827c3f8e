//! What is made from files, and made again when they have changed.
//!
//! Invariants: nothing polls: whoever needs it looks at the time of the files, at most once a second.
//! Files that cannot be used never replace what could.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use strandline_storage::seam::Clock;

use super::FileError;

pub(super) const LOOKS_APART: Duration = Duration::from_secs(1);

/// When a file was changed, and how long it is. `None`: it cannot be looked at.
type Stamp = Option<(SystemTime, u64)>;

fn stamp_of(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Where something is read from, and how.
pub(super) struct Source<T> {
    /// What it is, for the log.
    pub(super) name: &'static str,
    pub(super) files: Vec<PathBuf>,
    pub(super) read: Box<dyn Fn() -> Result<T, FileError> + Send + Sync>,
}

impl<T> Source<T> {
    fn stamps(&self) -> Vec<Stamp> {
        self.files.iter().map(|path| stamp_of(path)).collect()
    }
}

/// What was read last that could be used.
pub(super) struct Reloaded<T> {
    source: Source<T>,
    clock: Arc<dyn Clock>,
    current: Mutex<Current<T>>,
}

struct Current<T> {
    looked_at: Duration,
    stamps: Vec<Stamp>,
    value: Arc<T>,
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").field("files", &self.source.files).finish_non_exhaustive()
    }
}

impl<T> Reloaded<T> {
    /// Reads the files, which have to be good ones.
    pub(super) fn read(source: Source<T>, clock: Arc<dyn Clock>) -> Result<Self, FileError> {
        // The stamps first: what changes after them is read again.
        let stamps = source.stamps();
        let value = Arc::new((source.read)()?);
        let current = Mutex::new(Current { looked_at: clock.monotonic(), stamps, value });
        Ok(Self { source, clock, current })
    }

    pub(super) fn current(&self) -> Arc<T> {
        let mut current = self.lock();
        let now = self.clock.monotonic();
        if now.saturating_sub(current.looked_at) >= LOOKS_APART {
            current.looked_at = now;
            self.look(&mut current);
        }
        current.value.clone()
    }

    fn look(&self, current: &mut Current<T>) {
        let stamps = self.source.stamps();
        if stamps == current.stamps {
            return;
        }
        current.stamps = stamps;
        let name = self.source.name;
        match (self.source.read)() {
            Ok(value) => {
                current.value = Arc::new(value);
                tracing::info!("read {name} again, because the files have changed");
            }
            Err(error) => tracing::warn!(%error, "cannot read {name} again; the last good ones stay in use"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current<T>> {
        self.current.lock().expect("no holder of the lock panics")
    }
}
