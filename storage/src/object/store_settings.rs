//! How stores are opened: endpoints, credentials and bounds, as values.
//!
//! Invariant: nothing here reads the environment, and no secret is ever printed.

use std::fmt;
use std::time::Duration;

use super::LocalOptions;

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for whoever needs it to sign.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Settings of all kinds of stores. The location decides which ones are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    pub local: LocalOptions,
    pub s3: S3Settings,
    pub gcs: GcsSettings,
    pub azure: AzureSettings,
    /// How long a request may take with its whole body, before it counts as failed.
    pub request_timeout: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            local: LocalOptions::default(),
            s3: S3Settings::default(),
            gcs: GcsSettings::default(),
            azure: AzureSettings::default(),
            request_timeout: Duration::from_secs(25),
        }
    }
}

/// Whether requests may go unencrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    EncryptedOnly,
    /// Plain HTTP where the endpoint says so.
    PlainAllowed,
}

/// Where the bucket's name goes in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// `https://endpoint/bucket/key`, as most S3-compatible servers have it.
    Path,
    /// `https://bucket.endpoint/key`, as AWS has it.
    VirtualHost,
}

/// Settings for `s3://`. Without any credentials those of the machine's role are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Settings {
    /// The server's URL, without the bucket; AWS if not set.
    pub endpoint: Option<String>,
    /// us-east-1 if not set.
    pub region: Option<String>,
    /// If not set: path for an endpoint, virtual host for AWS.
    pub addressing: Option<Addressing>,
    pub transport: Transport,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<Secret>,
    pub session_token: Option<Secret>,
    pub web_identity_token_file: Option<String>,
    pub role_arn: Option<String>,
    pub role_session_name: Option<String>,
    pub container_credentials_relative_uri: Option<String>,
    pub container_credentials_full_uri: Option<String>,
    pub container_authorization_token_file: Option<String>,
}

/// Settings for `gs://`. Without any credentials those of the machine's account are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcsSettings {
    pub endpoint: Option<String>,
    pub transport: Transport,
    /// A file with the key of a service account, or with application default credentials.
    pub credentials_file: Option<String>,
    /// The key of a service account itself, as JSON.
    pub service_account_key: Option<Secret>,
}

/// Settings for `az://`. Without any credentials those of the machine's identity are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureSettings {
    pub account: Option<String>,
    pub endpoint: Option<String>,
    pub transport: Transport,
    pub access_key: Option<Secret>,
    /// The query string of a shared access signature.
    pub sas_token: Option<Secret>,
    pub tenant_id: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub federated_token_file: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let s3 = S3Settings { secret_access_key: Some(Secret::new("hush")), ..S3Settings::default() };
        let settings = StoreSettings { s3, ..StoreSettings::default() };
        let printed = format!("{settings:?}");
        assert!(printed.contains("***") && !printed.contains("hush"), "{printed}");
    }
}
