//! A file system in memory, for tests and simulations, that keeps what was synced apart from what was
//! not, so that a crash can drop the latter.
//!
//! Contents become durable by an fsync of their file, names by an fsync of their directory, and a
//! directory that is itself not durable takes all below it along. No order between unsynced changes
//! is kept: that is less than any real file system gives, so what survives here survives there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::file_system::{DirEntry, EntryKind, FileStat, FileSystem};

const ROOT: u64 = 0;

/// The operations that can be counted, failed, or made to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimOperation {
    Lock,
    CreateDir,
    RemoveDir,
    ReadDir,
    WriteNew,
    Append,
    Open,
    Read,
    SyncFile,
    SyncDir,
    HardLink,
    RemoveFile,
    Truncate,
}

/// A file system in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimFileSystem {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    nodes: BTreeMap<u64, Node>,
    next_node: u64,
    counts: BTreeMap<SimOperation, u64>,
    total: u64,
    power_fails_at: Option<u64>,
    failures: Vec<Failure>,
    capacity: Option<usize>,
    lying: BTreeSet<SimOperation>,
    locks: BTreeMap<u64, Weak<SimLock>>,
}

#[derive(Debug)]
struct Failure {
    operation: SimOperation,
    at: u64,
    kind: io::ErrorKind,
}

#[derive(Clone, Debug)]
enum Node {
    Directory { names: BTreeMap<String, u64>, durable_names: BTreeMap<String, u64> },
    File { content: Vec<u8>, durability: Durability },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    Unsynced,
    Synced,
    /// An fsync failed. The pages count as clean, so that a later fsync reports success for nothing.
    Lost,
}

/// Held like a lock on a file.
#[derive(Debug)]
pub struct SimLock;

impl Default for State {
    fn default() -> Self {
        let root = Node::Directory { names: BTreeMap::new(), durable_names: BTreeMap::new() };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next_node: ROOT + 1,
            counts: BTreeMap::new(),
            total: 0,
            power_fails_at: None,
            failures: Vec::new(),
            capacity: None,
            lying: BTreeSet::new(),
            locks: BTreeMap::new(),
        }
    }
}

impl SimFileSystem {
    /// How many operations were asked for so far.
    pub fn operations(&self) -> u64 {
        self.state().total
    }

    pub fn count(&self, operation: SimOperation) -> u64 {
        self.state().counts.get(&operation).copied().unwrap_or(0)
    }

    /// From the operation with this number on (counted from 0) nothing happens any more, until
    /// [`SimFileSystem::crash`].
    pub fn fail_power_at(&self, operation_number: u64) {
        self.state().power_fails_at = Some(operation_number);
    }

    /// The next operation of this kind after `skipped` more fails. A write that fails leaves half of
    /// its bytes, as on a full disk.
    pub fn fail_after(&self, operation: SimOperation, skipped: u64, kind: io::ErrorKind) {
        let mut state = self.state();
        let at = state.counts.get(&operation).copied().unwrap_or(0) + skipped;
        state.failures.push(Failure { operation, at, kind });
    }

    /// From now on files can have so many bytes together.
    pub fn set_capacity(&self, bytes: usize) {
        self.state().capacity = Some(bytes);
    }

    /// Syncs of this kind report success without doing anything: a test of tests.
    pub fn ignore_syncs(&self, operation: SimOperation) {
        self.state().lying.insert(operation);
    }

    /// Ends power and comes back. Each change that was not synced survives if `survives` says so;
    /// contents that do not survive are cut in the middle.
    pub fn crash(&self, mut survives: impl FnMut() -> bool) {
        let mut state = self.state();
        for node in state.nodes.values_mut() {
            node.lose_unsynced(&mut survives);
        }
        state.power_fails_at = None;
        state.failures.clear();
        state.locks.clear();
    }

