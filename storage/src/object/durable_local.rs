//! Objects as files of a local directory, durable before a create answers.
//!
//! A create costs, once its directory is known: write to `.tmp/`, fsync of the file, hard link to its
//! key, fsync of the directory, unlink of the first name. The link is the put-if-absent: the name
//! appears with all bytes or not at all, and never twice.
//!
//! Invariant: a create answers `Ok` only after the file, its name and the names of all its ancestors
//! were synced.
//! Invariant: after a failed fsync or link every operation fails. What the page cache says may then
//! differ from the disk for ever, and a second fsync would report success.
//! Invariant: one process at a time writes, by a lock on `.lock` that lasts as long as the last
//! operation.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::file_system::{EntryKind, FileStat, FileSystem, OsFileSystem};
use super::key::{check_key, check_prefix, is_component};
use super::{LargeObject, LogStore, ObjectMeta, ObjectPrefix, OpenError, StoreError};

mod creates;
mod large;
mod piece_size;
mod reserve;
mod root;

use creates::Creates;
use large::LocalLargeObject;
pub use reserve::LocalOptions;
use root::{empty_staging, make_durable_root};

const STAGING_DIR: &str = ".tmp";
const LOCK_FILE: &str = ".lock";

/// So many bytes of a deleted object are freed at once.
const FREED_BYTES_MAX: u64 = 1024 * 1024;

/// How many directories are remembered as durable. Only the newest ones of each shard are in use.
const KNOWN_DIRS_MAX: usize = 1024;

/// "Too many open files" of this process and of the machine, which have no `io::ErrorKind`.
const OUT_OF_FILES: [i32; 2] = [24, 23];

/// A store of objects in a local directory.
#[derive(Clone, Debug)]
pub struct DurableLocal<F: FileSystem = OsFileSystem> {
    directory: Arc<Directory<F>>,
}

#[derive(Debug)]
struct Directory<F: FileSystem> {
    file_system: F,
    root: PathBuf,
    location: String,
    access: Access<F::Lock>,
    options: LocalOptions,
    staging_number: AtomicU64,
    creates: Creates,
    /// Directories (as keys) whose own names are durable, with those of all their ancestors.
    known_dirs: Mutex<BTreeSet<String>>,
    /// Held for reading while directories must stay, for writing while one is removed.
    dirs_stay: RwLock<()>,
    failed: OnceLock<StoreError>,
}

#[derive(Debug)]
enum Access<L> {
    ReadOnly,
    /// The lock is held by being kept.
    Exclusive {
        _lock: L,
    },
}

impl DurableLocal {
    /// Opens a directory for reading and writing, and makes it if it does not exist. Nothing is held
    /// back for a full disk. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] if another process has it, or if it is no directory that can be written.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::open_with(root, LocalOptions::NO_RESERVE)
    }

    /// [`DurableLocal::open`] with options.
    ///
    /// # Errors
    /// As [`DurableLocal::open`].
    pub fn open_with(root: impl Into<PathBuf>, options: LocalOptions) -> Result<Self, OpenError> {
        Self::open_on(OsFileSystem, root, options)
    }

    /// Opens a directory for reading beside a process that may be writing to it. Changes nothing.
    /// Blocks.
    ///
    /// # Errors
    /// [`OpenError`] if the directory does not exist or cannot be read.
    pub fn open_read_only(root: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::open_read_only_on(OsFileSystem, root)
    }
}

