//! A large object on its way to its key: a staged file that grows piece by piece.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::piece_size::{PieceSize, UNSYNCED_BYTES_MAX};
use super::{Directory, DurableLocal};
use crate::object::file_system::FileSystem;
use crate::object::large_object::broken;
use crate::object::{LargeObject, StoreError};

pub(super) struct LocalLargeObject<F: FileSystem> {
    store: DurableLocal<F>,
    key: String,
    /// Taken while an operation is under way, so that it is gone after a failed one.
    staged: Option<StagedFile<F>>,
}

/// A file in staging. Its name there goes when it is dropped, whether or not it has a key by then.
struct StagedFile<F: FileSystem> {
    directory: Arc<Directory<F>>,
    path: PathBuf,
    file: F::File,
    unsynced_bytes: usize,
    piece_size: PieceSize,
}

impl<F: FileSystem> LocalLargeObject<F> {
    pub(super) async fn begin(store: &DurableLocal<F>, key: &str) -> Result<Self, StoreError> {
        let shared = Arc::clone(&store.directory);
        let staged = store.run(key, move |directory, key| {
            directory.check_create(key)?;
            let path = directory.staging_path();
            match directory.write_staged(key, &path, &[]) {
                Ok(file) => {
                    let (unsynced_bytes, piece_size) = (0, PieceSize::default());
                    Ok(StagedFile { directory: shared, path, file, unsynced_bytes, piece_size })
                }
                Err(error) => {
                    directory.remove_staged(&path);
                    Err(error)
                }
            }
        });
        let staged = Some(staged.await?);
        Ok(Self { store: store.clone(), key: key.to_owned(), staged })
    }

    /// Runs an operation on the staged file where it may block, and gives the file back.
    async fn run<T: Send + 'static>(
        &mut self,
        operation: impl FnOnce(&mut StagedFile<F>, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<(StagedFile<F>, T), StoreError> {
        let mut staged = self.staged.take().ok_or_else(|| broken(&self.key))?;
        let owning = move |_: &Directory<F>, key: &str| {
            let answer = operation(&mut staged, key)?;
            Ok((staged, answer))
        };
        self.store.run(&self.key, owning).await
    }
}

impl<F: FileSystem> StagedFile<F> {
    /// Writes and syncs piece by piece, and lets creates have their turn after each.
    fn append(&mut self, key: &str, mut bytes: &[u8]) -> Result<(), StoreError> {
        let directory = Arc::clone(&self.directory);
        while !bytes.is_empty() {
            let create_took = directory.creates.took_recently();
            let due_at = create_took.map_or(UNSYNCED_BYTES_MAX, |_| self.piece_size.bytes());
            if self.unsynced_bytes >= due_at {
                // Creates have only begun to come.
                directory.creates.give_way_after(|| self.sync(key)).0?;
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(due_at - self.unsynced_bytes));
            let append = || self.append_piece(key, piece, due_at);
            let (is_synced, took) = directory.creates.give_way_after(append);
            if let (true, Some(create_took)) = (is_synced?, create_took) {
                self.piece_size.learn(took, create_took);
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Says whether what was written is synced now.
    fn append_piece(&mut self, key: &str, piece: &[u8], due_at: usize) -> Result<bool, StoreError> {
        let appended = self.directory.file_system.append(&mut self.file, piece);
        appended.map_err(|error| self.directory.write_error(key, &self.path, &error))?;
        self.unsynced_bytes += piece.len();
        let is_due = self.unsynced_bytes >= due_at;
        if is_due {
            self.sync(key)?;
        }
        Ok(is_due)
    }

    fn sync(&mut self, key: &str) -> Result<(), StoreError> {
        self.directory.sync_staged(key, &self.path, &self.file)?;
        self.unsynced_bytes = 0;
        Ok(())
    }

    fn publish(&self, key: &str) -> Result<(), StoreError> {
        self.directory.sync_staged(key, &self.path, &self.file)?;
        self.directory.link(key, &self.path)
    }
}

impl<F: FileSystem> Drop for StagedFile<F> {
    fn drop(&mut self) {
        self.directory.remove_staged(&self.path);
        self.directory.free(&self.file);
    }
}

/// Freeing the blocks of a large file takes a while, so it is done where it may block.
impl<F: FileSystem> Drop for LocalLargeObject<F> {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current().ok().filter(|_| F::BLOCKS);
        if let (Some(runtime), Some(staged)) = (runtime, self.staged.take()) {
            runtime.spawn_blocking(move || drop(staged));
        }
    }
}

#[async_trait]
impl<F: FileSystem> LargeObject for LocalLargeObject<F> {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let (staged, ()) = self.run(move |staged, key| staged.append(key, &bytes)).await?;
        self.staged = Some(staged);
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let publish = |staged: &mut StagedFile<F>, key: &str| staged.publish(key);
        let (staged, ()) = self.run(publish).await?;
        self.staged = Some(staged);
        Ok(())
    }

    async fn abort(mut self: Box<Self>) {
        // Without an error nothing is left to tell: what stays behind goes at the next open.
        let _ = self.run(|_, _| Ok(())).await.map(|(staged, ())| self.staged = Some(staged));
    }
}
