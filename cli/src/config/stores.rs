//! How object stores are reached: the sections `s3`, `gcs` and `azure`, and the variables that the
//! tools of these clouds share, which count where none of our own says otherwise.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strandline_storage::object::{
    Addressing, AzureSettings, GcsSettings, LocalOptions, S3Settings, Secret, StoreSettings, Transport,
};

use super::Config;
use crate::failure::Failure;

/// The variables that the tools of the clouds share, with the settings that they stand for. Of two for
/// one setting the first counts.
pub const SHARED_VARIABLES: [(&str, &str); 28] = [
    ("AWS_ENDPOINT_URL_S3", "s3.endpoint"),
    ("AWS_ENDPOINT_URL", "s3.endpoint"),
    ("AWS_REGION", "s3.region"),
    ("AWS_DEFAULT_REGION", "s3.region"),
    ("AWS_ACCESS_KEY_ID", "s3.access_key_id"),
    ("AWS_SECRET_ACCESS_KEY", "s3.secret_access_key"),
    ("AWS_SESSION_TOKEN", "s3.session_token"),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "s3.web_identity_token_file"),
    ("AWS_ROLE_ARN", "s3.role_arn"),
    ("AWS_ROLE_SESSION_NAME", "s3.role_session_name"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "s3.container_credentials_relative_uri"),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "s3.container_credentials_full_uri"),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "s3.container_authorization_token_file"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "gcs.credentials_file"),
    ("GOOGLE_SERVICE_ACCOUNT", "gcs.credentials_file"),
    ("GOOGLE_SERVICE_ACCOUNT_PATH", "gcs.credentials_file"),
    ("GOOGLE_SERVICE_ACCOUNT_KEY", "gcs.service_account_key"),
    ("AZURE_STORAGE_ACCOUNT_NAME", "azure.account"),
    ("AZURE_STORAGE_ACCOUNT", "azure.account"),
    ("AZURE_STORAGE_ACCOUNT_KEY", "azure.access_key"),
    ("AZURE_STORAGE_ACCESS_KEY", "azure.access_key"),
    ("AZURE_STORAGE_KEY", "azure.access_key"),
    ("AZURE_STORAGE_SAS_TOKEN", "azure.sas_token"),
    ("AZURE_STORAGE_ENDPOINT", "azure.endpoint"),
    ("AZURE_TENANT_ID", "azure.tenant_id"),
    ("AZURE_CLIENT_ID", "azure.client_id"),
    ("AZURE_CLIENT_SECRET", "azure.client_secret"),
    ("AZURE_FEDERATED_TOKEN_FILE", "azure.federated_token_file"),
];

/// Settings that belong together: those of one source are never completed from another.
const S3_KEYS: [&str; 3] = ["s3.access_key_id", "s3.secret_access_key", "s3.session_token"];

/// The settings whose shared variables count, when `is_set` tells what our own sources say.
pub fn shared_variables(is_set: impl Fn(&str) -> bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own_keys = S3_KEYS.iter().any(|key| is_set(key));
    SHARED_VARIABLES.into_iter().filter(move |(_, key)| !(own_keys && S3_KEYS.contains(key)))
}

/// True if a value for this key is taken as it is written, also when it looks like a number.
pub fn is_text(key: &str) -> bool {
    let sections = ["s3.", "gcs.", "azure.", "tls."];
    let is_one = key == "admin_password" || sections.iter().any(|section| key.starts_with(section));
    is_one && !key.ends_with(".allow_http") && !key.ends_with(".path_style")
}

/// A text that is read but never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretText(Secret);

impl SecretText {
    /// The text, for whoever it is made for.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Secret::new(text)))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct S3Config {
    /// The server's URL without the bucket; AWS if it is not set.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Whether the bucket is in the path of a URL; the endpoint decides if it is not set.
    pub path_style: Option<bool>,
    pub allow_http: bool,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<SecretText>,
    pub session_token: Option<SecretText>,
    pub web_identity_token_file: Option<String>,
    pub role_arn: Option<String>,
    pub role_session_name: Option<String>,
    pub container_credentials_relative_uri: Option<String>,
    pub container_credentials_full_uri: Option<String>,
    pub container_authorization_token_file: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GcsConfig {
    pub endpoint: Option<String>,
    pub allow_http: bool,
    pub credentials_file: Option<String>,
    pub service_account_key: Option<SecretText>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AzureConfig {
    pub account: Option<String>,
    pub endpoint: Option<String>,
    pub allow_http: bool,
    pub access_key: Option<SecretText>,
    pub sas_token: Option<SecretText>,
    pub tenant_id: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<SecretText>,
    pub federated_token_file: Option<String>,
}

impl Config {
    /// How the store of the data is opened.
    pub fn store_settings(&self) -> StoreSettings {
        StoreSettings {
            local: LocalOptions { reserve_bytes: self.storage.reserve_bytes.0 },
            s3: self.s3.settings(),
            gcs: self.gcs.settings(),
            azure: self.azure.settings(),
            request_timeout: self.storage.request_timeout.0,
        }
    }
}

impl S3Config {
    pub fn check(&self) -> Result<(), Failure> {
        let (set, missing) = match (&self.access_key_id, &self.secret_access_key) {
            (Some(_), None) => ("s3.access_key_id", "s3.secret_access_key"),
            (None, Some(_)) => ("s3.secret_access_key", "s3.access_key_id"),
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!("{set} is set and {missing} is not; they go together")))
    }

    fn settings(&self) -> S3Settings {
        let addressing = |is_path| if is_path { Addressing::Path } else { Addressing::VirtualHost };
        S3Settings {
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            addressing: self.path_style.map(addressing),
            transport: transport(self.allow_http),
            access_key_id: self.access_key_id.clone(),
            secret_access_key: secret(&self.secret_access_key),
            session_token: secret(&self.session_token),
            web_identity_token_file: self.web_identity_token_file.clone(),
            role_arn: self.role_arn.clone(),
            role_session_name: self.role_session_name.clone(),
            container_credentials_relative_uri: self.container_credentials_relative_uri.clone(),
            container_credentials_full_uri: self.container_credentials_full_uri.clone(),
            container_authorization_token_file: self.container_authorization_token_file.clone(),
        }
    }
}

impl GcsConfig {
    fn settings(&self) -> GcsSettings {
        GcsSettings {
            endpoint: self.endpoint.clone(),
            transport: transport(self.allow_http),
            credentials_file: self.credentials_file.clone(),
            service_account_key: secret(&self.service_account_key),
        }
    }
}

impl AzureConfig {
    fn settings(&self) -> AzureSettings {
        AzureSettings {
            account: self.account.clone(),
            endpoint: self.endpoint.clone(),
            transport: transport(self.allow_http),
            access_key: secret(&self.access_key),
            sas_token: secret(&self.sas_token),
            tenant_id: self.tenant_id.clone(),
            client_id: self.client_id.clone(),
            client_secret: secret(&self.client_secret),
            federated_token_file: self.federated_token_file.clone(),
        }
    }
}

fn transport(allow_http: bool) -> Transport {
    if allow_http { Transport::PlainAllowed } else { Transport::EncryptedOnly }
}

fn secret(text: &Option<SecretText>) -> Option<Secret> {
    text.as_ref().map(|text| text.0.clone())
}
