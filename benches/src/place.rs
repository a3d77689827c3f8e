//! The directory that a run writes to. It is deleted at the end.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use strandline_storage::object::{DurableLocal, LogStore};
use tempfile::TempDir;

/// Where a log with one shard keeps its segments and its WAL objects.
pub const DATA_PREFIX: &str = "shards/0/data";
pub const WAL_PREFIX: &str = "shards/0/wal";

#[derive(Clone, Debug, Args)]
pub struct PlaceArgs {
    /// Directory on the disk to measure (default: the system's directory for temporary files)
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new(args: &PlaceArgs) -> Result<Self> {
        let made = match &args.data {
            Some(data) => tempfile::tempdir_in(data),
            None => tempfile::tempdir(),
        };
        Ok(Self { directory: made.context("making a directory for the run")? })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A store in a directory of its own.
    pub fn store(&self, name: &str) -> Result<Arc<DurableLocal>> {
        let path = self.path(name);
        let store = DurableLocal::open(&path);
        Ok(Arc::new(store.with_context(|| format!("opening {}", path.display()))?))
    }

    /// The files of the objects below a prefix of the store of this name, in order.
    pub async fn files(&self, name: &str, store: &dyn LogStore, prefix: &str) -> Result<Vec<PathBuf>> {
        let objects = store.list(prefix).await.with_context(|| format!("listing {prefix}"))?;
        Ok(objects.iter().map(|object| self.path(name).join(&object.key)).collect())
    }
}
