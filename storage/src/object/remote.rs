//! Remote stores: what `s3://`, `gs://` and `az://` name, and the clients that reach it.
//!
//! Invariant: a put-if-absent is sent once. All else may be sent again on a passing failure, for a few
//! seconds.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector, ReqwestConnector, SpawnedReqwestConnector};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use tokio::runtime::Handle;

use super::key::check_prefix;
use super::object_store_backend::Access;
use super::store_settings::{
    Addressing, AzureSettings, GcsSettings, S3Settings, Secret, StoreSettings, Transport,
};
use super::{ObjectStoreBackend, OpenError};

/// Keys have 1,024 bytes with the prefix, and ours are short.
const PREFIX_BYTES_MAX: usize = 512;

/// Company for a commit costs it some latency, and saves what a request costs.
const LINGER_DEFAULT: Duration = Duration::from_millis(250);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A passing failure is worth a few tries, but a request that had no answer in time is not: whoever
/// waits for it would wait as long again.
const RETRIES_MAX: usize = 4;
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// The kinds of remote stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteKind {
    S3,
    Gcs,
    Azure,
}

impl RemoteKind {
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::S3),
            "gs" => Some(Self::Gcs),
            "az" => Some(Self::Azure),
            _ => None,
        }
    }

    pub fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }
}

/// A bucket (or container) and a prefix in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLocation {
    pub kind: RemoteKind,
    pub bucket: String,
    /// Without slashes at its ends; empty for the whole bucket.
    pub prefix: String,
}

impl RemoteLocation {
    /// Reads what follows `scheme://`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(kind: RemoteKind, rest: &str) -> Result<Self, String> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(format!("it names no bucket, as in {}://bucket/prefix", kind.scheme()));
        }
        if bucket.contains('@') {
            return Err("credentials do not belong in the location; give them as settings".to_owned());
        }
        if !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
            return Err(format!("{bucket} cannot be the name of a bucket"));
        }
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(format!("its prefix has {} bytes, more than {PREFIX_BYTES_MAX}", prefix.len()));
        }
        let prefix = check_prefix(prefix).map_err(|error| error.to_string())?;
        Ok(Self { kind, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// Makes the clients. Sends nothing.
    pub(super) fn open(
        &self,
        settings: &StoreSettings,
        access: Access,
    ) -> Result<ObjectStoreBackend, OpenError> {
        let failed = |reason: &dyn fmt::Display| OpenError::Settings {
            location: self.to_string(),
            reason: reason.to_string(),
        };
        let client = |retries_max| {
            let client = Client { settings, retries_max };
            client.build(self).map_err(|error| failed(&error))
        };
        Ok(ObjectStoreBackend {
            once: client(0)?,
            patient: client(RETRIES_MAX)?,
            prefix: self.prefix.clone(),
            location: self.to_string(),
            linger_default: LINGER_DEFAULT,
            access,
        })
    }
}

impl fmt::Display for RemoteLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.kind.scheme(), self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

/// One client with its own connections.
struct Client<'a> {
    settings: &'a StoreSettings,
    retries_max: usize,
}

type BuildError = Box<dyn Error + Send + Sync>;

impl Client<'_> {
    fn build(&self, location: &RemoteLocation) -> Result<Arc<dyn ObjectStore>, BuildError> {
        match location.kind {
            RemoteKind::S3 => self.s3(&location.bucket, &self.settings.s3),
            RemoteKind::Gcs => self.gcs(&location.bucket, &self.settings.gcs),
            RemoteKind::Azure => self.azure(&location.bucket, &self.settings.azure),
        }
    }

    fn s3(&self, bucket: &str, settings: &S3Settings) -> Result<Arc<dyn ObjectStore>, BuildError> {
        let is_plain = check_transport("s3", settings.endpoint.as_deref(), settings.transport)?;
        let addressing = settings.addressing.unwrap_or(match settings.endpoint {
            Some(_) => Addressing::Path,
            // A dot in the name of a bucket matches no certificate.
            None if bucket.contains('.') => Addressing::Path,
            None => Addressing::VirtualHost,
        });
        let mut builder = AmazonS3Builder::new()
            .with_client_options(self.options(settings.transport))
            .with_retry(self.retry())
            .with_http_connector(Connector::new())
            .with_bucket_name(bucket)
            .with_virtual_hosted_style_request(addressing == Addressing::VirtualHost)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            // Encrypted bytes arrive as they were sent; hashing them again would only cost time.
            .with_unsigned_payload(!is_plain);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(bucket_endpoint(endpoint, bucket, addressing));
        }
        for (key, value) in s3_credentials(settings) {
            builder = builder.with_config(key, value);
        }
        Ok(Arc::new(builder.build()?))
    }

    fn gcs(&self, bucket: &str, settings: &GcsSettings) -> Result<Arc<dyn ObjectStore>, BuildError> {
        check_transport("gcs", settings.endpoint.as_deref(), settings.transport)?;
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_client_options(self.options(settings.transport))
            .with_retry(self.retry())
            .with_http_connector(Connector::new())
            .with_bucket_name(bucket);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_base_url(endpoint);
        }
        if let Some(key) = &settings.service_account_key {
            builder = builder.with_service_account_key(key.expose());
        } else if let Some(file) = &settings.credentials_file {
            builder = builder.with_application_credentials(file);
        }
        Ok(Arc::new(builder.build()?))
    }

    fn azure(&self, container: &str, settings: &AzureSettings) -> Result<Arc<dyn ObjectStore>, BuildError> {
        check_transport("azure", settings.endpoint.as_deref(), settings.transport)?;
        if settings.account.is_none() {
            return Err("azure.account is not set; it names the storage account".into());
        }
        let mut builder = MicrosoftAzureBuilder::new()
            .with_client_options(self.options(settings.transport))
            .with_retry(self.retry())
            .with_http_connector(Connector::new())
            .with_container_name(container);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        for (key, value) in azure_credentials(settings) {
            builder = builder.with_config(key, value);
        }
        Ok(Arc::new(builder.build()?))
    }

    fn options(&self, transport: Transport) -> ClientOptions {
        ClientOptions::new()
            .with_timeout(self.settings.request_timeout)
            .with_connect_timeout(CONNECT_TIMEOUT.min(self.settings.request_timeout))
            .with_allow_http(transport == Transport::PlainAllowed)
    }

    fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig { init_backoff: BACKOFF_MIN, max_backoff: BACKOFF_MAX, base: 2.0 },
            max_retries: self.retries_max,
            retry_timeout: RETRY_TIMEOUT,
        }
    }
}

