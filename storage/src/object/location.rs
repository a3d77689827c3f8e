//! Where the data is: what the user wrote as `--data`, checked once.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use super::{DurableLocal, LogStore, ObjectStoreBackend, OpenError};

/// A place for objects that this build can open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataLocation {
    Local(PathBuf),
    /// Ends with the process.
    Memory,
}

const SUPPORTED: &str = "this build supports a path, file:///PATH and memory://";

impl FromStr for DataLocation {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let unsupported = |reason: String| OpenError::Unsupported { location: text.to_owned(), reason };
        if text.is_empty() {
            return Err(unsupported(format!("the location is empty; {SUPPORTED}")));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "memory" if rest.is_empty() || rest == "/" => Ok(Self::Memory),
            "memory" => Err(unsupported("memory:// takes no path".to_owned())),
            "file" => file_url_path(rest).map(Self::Local).map_err(|reason| unsupported(reason.to_owned())),
            "s3" | "gs" | "az" => Err(unsupported(format!("{scheme}:// is not supported yet; {SUPPORTED}"))),
            _ => Err(unsupported(format!("unknown scheme {scheme}://; {SUPPORTED}"))),
        }
    }
}

/// The path in what follows `file://`.
fn file_url_path(rest: &str) -> Result<PathBuf, &'static str> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err("a file URL holds an absolute path, as in file:///var/lib/strandline");
    }
    if path.contains(['%', '?', '#']) {
        return Err("escapes in a file URL are not supported; give the plain path");
    }
    Ok(PathBuf::from(path))
}

impl fmt::Display for DataLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Memory => f.write_str("memory://"),
        }
    }
}

impl DataLocation {
    /// Opens the store for the one process that writes to it. Blocks.
    pub fn open(&self) -> Result<Arc<dyn LogStore>, OpenError> {
        match self {
            Self::Local(path) => Ok(Arc::new(DurableLocal::open(path)?)),
            Self::Memory => Ok(Arc::new(ObjectStoreBackend::memory())),
        }
    }

    /// Opens the store for reading, beside a process that may be writing to it. Blocks.
    ///
    /// # Errors
    /// Memory of another process cannot be read, and one's own is always empty.
    pub fn open_read_only(&self) -> Result<Arc<dyn LogStore>, OpenError> {
        match self {
            Self::Local(path) => Ok(Arc::new(DurableLocal::open_read_only(path)?)),
            Self::Memory => Err(OpenError::Unsupported {
                location: self.to_string(),
                reason: "data in memory can be read only through the server that holds it".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DataLocation, String> {
        text.parse().map_err(|error: OpenError| error.to_string())
    }

    #[test]
    fn paths_and_file_urls_are_local() {
        for (text, path) in [
            ("./strandline-data", "./strandline-data"),
            ("/var/lib/x y", "/var/lib/x y"),
            ("file:///var/lib/x", "/var/lib/x"),
            ("file://localhost/var/lib/x", "/var/lib/x"),
        ] {
            assert_eq!(parse(text), Ok(DataLocation::Local(PathBuf::from(path))));
        }
        assert_eq!(parse("memory://"), Ok(DataLocation::Memory));
    }

    #[test]
    fn what_is_not_supported_is_refused_with_what_is() {
        for text in ["s3://bucket/x", "gs://bucket", "az://container", "hdfs://x", ""] {
            let message = parse(text).expect_err(text);
            assert!(message.starts_with(&format!("--data {text}")), "{message}");
            assert!(message.contains("supports a path, file:///PATH and memory://"), "{message}");
        }
        for text in ["file://relative", "file:///a%20b", "memory://name"] {
            parse(text).expect_err(text);
        }
    }

    #[test]
    fn memory_cannot_be_opened_beside_a_server() {
        DataLocation::Memory.open_read_only().expect_err("there is nothing to read");
    }
}
