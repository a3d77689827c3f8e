//! Where the data is: what the user wrote as `--data`, checked once.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use super::object_store_backend::Access;
use super::remote::{RemoteKind, RemoteLocation};
use super::{DurableLocal, LogStore, ObjectStoreBackend, OpenError, StoreSettings};

/// A place for objects that this build can open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataLocation {
    Local(PathBuf),
    /// Ends with the process.
    Memory,
    Remote(RemoteLocation),
}

const SUPPORTED: &str = "a path, file:///PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX \
                         and memory:// are supported";

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
        let scheme = scheme.to_ascii_lowercase();
        if let Some(kind) = RemoteKind::of_scheme(&scheme) {
            return RemoteLocation::parse(kind, rest).map(Self::Remote).map_err(|reason| {
                // What was written may hold a password.
                OpenError::Unsupported { location: format!("{scheme}://"), reason }
            });
        }
        match scheme.as_str() {
            "memory" if rest.is_empty() || rest == "/" => Ok(Self::Memory),
            "memory" => Err(unsupported("memory:// takes no path".to_owned())),
            "file" => file_url_path(rest).map(Self::Local).map_err(|reason| unsupported(reason.to_owned())),
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
            Self::Remote(location) => location.fmt(f),
        }
    }
}

impl DataLocation {
    /// Opens the store for a process that writes to it. Blocks. Nothing is asked of a remote store yet;
    /// [`probe`](super::probe()) does that.
    ///
    /// # Errors
    /// [`OpenError`] as one sentence.
    pub fn open(&self, settings: &StoreSettings) -> Result<Arc<dyn LogStore>, OpenError> {
        match self {
            Self::Local(path) => Ok(Arc::new(DurableLocal::open_with(path, settings.local)?)),
            Self::Memory => Ok(Arc::new(ObjectStoreBackend::memory())),
            Self::Remote(location) => Ok(Arc::new(location.open(settings, Access::ReadWrite)?)),
        }
    }

    /// Opens the store for reading, beside a process that may be writing to it. Blocks.
    ///
    /// # Errors
    /// Memory of another process cannot be read, and one's own is always empty.
    pub fn open_read_only(&self, settings: &StoreSettings) -> Result<Arc<dyn LogStore>, OpenError> {
        match self {
            Self::Remote(location) => Ok(Arc::new(location.open(settings, Access::ReadOnly)?)),
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
        for text in ["hdfs://x", ""] {
            let message = parse(text).expect_err(text);
            assert!(message.starts_with(&format!("--data {text}")), "{message}");
            assert!(message.contains("a path, file:///PATH, s3://BUCKET/PREFIX"), "{message}");
        }
        for text in ["file://relative", "file:///a%20b", "memory://name", "s3://", "gs:///x", "az://a b"] {
            parse(text).expect_err(text);
        }
    }

    #[test]
    fn buckets_are_remote() {
        for text in ["s3://bucket/x", "gs://bucket", "az://container/x/y"] {
            let location: DataLocation = text.parse().expect(text);
            assert!(matches!(location, DataLocation::Remote(_)), "{text}");
            assert_eq!(location.to_string(), text);
        }
    }

    #[test]
    fn credentials_in_a_location_are_refused_and_not_printed() {
        let refusal = parse("s3://key:secret@bucket/x").expect_err("they do not belong there");
        assert!(!refusal.contains("secret"), "{refusal}");
    }

    #[test]
    fn memory_cannot_be_opened_beside_a_server() {
        DataLocation::Memory.open_read_only(&StoreSettings::default()).expect_err("there is nothing to read");
    }
}
