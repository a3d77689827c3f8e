//! Stores that a command opens by itself, without a server.

use std::io::IsTerminal;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use strandline_storage::log::verify::Progress;
use strandline_storage::object::{DataLocation, LocalOptions, LogStore, OpenError, StoreSettings};

use crate::config;
use crate::failure::Failure;

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Beside a server, and changing nothing.
    Read,
    /// By this process alone.
    Write,
}

/// Opens the store at a path or URL.
///
/// # Errors
/// [`Failure::Usage`] for a location that makes no sense, [`Failure::Unreachable`] for one that cannot be
/// opened.
pub async fn open_store(data: &str, access: Access) -> Result<Arc<dyn LogStore>, Failure> {
    let location: DataLocation =
        data.parse().map_err(|error: OpenError| Failure::Usage(error.to_string()))?;
    let settings = match location {
        DataLocation::Remote(_) => config::load_store_settings()?,
        DataLocation::Local(_) | DataLocation::Memory => {
            StoreSettings { local: LocalOptions::NO_RESERVE, ..StoreSettings::default() }
        }
    };
    let open = move || match access {
        Access::Read => location.open_read_only(&settings),
        Access::Write => location.open(&settings),
    };
    tokio::task::spawn_blocking(open)
        .await
        .map_err(|error| Failure::failed(format!("opening {data} was interrupted: {error}")))?
        .map_err(|error| Failure::Unreachable(error.to_string()))
}

/// A bar of bytes on a terminal, nothing elsewhere.
#[derive(Debug)]
pub struct ByteBar(Option<ProgressBar>);

impl ByteBar {
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        let style = style.expect("the template is the text above");
        Self(Some(ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style)))
    }

    pub fn show(&self, progress: Progress) {
        if let Some(bar) = &self.0 {
            bar.set_length(progress.bytes_total.max(progress.bytes));
            bar.set_position(progress.bytes);
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// `1536` as `1.5 KiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_fits() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
