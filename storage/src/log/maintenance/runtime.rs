//! A runtime of its own for maintenance.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// A runtime for the maintenance of logs: checksums, decompression and copies of megabytes must not
/// stand in the way of the tasks that answer requests, which last microseconds. For
/// [`LogSettings::maintenance_runtime`](crate::log::LogSettings::maintenance_runtime); it must outlive
/// the log.
///
/// # Errors
/// The operating system gives no threads.
pub fn maintenance_runtime() -> io::Result<Runtime> {
    // A quarter of the processors: shards are compacted beside each other, but requests come first.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(processors.div_ceil(4))
        .thread_name("maintenance")
        .enable_all()
        .build()
}