impl<F: FileSystem> DurableLocal<F> {
    /// [`DurableLocal::open_with`] on a file system of the caller's choice.
    pub fn open_on(
        file_system: F,
        root: impl Into<PathBuf>,
        options: LocalOptions,
    ) -> Result<Self, OpenError> {
        let root = root.into();
        let failed = |error: io::Error| OpenError::from_io(&root, &error);
        make_durable_root(&file_system, &root).map_err(failed)?;
        let lock = file_system.lock(&root.join(LOCK_FILE)).map_err(failed)?;
        let lock = lock.ok_or_else(|| OpenError::InUse { path: root.display().to_string() })?;
        empty_staging(&file_system, &root.join(STAGING_DIR)).map_err(failed)?;
        let store = Self::new(file_system, root, Access::Exclusive { _lock: lock }, options);
        match store.directory.restore_reserve() {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!("no space to hold back {} bytes for a full disk", options.reserve_bytes)
            }
            Err(error) => {
                let path = store.directory.location.clone();
                return Err(OpenError::Failed { path, reason: error.to_string() });
            }
        }
        Ok(store)
    }

    /// [`DurableLocal::open_read_only`] on a file system of the caller's choice.
    pub fn open_read_only_on(file_system: F, root: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let root = root.into();
        let readable = file_system.check_dir(&root).and_then(|()| file_system.read_dir(&root));
        readable.map_err(|error| OpenError::from_io(&root, &error))?;
        Ok(Self::new(file_system, root, Access::ReadOnly, LocalOptions::NO_RESERVE))
    }

    fn new(file_system: F, root: PathBuf, access: Access<F::Lock>, options: LocalOptions) -> Self {
        let directory = Directory {
            file_system,
            location: root.display().to_string(),
            root,
            access,
            options,
            staging_number: AtomicU64::new(0),
            creates: Creates::default(),
            known_dirs: Mutex::default(),
            dirs_stay: RwLock::default(),
            failed: OnceLock::new(),
        };
        Self { directory: Arc::new(directory) }
    }

    /// Runs an operation where it may block. It runs to its end even if nobody waits any more, and
    /// keeps the lock until then.
    async fn run<T: Send + 'static>(
        &self,
        key: &str,
        operation: impl FnOnce(&Directory<F>, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let guarded = |directory: &Directory<F>, key: &str| {
            directory.check_trusted()?;
            let answer = operation(directory, key);
            // Another operation may have failed meanwhile and have taken the kernel's only report.
            directory.check_trusted()?;
            answer
        };
        if !F::BLOCKS {
            return guarded(&self.directory, key);
        }
        let (directory, owned_key) = (Arc::clone(&self.directory), key.to_owned());
        match tokio::task::spawn_blocking(move || guarded(&directory, &owned_key)).await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => Err(StoreError::unavailable(key, error)),
        }
    }
}

#[async_trait]
impl<F: FileSystem> LogStore for DurableLocal<F> {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.run(key, move |directory, key| directory.create(key, &bytes)).await
    }

    async fn create_large(&self, key: &str) -> Result<Box<dyn LargeObject>, StoreError> {
        Ok(Box::new(LocalLargeObject::begin(self, key).await?))
    }

    async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        self.get_range(key, 0..u64::MAX).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes, StoreError> {
        Ok(self.run(key, move |directory, key| directory.read(key, range)).await?.bytes)
    }

    async fn get_adjacent(
        &self,
        key: &str,
        position: u64,
        lengths: &[u64],
    ) -> Result<Vec<Bytes>, StoreError> {
        let lengths = lengths.to_vec();
        self.run(key, move |directory, key| directory.read_adjacent(key, position, &lengths)).await
    }

    async fn get_prefix(&self, key: &str, length: u64) -> Result<ObjectPrefix, StoreError> {
        self.run(key, move |directory, key| directory.read(key, 0..length)).await
    }

    async fn get_prefixes(&self, keys: &[String], length: u64) -> Vec<Result<ObjectPrefix, StoreError>> {
        let owned_keys = keys.to_vec();
        // A failure of the directory itself is that of each read.
        let read = move |directory: &Directory<F>, _: &str| {
            Ok(owned_keys.iter().map(|key| directory.read(key, 0..length)).collect())
        };
        match self.run("", read).await {
            Ok(answers) => answers,
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        self.run(prefix, Directory::list).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.run(key, Directory::delete).await
    }

    async fn sync(&self, key: &str) -> Result<(), StoreError> {
        self.run(key, Directory::sync).await
    }

    async fn release_reserve(&self) -> Result<bool, StoreError> {
        self.run("", |directory, _| directory.release_reserve()).await
    }

    async fn restore_reserve(&self) -> Result<bool, StoreError> {
        self.run("", |directory, _| directory.restore_reserve()).await
    }

    /// None: the puts in flight give company enough, and a put costs a few milliseconds.
    fn linger_default(&self) -> Duration {
        Duration::ZERO
    }

    fn location(&self) -> &str {
        &self.directory.location
    }
}

