//! `strandline version`: of the binary, and of the formats that it reads and writes.

use strandline_storage::format::FORMAT_VERSION;

use crate::args::VersionArgs;
use crate::failure::Failure;
use crate::output::print;

/// `strandline version`.
pub fn run(args: &VersionArgs) -> Result<(), Failure> {
    let mut text = format!("strandline {}\n", env!("CARGO_PKG_VERSION"));
    if args.formats {
        text.push_str(&format!("durable format: writes {FORMAT_VERSION}, reads 1 to {FORMAT_VERSION}\n"));
        text.push_str("record batch: writes 2, reads 2\n");
    }
    print(&text)
}