    /// Ends the process only: all that it did stays visible, and its locks are released.
    pub fn kill(&self) {
        let mut state = self.state();
        state.power_fails_at = None;
        state.locks.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    fn begin(&self, operation: SimOperation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.begin(operation)?;
        Ok(state)
    }
}

impl Node {
    fn lose_unsynced(&mut self, survives: &mut impl FnMut() -> bool) {
        match self {
            Self::Directory { names, durable_names } => {
                let all: BTreeSet<&String> = names.keys().chain(durable_names.keys()).collect();
                let kept = all.into_iter().filter_map(|name| {
                    let (new, old) = (names.get(name), durable_names.get(name));
                    let node = if new == old || survives() { new } else { old };
                    node.map(|node| (name.clone(), *node))
                });
                let kept: BTreeMap<String, u64> = kept.collect();
                *durable_names = kept.clone();
                *names = kept;
            }
            Self::File { content, durability } => {
                if *durability != Durability::Synced && !survives() {
                    content.truncate(content.len() / 2);
                }
                *durability = Durability::Synced;
            }
        }
    }
}

impl State {
    fn begin(&mut self, operation: SimOperation) -> io::Result<()> {
        let number = self.total;
        self.total += 1;
        let count = self.counts.entry(operation).or_insert(0);
        let nth = *count;
        *count += 1;
        if self.power_fails_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("the power has failed"));
        }
        let due = |failure: &Failure| failure.operation == operation && failure.at == nth;
        match self.failures.iter().find(|failure| due(failure)) {
            Some(failure) => Err(failure.kind.into()),
            None => Ok(()),
        }
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        let mut node = ROOT;
        for component in path.components() {
            if let Component::Normal(name) = component {
                let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
                node = *self.names(node)?.get(name).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(node)
    }

    fn names(&self, node: u64) -> io::Result<&BTreeMap<String, u64>> {
        match &self.nodes[&node] {
            Node::Directory { names, .. } => Ok(names),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn names_around<'a>(&mut self, path: &'a Path) -> io::Result<(&mut BTreeMap<String, u64>, &'a str)> {
        let parent = self.find(path.parent().ok_or(io::ErrorKind::AlreadyExists)?)?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        match self.node_mut(parent) {
            Node::Directory { names, .. } => Ok((names, name)),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn node_mut(&mut self, node: u64) -> &mut Node {
        self.nodes.get_mut(&node).expect("nodes are never taken away")
    }

    fn insert(&mut self, path: &Path, node: Node) -> io::Result<u64> {
        let id = self.next_node;
        self.add_name(path, id)?;
        self.nodes.insert(id, node);
        self.next_node += 1;
        Ok(id)
    }

    fn add_name(&mut self, path: &Path, node: u64) -> io::Result<()> {
        let (names, name) = self.names_around(path)?;
        if names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        names.insert(name.to_owned(), node);
        Ok(())
    }

    fn content(&self, file: u64) -> io::Result<&[u8]> {
        match &self.nodes[&file] {
            Node::File { content, .. } => Ok(content),
            Node::Directory { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// The bytes that fit, and whether they are all.
    fn fitting<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], io::Result<()>) {
        let Some(capacity) = self.capacity else { return (bytes, Ok(())) };
        let room = capacity.saturating_sub(self.used_bytes());
        match bytes.get(..room) {
            Some(fitting) if room < bytes.len() => (fitting, Err(io::ErrorKind::StorageFull.into())),
            _ => (bytes, Ok(())),
        }
    }

    /// Of all files that have a name, each counted once.
    fn used_bytes(&self) -> usize {
        let named: BTreeSet<u64> = self.all_names().collect();
        named.iter().filter_map(|node| self.content(*node).ok()).map(<[u8]>::len).sum()
    }

    /// What each name stands for.
    fn all_names(&self) -> impl Iterator<Item = u64> {
        let names = self.nodes.values().filter_map(|node| match node {
            Node::Directory { names, .. } => Some(names.values().copied()),
            Node::File { .. } => None,
        });
        names.flatten()
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<u64> {
        let content = content.to_vec();
        self.insert(path, Node::File { content, durability: Durability::Unsynced })
    }
}

impl FileSystem for SimFileSystem {
    type File = u64;
    type Lock = Arc<SimLock>;
    const BLOCKS: bool = false;

    fn lock(&self, path: &Path) -> io::Result<Option<Arc<SimLock>>> {
        let mut state = self.begin(SimOperation::Lock)?;
        let file = match state.find(path) {
            Ok(file) => file,
            Err(_) => state.write(path, &[])?,
        };
        if state.locks.get(&file).is_some_and(|lock| lock.upgrade().is_some()) {
            return Ok(None);
        }
        let lock = Arc::new(SimLock);
        state.locks.insert(file, Arc::downgrade(&lock));
        Ok(Some(lock))
    }

    fn check_dir(&self, path: &Path) -> io::Result<()> {
        let state = self.begin(SimOperation::ReadDir)?;
        state.names(state.find(path)?).map(drop)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(SimOperation::CreateDir)?;
        let empty = Node::Directory { names: BTreeMap::new(), durable_names: BTreeMap::new() };
        state.insert(path, empty).map(drop)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(SimOperation::RemoveDir)?;
        if !state.names(state.find(path)?)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (names, name) = state.names_around(path)?;
        names.remove(name);
        Ok(())
    }

    fn is_empty_dir(&self, path: &Path) -> io::Result<bool> {
        let state = self.begin(SimOperation::ReadDir)?;
        Ok(state.names(state.find(path)?)?.is_empty())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.begin(SimOperation::ReadDir)?;
        let names = state.names(state.find(path)?)?;
        let entry = |(name, node): (&String, &u64)| {
            let kind = match &state.nodes[node] {
                Node::Directory { .. } => EntryKind::Directory,
                Node::File { content, .. } => EntryKind::File { length: content.len() as u64 },
            };
            DirEntry { name: name.clone(), kind }
        };
        Ok(names.iter().map(entry).collect())
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<u64> {
        let mut state = self.state();
        match state.begin(SimOperation::WriteNew) {
            Ok(()) => {
                let (fitting, outcome) = state.fitting(bytes);
                let file = state.write(path, fitting)?;
                outcome.map(|()| file)
            }
            Err(error) => {
                if state.power_fails_at.is_none() {
                    state.write(path, &bytes[..bytes.len() / 2])?;
                }
                Err(error)
            }
        }
    }

    fn append(&self, file: &mut u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let (written, outcome) = match state.begin(SimOperation::Append) {
            Ok(()) => state.fitting(bytes),
            Err(error) if state.power_fails_at.is_some() => (&bytes[..0], Err(error)),
            Err(error) => (&bytes[..bytes.len() / 2], Err(error)),
        };
        if let Node::File { content, durability } = state.node_mut(*file) {
            content.extend_from_slice(written);
            if *durability == Durability::Synced {
                *durability = Durability::Unsynced;
            }
        }
        outcome
    }

    fn open(&self, path: &Path) -> io::Result<u64> {
        let state = self.begin(SimOperation::Open)?;
        let file = state.find(path)?;
        state.content(file)?;
        Ok(file)
    }

    fn open_writable(&self, path: &Path) -> io::Result<u64> {
        self.open(path)
    }

    fn stat(&self, file: &u64) -> io::Result<FileStat> {
        let state = self.state();
        let length = state.content(*file)?.len() as u64;
        let names = state.all_names().filter(|node| node == file).count() as u64;
        Ok(FileStat { length, names })
    }

    fn read_at(&self, file: &u64, position: u64, length: u64) -> io::Result<Vec<u8>> {
        let state = self.begin(SimOperation::Read)?;
        let content = state.content(*file)?;
        let position = usize::try_from(position).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = position.checked_add(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(content.get(position..end).ok_or(io::ErrorKind::UnexpectedEof)?.to_vec())
    }

    fn sync_file(&self, file: &u64) -> io::Result<()> {
        let mut state = self.state();
        let begun = state.begin(SimOperation::SyncFile);
        let lies = state.lying.contains(&SimOperation::SyncFile);
        if let Node::File { durability: durability @ Durability::Unsynced, .. } = state.node_mut(*file) {
            match &begun {
                Err(_) => *durability = Durability::Lost,
                Ok(()) if !lies => *durability = Durability::Synced,
                Ok(()) => {}
            }
        }
        begun
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(SimOperation::SyncDir)?;
        let dir = state.find(path)?;
        if state.lying.contains(&SimOperation::SyncDir) {
            return Ok(());
        }
        match state.node_mut(dir) {
            Node::Directory { names, durable_names } => durable_names.clone_from(names),
            Node::File { .. } => return Err(io::ErrorKind::NotADirectory.into()),
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin(SimOperation::HardLink)?;
        let file = state.find(from)?;
        state.add_name(to, file)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(SimOperation::RemoveFile)?;
        let file = state.find(path)?;
        state.content(file)?;
        let (names, name) = state.names_around(path)?;
        names.remove(name);
        Ok(())
    }

    fn truncate(&self, file: &u64, length: u64) -> io::Result<()> {
        let mut state = self.begin(SimOperation::Truncate)?;
        if let Node::File { content, .. } = state.node_mut(*file) {
            content.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
        Ok(())
    }
}