impl<F: FileSystem> Directory<F> {
    fn create(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_create(key)?;
        let _under_way = self.creates.begin();
        let staging = self.staging_path();
        let result = self.stage(key, &staging, bytes).and_then(|()| self.link(key, &staging));
        self.remove_staged(&staging);
        result
    }

    fn check_create(&self, key: &str) -> Result<(), StoreError> {
        check_key(key)?;
        self.check_writable(key)
    }

    /// A name in staging that nobody else uses.
    fn staging_path(&self) -> PathBuf {
        let number = self.staging_number.fetch_add(1, Ordering::Relaxed);
        self.root.join(STAGING_DIR).join(number.to_string())
    }

    /// Writes the bytes where nobody looks for them, and makes them durable.
    fn stage(&self, key: &str, staging: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let file = self.write_staged(key, staging, bytes)?;
        self.sync_staged(key, staging, &file)
    }

    fn write_staged(&self, key: &str, staging: &Path, bytes: &[u8]) -> Result<F::File, StoreError> {
        let written = self.file_system.write_new(staging, bytes);
        written.map_err(|error| self.write_error(key, staging, &error))
    }

    fn sync_staged(&self, key: &str, staging: &Path, file: &F::File) -> Result<(), StoreError> {
        match self.file_system.sync_file(file) {
            Err(error) if !is_out_of_space(&error) => Err(self.fail(staging, "fsync", &error)),
            // The file system found no room when it came to place what was written. The file has no
            // other name yet, so nothing that matters was lost.
            synced => synced.map_err(|error| self.write_error(key, staging, &error)),
        }
    }

    fn remove_staged(&self, staging: &Path) {
        // A name that stays behind costs space until the next open, which empties the directory.
        let _ = self.file_system.remove_file(staging);
    }

