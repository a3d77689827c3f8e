//! The few synchronous operations of a file system that a durable store needs, and the operating
//! system's own.
//!
//! They are so small that every promise (what an fsync covers) is visible in the caller, and that a
//! test can put a file system in their place which forgets what was not synced.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file system. Every call may block.
pub trait FileSystem: Clone + fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: Send;
    /// Held for as long as the directory is in use.
    type Lock: fmt::Debug + Send + Sync;
    /// Whether calls wait for a device, so that they belong on a thread of their own.
    const BLOCKS: bool;

    /// Takes the exclusive lock on a lock file, which is made if it is not there. `None` if another
    /// holder has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Self::Lock>>;
    /// Fails with `NotFound`, or with `NotADirectory` if something else is there.
    fn check_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes one directory whose parent exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory. Fails with `DirectoryNotEmpty` if anything is in it.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    fn is_empty_dir(&self, path: &Path) -> io::Result<bool>;
    /// The files and directories in a directory, in any order. Other things are left out.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes a file that must not exist and writes all bytes. Nothing is durable yet.
    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<Self::File>;
    /// Appends to a file that [`FileSystem::write_new`] made. Nothing is durable yet.
    fn append(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;
    /// Opens a file for reading. Fails with `IsADirectory` on a directory.
    fn open(&self, path: &Path) -> io::Result<Self::File>;
    /// Opens a file so that it can be truncated. Nothing is changed yet.
    fn open_writable(&self, path: &Path) -> io::Result<Self::File>;
    fn stat(&self, file: &Self::File) -> io::Result<FileStat>;
    /// Reads exactly `length` bytes from `position`.
    fn read_at(&self, file: &Self::File, position: u64, length: u64) -> io::Result<Vec<u8>>;
    /// Makes the content of a file durable (not its name).
    fn sync_file(&self, file: &Self::File) -> io::Result<()>;
    /// Makes the names in a directory durable (not the directory's own name).
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name. Fails with `AlreadyExists` if the name is taken.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a name away. The bytes go when no name is left and nobody has the file open.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Shortens a file.
    fn truncate(&self, file: &Self::File, length: u64) -> io::Result<()>;
}

/// What is known of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub length: u64,
    /// How many names it has; none once it is deleted.
    pub names: u64,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub name: String,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    Directory,
    File { length: u64 },
}

/// The operating system's file system.
#[derive(Clone, Copy, Debug)]
pub struct OsFileSystem;

impl FileSystem for OsFileSystem {
    type File = File;
    type Lock = File;
    const BLOCKS: bool = true;

    fn lock(&self, path: &Path) -> io::Result<Option<File>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn check_dir(&self, path: &Path) -> io::Result<()> {
        match fs::metadata(path)?.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn is_empty_dir(&self, path: &Path) -> io::Result<bool> {
        Ok(fs::read_dir(path)?.next().is_none())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let metadata = match entry.metadata() {
                // Deleted since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            if metadata.is_dir() {
                entries.push(DirEntry { name, kind: EntryKind::Directory });
            } else if metadata.is_file() {
                entries.push(DirEntry { name, kind: EntryKind::File { length: metadata.len() } });
            }
        }
        Ok(entries)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        Ok(file)
    }

    fn append(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let file = File::open(path)?;
        match file.metadata()?.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        }
    }

    fn open_writable(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).open(path)
    }

    fn stat(&self, file: &File) -> io::Result<FileStat> {
        let metadata = file.metadata()?;
        Ok(FileStat { length: metadata.len(), names: metadata.nlink() })
    }

    fn read_at(&self, mut file: &File, position: u64, length: u64) -> io::Result<Vec<u8>> {
        let capacity = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(capacity).map_err(|_| io::ErrorKind::OutOfMemory)?;
        file.seek(SeekFrom::Start(position))?;
        file.take(length).read_to_end(&mut bytes)?;
        if bytes.len() < capacity {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }
}
