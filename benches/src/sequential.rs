//! The least that reading or copying data takes: files, one after the other, from front to end.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::measure::{Rate, Stopwatch};

const PIECE_BYTES: usize = 4 * 1024 * 1024;

/// Reads whole files.
pub async fn read(files: Vec<PathBuf>) -> Result<Rate> {
    let read = tokio::task::spawn_blocking(move || {
        let watch = Stopwatch::default();
        let bytes = read_all(&files, |_| Ok(()))?;
        Ok(Rate { bytes, elapsed: watch.elapsed() })
    });
    read.await.context("reading the files")?
}

/// Reads whole files and writes their bytes to a new one, which is durable at the end.
pub async fn copy(files: Vec<PathBuf>, target: PathBuf) -> Result<Rate> {
    let copied = tokio::task::spawn_blocking(move || {
        let watch = Stopwatch::default();
        let name = || format!("writing {}", target.display());
        let mut file = File::create_new(&target).with_context(name)?;
        let bytes = read_all(&files, |piece| file.write_all(piece).with_context(name))?;
        file.sync_all().with_context(name)?;
        let directory = target.parent().unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).with_context(name)?;
        Ok(Rate { bytes, elapsed: watch.elapsed() })
    });
    copied.await.context("copying the files")?
}

fn read_all(files: &[PathBuf], mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    for path in files {
        let name = || format!("reading {}", path.display());
        let mut file = File::open(path).with_context(name)?;
        loop {
            let read = file.read(&mut piece).with_context(name)?;
            if read == 0 {
                break;
            }
            take(&piece[..read])?;
            bytes += read as u64;
        }
    }
    Ok(bytes)
}