    /// Gives the staged file its key for ever.
    fn link(&self, key: &str, staging: &Path) -> Result<(), StoreError> {
        let parent = parent_of(key);
        let _stay = self.keep_dirs();
        self.ensure_dir(key, parent)?;
        let target = self.path(key);
        match self.file_system.hard_link(staging, &target) {
            Ok(()) => self.sync_dir(parent),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The name may be from a try whose own fsync has not come yet, and the caller is
                // going to rely on it.
                self.sync_dir(parent)?;
                Err(StoreError::AlreadyExists { key: key.to_owned() })
            }
            Err(error) if is_out_of_space(&error) => Err(self.write_error(key, &target, &error)),
            Err(error) => Err(self.fail(&target, "hard link", &error)),
        }
    }

    /// Makes sure that a directory exists and that its name and its ancestors' names are durable. A
    /// directory that is already there is synced too, once: whoever made it may not have come to it.
    fn ensure_dir(&self, key: &str, dir: &str) -> Result<(), StoreError> {
        if dir.is_empty() || self.known_dirs().contains(dir) {
            return Ok(());
        }
        self.ensure_dir(key, parent_of(dir))?;
        let path = self.path(dir);
        match self.file_system.create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.write_error(key, &path, &error));
            }
            _ => self.sync_dir(parent_of(dir))?,
        }
        let mut known_dirs = self.known_dirs();
        if known_dirs.len() >= KNOWN_DIRS_MAX {
            known_dirs.clear();
        }
        known_dirs.insert(dir.to_owned());
        Ok(())
    }

    fn read(&self, key: &str, range: Range<u64>) -> Result<ObjectPrefix, StoreError> {
        self.read_with(key, |file, object_length| {
            let bytes = self.read_clipped(file, range, object_length)?;
            Ok(ObjectPrefix { bytes, object_length })
        })
    }

    fn read_adjacent(&self, key: &str, position: u64, lengths: &[u64]) -> Result<Vec<Bytes>, StoreError> {
        self.read_with(key, |file, object_length| {
            let mut end = position;
            let read_next = |length: &u64| {
                let start = end;
                end = start.saturating_add(*length);
                self.read_clipped(file, start..end, object_length)
            };
            lengths.iter().map(read_next).collect()
        })
    }

    /// Reads of a file that is opened for them, with its length.
    fn read_with<T>(
        &self,
        key: &str,
        read: impl FnOnce(&F::File, u64) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        check_key(key)?;
        let opened = self.file_system.open(&self.path(key));
        let length_of_named = |file: &F::File| match self.file_system.stat(file)? {
            FileStat { names: 0, .. } => Err(io::Error::from(io::ErrorKind::NotFound)),
            FileStat { length, .. } => Ok(length),
        };
        let read = opened.and_then(|file| {
            let answer = read(&file, length_of_named(&file)?);
            // A file that is deleted gets shorter: only with its name still there, what was read is whole.
            length_of_named(&file)?;
            answer
        });
        read.map_err(|error| read_error(key, &error))
    }

    fn read_clipped(&self, file: &F::File, range: Range<u64>, object_length: u64) -> io::Result<Bytes> {
        let position = range.start.min(object_length);
        let length = range.end.min(object_length).saturating_sub(position);
        Ok(self.file_system.read_at(file, position, length)?.into())
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let mut pending = vec![check_prefix(prefix)?.to_owned()];
        let mut objects = Vec::new();
        while let Some(dir) = pending.pop() {
            let entries = match self.file_system.read_dir(&self.path(&dir)) {
                Err(error) if is_absent(&error) => continue,
                other => other.map_err(|error| read_error(&dir, &error))?,
            };
            for entry in entries.into_iter().filter(|entry| is_component(&entry.name)) {
                let key = if dir.is_empty() { entry.name } else { format!("{dir}/{}", entry.name) };
                match entry.kind {
                    EntryKind::Directory => pending.push(key),
                    EntryKind::File { length } => objects.push(ObjectMeta { key, length }),
                }
            }
        }
        objects.sort_unstable();
        Ok(objects)
    }

    /// A name that comes back after a crash is harmless as long as its file is whole.
    fn delete(&self, key: &str) -> Result<(), StoreError> {
        check_key(key)?;
        self.check_writable(key)?;
        let path = self.path(key);
        // A file that cannot be opened is removed all the same, and freed at once.
        let file = self.file_system.open_writable(&path).ok();
        let stay = self.keep_dirs();
        match self.file_system.remove_file(&path) {
            Err(error) if !is_absent(&error) => return Err(read_error(key, &error)),
            _ => {}
        }
        if file.as_ref().is_some_and(|file| self.unnamed_length(file) > FREED_BYTES_MAX) {
            // Otherwise a crash might bring the name back, of a file that was cut.
            self.sync_dir(parent_of(key))?;
        }
        drop(stay);
        if let Some(file) = file {
            self.free(&file);
        }
        self.remove_empty_dirs(parent_of(key));
        Ok(())
    }

    /// Frees the bytes of a file without a name piece by piece. A file system that tells the device of
    /// all at once holds up every fsync meanwhile.
    fn free(&self, file: &F::File) {
        let mut left = self.unnamed_length(file);
        while left > FREED_BYTES_MAX {
            left = (left - 1) / FREED_BYTES_MAX * FREED_BYTES_MAX;
            let cut = || {
                self.file_system.truncate(file, left)?;
                // With the next create, all that was freed until then would be told.
                self.creates.took_recently().map_or(Ok(()), |_| self.file_system.sync_file(file))
            };
            if self.creates.give_way_after(cut).0.is_err() {
                // Nobody needs the file any more. What is left of it goes when it is closed.
                return;
            }
        }
    }

    /// 0 if the file has a name still, or another one: in a copy that was made of hard links it is
    /// somebody's.
    fn unnamed_length(&self, file: &F::File) -> u64 {
        match self.file_system.stat(file) {
            Ok(FileStat { length, names: 0 }) => length,
            _ => 0,
        }
    }

    /// Removes a directory and its ancestors as long as they are empty. One that stays behind costs a
    /// little space, and goes with the next delete below it.
    fn remove_empty_dirs(&self, mut dir: &str) {
        while !dir.is_empty() {
            let path = self.path(dir);
            // Asked first, because nobody can create while a removal is tried.
            if !matches!(self.file_system.is_empty_dir(&path), Ok(true)) {
                return;
            }
            let _alone = self.dirs_stay.write().expect("no holder of the lock panics");
            if self.file_system.remove_dir(&path).is_err() {
                return;
            }
            self.known_dirs().remove(dir);
            dir = parent_of(dir);
        }
    }

    /// A reader that cannot write promises nothing to anybody, so it leaves this to the writer.
    fn sync(&self, key: &str) -> Result<(), StoreError> {
        check_key(key)?;
        let _stay = self.keep_dirs();
        let path = self.path(key);
        let file = self.file_system.open(&path).map_err(|error| read_error(key, &error))?;
        if matches!(self.access, Access::ReadOnly) {
            return Ok(());
        }
        self.file_system.sync_file(&file).map_err(|error| self.fail(&path, "fsync", &error))?;
        self.ensure_dir(key, parent_of(key))?;
        self.sync_dir(parent_of(key))
    }

    fn sync_dir(&self, dir: &str) -> Result<(), StoreError> {
        let path = self.path(dir);
        self.file_system.sync_dir(&path).map_err(|error| self.fail(&path, "fsync", &error))
    }

    fn path(&self, key: &str) -> PathBuf {
        // Joining nothing would add a slash.
        if key.is_empty() { self.root.clone() } else { self.root.join(key) }
    }

    fn known_dirs(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.known_dirs.lock().expect("no holder of the lock panics")
    }

    fn keep_dirs(&self) -> RwLockReadGuard<'_, ()> {
        self.dirs_stay.read().expect("no holder of the lock panics")
    }

    fn check_trusted(&self) -> Result<(), StoreError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn check_writable(&self, key: &str) -> Result<(), StoreError> {
        match self.access {
            Access::Exclusive { .. } => Ok(()),
            Access::ReadOnly => {
                let reason = format!("{} is open for reading only", self.location);
                Err(StoreError::Denied { key: key.to_owned(), reason })
            }
        }
    }

    /// Sorts a failure before anything was published.
    fn write_error(&self, key: &str, path: &Path, error: &io::Error) -> StoreError {
        let (key, reason) = (key.to_owned(), error.to_string());
        match error.kind() {
            _ if is_out_of_space(error) => StoreError::NoSpace { key, reason },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::Denied { key, reason }
            }
            io::ErrorKind::Interrupted | io::ErrorKind::OutOfMemory => {
                StoreError::Unavailable { key, reason }
            }
            _ if error.raw_os_error().is_some_and(|code| OUT_OF_FILES.contains(&code)) => {
                StoreError::Unavailable { key, reason }
            }
            _ => self.fail(path, "write", error),
        }
    }

    /// Ends all trust in this directory. The first failure is the one that is told.
    fn fail(&self, path: &Path, step: &str, error: &io::Error) -> StoreError {
        let failure = StoreError::local_failed(path, format!("{step} failed: {error}"));
        self.failed.get_or_init(|| failure).clone()
    }
}

fn parent_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn is_out_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Sorts a failure that changed nothing on disk.
fn read_error(key: &str, error: &io::Error) -> StoreError {
    let (key, reason) = (key.to_owned(), error.to_string());
    match error.kind() {
        _ if is_absent(error) => StoreError::NotFound { key },
        io::ErrorKind::IsADirectory => StoreError::NotFound { key },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::Denied { key, reason }
        }
        _ if is_out_of_space(error) => StoreError::NoSpace { key, reason },
        _ => StoreError::Unavailable { key, reason },
    }
}

#[cfg(test)]
mod tests;