/// Does the requests on the runtime that opened the store, whoever waits for them: a runtime that is
/// busy with queries would not move the bytes of a commit.
#[derive(Debug)]
struct Connector(Option<Handle>);

impl Connector {
    fn new() -> Self {
        Self(Handle::try_current().ok())
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        match &self.0 {
            Some(runtime) => SpawnedReqwestConnector::new(runtime.clone()).connect(options),
            None => ReqwestConnector::default().connect(options),
        }
    }
}

/// True for plain HTTP, if that is allowed.
fn check_transport(section: &str, endpoint: Option<&str>, transport: Transport) -> Result<bool, BuildError> {
    let Some(endpoint) = endpoint else { return Ok(false) };
    match endpoint.split_once("://") {
        Some(("https", _)) => Ok(false),
        Some(("http", _)) if transport == Transport::PlainAllowed => Ok(true),
        Some(("http", _)) => Err(format!(
            "{section}.endpoint {endpoint} is not encrypted; use https, or set {section}.allow_http"
        )
        .into()),
        _ => Err(format!("{section}.endpoint {endpoint} is not a URL such as https://host:port").into()),
    }
}

/// The URL under which the keys of a bucket are, as the client wants it.
fn bucket_endpoint(endpoint: &str, bucket: &str, addressing: Addressing) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    match (addressing, endpoint.split_once("://")) {
        (Addressing::VirtualHost, Some((scheme, host))) => format!("{scheme}://{bucket}.{host}"),
        _ => endpoint.to_owned(),
    }
}

/// What is set of the credentials and the region.
fn s3_credentials(settings: &S3Settings) -> impl Iterator<Item = (AmazonS3ConfigKey, String)> {
    use AmazonS3ConfigKey as Key;
    let exposed = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    let values = [
        (Key::Region, settings.region.clone()),
        (Key::AccessKeyId, settings.access_key_id.clone()),
        (Key::SecretAccessKey, exposed(&settings.secret_access_key)),
        (Key::Token, exposed(&settings.session_token)),
        (Key::WebIdentityTokenFile, settings.web_identity_token_file.clone()),
        (Key::RoleArn, settings.role_arn.clone()),
        (Key::RoleSessionName, settings.role_session_name.clone()),
        (Key::ContainerCredentialsRelativeUri, settings.container_credentials_relative_uri.clone()),
        (Key::ContainerCredentialsFullUri, settings.container_credentials_full_uri.clone()),
        (Key::ContainerAuthorizationTokenFile, settings.container_authorization_token_file.clone()),
    ];
    values.into_iter().filter_map(|(key, value)| Some((key, value?)))
}

fn azure_credentials(settings: &AzureSettings) -> impl Iterator<Item = (AzureConfigKey, String)> {
    use AzureConfigKey as Key;
    let exposed = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    let values = [
        (Key::AccountName, settings.account.clone()),
        (Key::AccessKey, exposed(&settings.access_key)),
        (Key::SasKey, exposed(&settings.sas_token)),
        (Key::AuthorityId, settings.tenant_id.clone()),
        (Key::ClientId, settings.client_id.clone()),
        (Key::ClientSecret, exposed(&settings.client_secret)),
        (Key::FederatedTokenFile, settings.federated_token_file.clone()),
    ];
    values.into_iter().filter_map(|(key, value)| Some((key, value?)))
}

#[cfg(test)]
mod tests;
