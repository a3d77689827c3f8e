//! Objects in a map: the plainest store there is, so that a run costs little.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use crate::object::{LargeObject, LogStore, ObjectMeta, ObjectPrefix, StoreError};

/// Clones share the objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl Memory {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().expect("no holder of the lock panics")
    }

    fn find(&self, key: &str) -> Result<Bytes, StoreError> {
        self.objects().get(key).cloned().ok_or_else(|| StoreError::NotFound { key: key.to_owned() })
    }
}

fn clip(bytes: &Bytes, range: Range<u64>) -> Bytes {
    let end = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(end(range.start)..end(range.end))
}

#[async_trait]
impl LogStore for Memory {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let mut objects = self.objects();
        if objects.contains_key(key) {
            return Err(StoreError::AlreadyExists { key: key.to_owned() });
        }
        objects.insert(key.to_owned(), bytes);
        Ok(())
    }

    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
        Ok(Box::new(Large { store: self.clone(), key: key.to_owned(), bytes: BytesMut::new() }))
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        self.find(key)
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        Ok(clip(&self.find(key)?, range))
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        let whole = self.find(key)?;
        Ok(ObjectPrefix { bytes: clip(&whole, 0..length), object_length: whole.len() as u64 })
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let (start, objects) = (format!("{prefix}/"), self.objects());
        let below = objects.range(start.clone()..).take_while(|(key, _)| key.starts_with(&start));
        Ok(below.map(|(key, bytes)| ObjectMeta { key: key.clone(), length: bytes.len() as u64 }).collect())
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.objects().remove(key);
        Ok(())
    }

    async fn sync(&self, _key: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn linger_default(&self) -> Duration {
        Duration::ZERO
    }

    fn location(&self) -> &str {
        "memory://simulation"
    }
}

struct Large {
    store: Memory,
    key: String,
    bytes: BytesMut,
}

#[async_trait]
impl LargeObject for Large {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        self.store.objects().insert(self.key, self.bytes.freeze());
        Ok(())
    }

    async fn abort(self: Box<Self>) {}
}
