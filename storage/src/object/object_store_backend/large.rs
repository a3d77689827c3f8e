//! A large object on its way to a store of the `object_store` crate: one put while it is small, parts
//! when it is not.
//!
//! Invariant: an upload in parts that is not finished is aborted, as far as the store can be reached.

use std::mem;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Buf, Bytes};
use object_store::path::Path;
use object_store::{Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;

use super::store_error;
use crate::object::large_object::{PART_BYTES, broken};
use crate::object::{LargeObject, StoreError};

/// Parts on their way at once. They and the one that fills up are held in memory.
const PARTS_IN_FLIGHT_MAX: usize = 4;

pub(super) struct RemoteLargeObject {
    store: Arc<dyn ObjectStore>,
    key: String,
    path: Path,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    progress: Progress,
}

enum Progress {
    /// Everything is still pending.
    Small,
    InParts(Upload),
    /// An operation is under way, or one failed.
    Broken,
}

struct Upload {
    upload: Option<Box<dyn MultipartUpload>>,
    parts: JoinSet<Result<(), Error>>,
}

impl RemoteLargeObject {
    pub(super) fn new(store: Arc<dyn ObjectStore>, key: &str, path: Path) -> Self {
        let key = key.to_owned();
        Self { store, key, path, pending: Vec::new(), pending_bytes: 0, progress: Progress::Small }
    }

    /// The first `length` pending bytes, of which there are at least as many.
    fn take_pending(&mut self, length: usize) -> PutPayload {
        let mut part = Vec::new();
        let mut missing = length;
        let mut rest = mem::take(&mut self.pending).into_iter();
        while let Some(mut piece) = rest.next().filter(|_| missing > 0) {
            let taken = piece.split_to(missing.min(piece.len()));
            missing -= taken.len();
            part.push(taken);
            if piece.has_remaining() {
                self.pending.push(piece);
            }
        }
        self.pending.extend(rest);
        self.pending_bytes -= length;
        part.into_iter().collect()
    }

    async fn write_part(&mut self) -> Result<(), Error> {
        let mut upload = match mem::replace(&mut self.progress, Progress::Broken) {
            Progress::Small => Upload::begin(&*self.store, &self.path).await?,
            Progress::InParts(upload) => upload,
            Progress::Broken => unreachable!("callers have checked that no operation failed"),
        };
        upload.put(self.take_pending(PART_BYTES)).await?;
        self.progress = Progress::InParts(upload);
        Ok(())
    }

    async fn finish_whole(&mut self) -> Result<(), Error> {
        let rest = self.take_pending(self.pending_bytes);
        match mem::replace(&mut self.progress, Progress::Broken) {
            Progress::Small => self.store.put(&self.path, rest).await.map(drop),
            Progress::InParts(upload) => upload.complete(rest).await,
            Progress::Broken => unreachable!("callers have checked that no operation failed"),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.progress {
            Progress::Broken => Err(broken(&self.key)),
            Progress::Small | Progress::InParts(_) => Ok(()),
        }
    }
}

#[async_trait]
impl LargeObject for RemoteLargeObject {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.check()?;
        self.pending_bytes += bytes.len();
        self.pending.push(bytes);
        while self.pending_bytes >= PART_BYTES {
            self.write_part().await.map_err(|error| store_error(&self.key, error))?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.check()?;
        self.finish_whole().await.map_err(|error| store_error(&self.key, error))
    }

    async fn abort(mut self: Box<Self>) {
        if let Progress::InParts(mut upload) = mem::replace(&mut self.progress, Progress::Broken) {
            upload.abort().await;
        }
    }
}

impl Upload {
    async fn begin(store: &dyn ObjectStore, path: &Path) -> Result<Self, Error> {
        Ok(Self { upload: Some(store.put_multipart(path).await?), parts: JoinSet::new() })
    }

    /// Sends a part on its way, once there is room for it.
    async fn put(&mut self, part: PutPayload) -> Result<(), Error> {
        self.wait_for_room(PARTS_IN_FLIGHT_MAX - 1).await?;
        if let Some(upload) = &mut self.upload {
            self.parts.spawn(upload.put_part(part));
        }
        Ok(())
    }

    async fn complete(mut self, rest: PutPayload) -> Result<(), Error> {
        if rest.content_length() > 0 {
            self.put(rest).await?;
        }
        self.wait_for_room(0).await?;
        if let Some(upload) = &mut self.upload {
            upload.complete().await?;
        }
        self.upload = None;
        Ok(())
    }

    async fn wait_for_room(&mut self, in_flight_max: usize) -> Result<(), Error> {
        while self.parts.len() > in_flight_max {
            if let Some(part) = self.parts.join_next().await {
                part.map_err(|source| Error::JoinError { source })??;
            }
        }
        Ok(())
    }

    async fn abort(&mut self) {
        self.parts.shutdown().await;
        if let Some(mut upload) = self.upload.take()
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, "parts of an unfinished object stay in the store");
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if let Some(upload) = self.upload.take() {
            let mut unfinished = Self { upload: Some(upload), parts: mem::take(&mut self.parts) };
            runtime.spawn(async move { unfinished.abort().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ObjectStoreBackend;
    use super::*;
    use crate::object::LogStore;

    #[tokio::test]
    async fn a_large_object_is_seen_whole_and_only_once_it_is_finished() {
        for length in [0, 1, PART_BYTES - 1, PART_BYTES, 3 * PART_BYTES + 5] {
            let store = ObjectStoreBackend::memory();
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut large = store.create_large("a/b").await.expect("the key is good");
            for piece in bytes.chunks(3 << 20) {
                large.write(Bytes::copy_from_slice(piece)).await.expect("memory takes bytes");
            }
            store.get("a/b").await.expect_err("it is not finished");
            large.finish().await.expect("memory finishes");
            assert!(store.get("a/b").await.expect("it is finished") == bytes, "{length} bytes");
        }
    }

    #[tokio::test]
    async fn nothing_is_left_of_an_object_that_was_dropped_or_aborted() {
        let store = ObjectStoreBackend::memory();
        for end in ["drop", "abort"] {
            let mut large = store.create_large("a").await.expect("the key is good");
            large.write(vec![1; PART_BYTES + 1].into()).await.expect("memory takes bytes");
            match end {
                "drop" => drop(large),
                _ => large.abort().await,
            }
            assert_eq!(store.list("").await.expect("memory lists"), [], "{end}");
        }
    }
}
