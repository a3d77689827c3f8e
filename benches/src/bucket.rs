//! A bucket on an S3 server in memory, in this process, reached over HTTP as a real one would be.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use strandline_s3_mock::{Counts, MockOptions, S3Mock};
use strandline_storage::object::{DataLocation, LogStore, S3Settings, Secret, StoreSettings, Transport};

const LOCATION: &str = "s3://bucket/x";

#[derive(Debug)]
pub struct Bucket {
    mock: S3Mock,
    pub store: Arc<dyn LogStore>,
}

impl Bucket {
    /// A bucket whose server waits so long before it carries out a request.
    pub async fn start(latency: Duration) -> Result<Self> {
        let options = MockOptions { latency, ..MockOptions::default() };
        let mock = S3Mock::start(options).await.context("starting the S3 server")?;
        let s3 = S3Settings {
            endpoint: Some(mock.endpoint()),
            transport: Transport::PlainAllowed,
            access_key_id: Some("id".to_owned()),
            secret_access_key: Some(Secret::new("key")),
            ..S3Settings::default()
        };
        let settings = StoreSettings { s3, ..StoreSettings::default() };
        let location: DataLocation = LOCATION.parse().context("reading the location")?;
        let store = location.open(&settings).context("opening the bucket")?;
        Ok(Self { mock, store })
    }

    /// From now on the server waits so long.
    pub fn set_latency(&self, latency: Duration) {
        self.mock.set_latency(latency);
    }

    /// What the server was asked for since the last call.
    pub fn take_counts(&self) -> Counts {
        let counts = self.mock.counts();
        self.mock.reset_counts();
        counts
    }

    /// Bytes of all objects.
    pub fn stored_bytes(&self) -> u64 {
        self.mock.objects().values().map(|bytes| bytes.len() as u64).sum()
    }
}

/// Requests that are billed as a put: all that write, and listings.
pub fn puts(counts: &Counts) -> u64 {
    let uploads = counts.uploads_created + counts.parts + counts.uploads_completed;
    counts.puts + uploads + counts.lists
}

/// Requests that are billed as a get.
pub fn gets(counts: &Counts) -> u64 {
    counts.gets + counts.heads
}
