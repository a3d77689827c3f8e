//! A file of no meaning that takes up space, so that there is some to give back on a full disk: what
//! gives more space back (a delete, a commit that says so) needs a little first.
//!
//! Invariant: under its own name the file is whole. It grows in staging.

use std::path::{Path, PathBuf};

use super::{Access, Directory};
use crate::object::StoreError;
use crate::object::file_system::FileSystem;

const RESERVE_FILE: &str = ".reserve";
const PIECE_BYTES: u64 = 1 << 20;

/// How a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// How much space is held back for a full disk.
    pub reserve_bytes: u64,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self { reserve_bytes: 64 << 20 }
    }
}

impl LocalOptions {
    /// Holds nothing back.
    pub const NO_RESERVE: Self = Self { reserve_bytes: 0 };
}

impl<F: FileSystem> Directory<F> {
    /// True if there was a reserve.
    pub(super) fn release_reserve(&self) -> Result<bool, StoreError> {
        if matches!(self.access, Access::ReadOnly) {
            return Ok(false);
        }
        let path = self.reserve_path();
        match self.file_system.remove_file(&path) {
            Err(error) if super::is_absent(&error) => Ok(false),
            removed => removed.map(|()| true).map_err(|error| super::read_error(RESERVE_FILE, &error)),
        }
    }

    /// True if the reserve is whole, false if there is no space for it.
    pub(super) fn restore_reserve(&self) -> Result<bool, StoreError> {
        if matches!(self.access, Access::ReadOnly) || self.reserve_length() == self.options.reserve_bytes {
            return Ok(true);
        }
        // It is of another size than was asked for.
        self.release_reserve()?;
        if self.options.reserve_bytes == 0 {
            return Ok(true);
        }
        let staging = self.staging_path();
        let made = self.write_reserve(&staging).and_then(|()| self.publish_reserve(&staging));
        self.remove_staged(&staging);
        match made {
            Err(StoreError::NoSpace { .. }) => Ok(false),
            made => made.map(|()| true),
        }
    }

    fn reserve_path(&self) -> PathBuf {
        self.root.join(RESERVE_FILE)
    }

    /// 0 if there is none.
    fn reserve_length(&self) -> u64 {
        let file = self.file_system.open(&self.reserve_path());
        file.and_then(|file| self.file_system.stat(&file)).map_or(0, |stat| stat.length)
    }

    fn write_reserve(&self, staging: &Path) -> Result<(), StoreError> {
        let piece = incompressible(PIECE_BYTES);
        let mut file = self.write_staged(RESERVE_FILE, staging, &[])?;
        let mut missing = self.options.reserve_bytes;
        while missing > 0 {
            let length = missing.min(PIECE_BYTES);
            let bytes = &piece[..usize::try_from(length).expect("a piece fits into memory")];
            let appended = self.file_system.append(&mut file, bytes);
            appended.map_err(|error| self.write_error(RESERVE_FILE, staging, &error))?;
            missing -= length;
        }
        self.sync_staged(RESERVE_FILE, staging, &file)
    }

    /// The name need not survive a crash: the next open makes the reserve again.
    fn publish_reserve(&self, staging: &Path) -> Result<(), StoreError> {
        let path = self.reserve_path();
        match self.file_system.hard_link(staging, &path) {
            // Somebody else has made it meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked.map_err(|error| self.write_error(RESERVE_FILE, &path, &error)),
        }
    }
}

/// Bytes that a file system which compresses takes at their full length.
fn incompressible(length: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let words = (0..length.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_reserve_do_not_compress() {
        let bytes = incompressible(PIECE_BYTES);
        let compressed = zstd::bulk::compress(&bytes, 9).expect("zstd takes any bytes");
        assert!(compressed.len() >= bytes.len(), "{} bytes", compressed.len());
    }
}
