//! Ends the process at a named place of the log, so that a test can see what is left. Only in builds
//! with debug assertions: a released binary has no such places.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use strandline_storage::seam::Failpoints;

/// A place, and how often it is passed before the process ends there.
#[derive(Debug)]
pub struct AbortAt {
    name: String,
    passes_left: AtomicU64,
}

impl FromStr for AbortAt {
    type Err = String;

    /// Reads `NAME` or `NAME:PASSES`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, passes) = text.split_once(':').unwrap_or((text, "0"));
        let passes = passes.parse().map_err(|_| format!("failpoint {text}: {passes} is no number"))?;
        Ok(Self { name: name.to_owned(), passes_left: AtomicU64::new(passes) })
    }
}

impl Failpoints for AbortAt {
    fn reach(&self, name: &str) {
        if name != self.name {
            return;
        }
        let pass = |left: u64| left.checked_sub(1);
        if self.passes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pass).is_err() {
            eprintln!("failpoint {name}: the process ends here");
            std::process::abort();
        }
    }
}
