//! A store on an S3 server in memory.

use std::sync::Arc;

use strandline_s3_mock::{MockOptions, S3Mock};
use strandline_storage::object::{DataLocation, LogStore, S3Settings, Secret, StoreSettings, Transport};

pub async fn start() -> S3Mock {
    S3Mock::start(MockOptions::default()).await.expect("a port is free")
}

pub fn open(mock: &S3Mock, location: &str) -> Arc<dyn LogStore> {
    let location: DataLocation = location.parse().expect("the location is good");
    location.open(&settings(mock)).expect("the settings are good")
}

pub fn settings(mock: &S3Mock) -> StoreSettings {
    let s3 = S3Settings {
        endpoint: Some(mock.endpoint()),
        transport: Transport::PlainAllowed,
        access_key_id: Some("id".to_owned()),
        secret_access_key: Some(Secret::new("key")),
        ..S3Settings::default()
    };
    StoreSettings { s3, ..StoreSettings::default() }
}
