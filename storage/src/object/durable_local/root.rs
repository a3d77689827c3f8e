//! A data directory as it has to be before anything is put into it.

use std::io;
use std::path::Path;

use crate::object::file_system::{EntryKind, FileSystem};

/// Makes the root with its missing ancestors, and the names of all of them durable. Those that were
/// there already may have been made by a process that ended before it came to sync them.
pub(super) fn make_durable_root(file_system: &impl FileSystem, root: &Path) -> io::Result<()> {
    let mut ancestors: Vec<&Path> = root.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
    ancestors.reverse();
    for path in ancestors {
        let made = match file_system.check_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_dir(file_system, path).map(|()| true)
            }
            other => other.map(|()| false),
        }?;
        match file_system.sync_dir(parent_dir(path)) {
            // Made for this user by somebody else, who answers for its name.
            Err(error) if !made && cannot_sync(&error) => {}
            other => other?,
        }
    }
    Ok(())
}

/// True if it is not for this user, or not for this kind of file system, to sync a directory.
fn cannot_sync(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported)
}

/// Removes what creates left behind when their process ended in the middle.
pub(super) fn empty_staging(file_system: &impl FileSystem, staging: &Path) -> io::Result<()> {
    make_dir(file_system, staging)?;
    for entry in file_system.read_dir(staging)? {
        if matches!(entry.kind, EntryKind::File { .. }) {
            file_system.remove_file(&staging.join(entry.name))?;
        }
    }
    Ok(())
}

fn make_dir(file_system: &impl FileSystem, path: &Path) -> io::Result<()> {
    match file_system.create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => file_system.check_dir(path),
        other => other,
    }
}

fn parent_dir(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
