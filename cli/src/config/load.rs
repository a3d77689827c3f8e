//! Where settings come from: flags over environment over file over the variables that cloud tools
//! share over defaults.

use std::ffi::OsString;
use std::path::Path;

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;

use strandline_storage::object::StoreSettings;

use super::show::keys;
use super::stores::{is_text, shared_variables};
use super::{Auth, Config};
use crate::args::ServeArgs;
use crate::failure::Failure;

const ENVIRONMENT_PREFIX: &str = "STRANDLINE_";

/// Variables with our prefix that are no settings of the server: those of the client commands, and
/// those of the project's own tests.
const OTHER_VARIABLES: [&str; 7] = [
    "STRANDLINE_BOOTSTRAP",
    "STRANDLINE_USER",
    PASSWORD_VARIABLE,
    "STRANDLINE_TARGET_DIR",
    "STRANDLINE_SHARED_DATA",
    "STRANDLINE_TEST_BINARY",
    FAILPOINT_VARIABLE,
];

/// The password of the client commands.
const PASSWORD_VARIABLE: &str = "STRANDLINE_PASSWORD";

/// Where a test wants the process to end. Only builds with debug assertions look at it.
const FAILPOINT_VARIABLE: &str = "STRANDLINE_FAILPOINT";

/// The place at which the process is to end, if a test asks for one.
///
/// # Errors
/// A text that is no place.
#[cfg(debug_assertions)]
pub fn failpoint() -> Result<Option<crate::failpoint::AbortAt>, Failure> {
    let text = environment().into_iter().find(|(name, _)| name == FAILPOINT_VARIABLE);
    text.map(|(_, text)| text.parse().map_err(Failure::Usage)).transpose()
}

/// The password that the client commands prove their user with, if the environment has one.
pub fn client_password() -> Option<String> {
    environment().into_iter().find(|(name, _)| name == PASSWORD_VARIABLE).map(|(_, password)| password)
}

/// Reads the settings from every source and checks them.
///
/// # Errors
/// [`Failure::Usage`] naming the key, the source and what would be right; an unknown key is an error.
pub fn load(args: &ServeArgs) -> Result<Config, Failure> {
    let config = extract(args, &environment())?;
    config.check()?;
    Ok(config)
}

/// How object stores are reached, for a command that has no settings of a server.
///
/// # Errors
/// As [`load`].
pub fn load_store_settings() -> Result<StoreSettings, Failure> {
    Ok(extract(&ServeArgs::default(), &environment())?.store_settings())
}

type Variables = Vec<(String, String)>;

fn environment() -> Variables {
    let as_text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(as_text).collect()
}

fn extract(args: &ServeArgs, variables: &Variables) -> Result<Config, Failure> {
    let mut figment = Figment::new();
    if let Some(path) = &args.config {
        figment = figment.merge(Toml::string(&read_file(path)?));
    }
    figment = variables.iter().filter_map(environment_setting).fold(figment, Figment::merge);
    figment = flag_settings(args).into_iter().flatten().fold(figment, Figment::merge);
    let shared = shared_settings(&figment, variables);
    figment = shared.into_iter().fold(figment, Figment::join);
    figment.extract::<Config>().map_err(|error| Failure::Usage(describe(error, args)))
}

fn read_file(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read the settings file {}: {error}", path.display())))
}

/// One value for one key, with where it came from for messages.
struct Setting {
    source: String,
    key: String,
    value: Value,
    rank: Rank,
}

/// Whether a setting counts before the file's or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    BeforeFile,
    AfterFile,
}

impl Provider for Setting {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        match self.rank {
            Rank::BeforeFile => Serialized::global(&self.key, &self.value).data(),
            Rank::AfterFile => Serialized::default(&self.key, &self.value).data(),
        }
    }
}

/// `STRANDLINE_KAFKA_DEFAULT_PARTITIONS` sets `kafka.default_partitions`: the dot of each known key
/// is an underscore there. A name that is no key is passed on as it is, and refused as unknown.
fn environment_setting((name, value): &(String, String)) -> Option<Setting> {
    let ours = name.strip_prefix(ENVIRONMENT_PREFIX)?.to_ascii_lowercase();
    if OTHER_VARIABLES.contains(&name.as_str()) {
        return None;
    }
    let key = keys().into_iter().find(|key| key.replace('.', "_") == ours).unwrap_or(ours);
    let value = if is_text(&key) { Value::from(value.as_str()) } else { parsed(value) };
    Some(Setting { source: format!("environment variable {name}"), key, value, rank: Rank::BeforeFile })
}

fn parsed(value: &str) -> Value {
    let Ok(value) = value.parse();
    value
}

/// What the variables that cloud tools share say, beside our own settings.
fn shared_settings(own: &Figment, variables: &Variables) -> Vec<Setting> {
    let setting = |(shared, key): (&'static str, &'static str)| {
        let (name, value) = variables.iter().find(|(name, value)| name == shared && !value.is_empty())?;
        let source = format!("environment variable {name}");
        let (key, value) = (key.to_owned(), Value::from(value.as_str()));
        Some(Setting { source, key, value, rank: Rank::AfterFile })
    };
    shared_variables(|key| own.find_value(key).is_ok()).filter_map(setting).collect()
}

fn flag_settings(args: &ServeArgs) -> [Option<Setting>; 9] {
    [
        flag("--data", "data", args.data.as_ref()),
        flag("--kafka-listen", "kafka.listen", args.kafka_listen.as_ref()),
        flag("--kafka-advertise", "kafka.advertise", args.kafka_advertise.as_ref()),
        flag("--pg-listen", "pg.listen", args.pg_listen.as_ref()),
        flag("--http-listen", "http.listen", args.http_listen.as_ref()),
        flag("--shards", "storage.shards", args.shards),
        flag("--demo", "demo", args.demo.then_some(true)),
        flag("--auth", "auth", args.auth),
        flag("--no-auth", "auth", args.no_auth.then_some(Auth::None)),
    ]
}

fn flag(name: &str, key: &str, value: Option<impl Serialize>) -> Option<Setting> {
    let value = Value::serialize(value?).expect("a flag's value is a text, a number or a boolean");
    Some(Setting { source: format!("flag {name}"), key: key.to_owned(), value, rank: Rank::BeforeFile })
}

fn describe(error: figment::Error, args: &ServeArgs) -> String {
    let file = args.config.as_ref().map(|path| format!(" (settings file {})", path.display()));
    let first = error.into_iter().next().map(|error| error.to_string());
    format!(
        "{}{}",
        first.unwrap_or_else(|| "the settings cannot be read".to_owned()),
        file.unwrap_or_default()
    )
}

#[cfg(test)]
pub(super) mod tests {
    use strandline_storage::object::{Addressing, Secret, Transport};

    use super::super::{masked_entries, to_toml};
    use super::*;
    use crate::units::{ByteSize, HostPort, HumanDuration};

    /// The settings of a file, of variables and of flags.
    pub(crate) fn load_text(
        text: &str,
        variables: &[(&str, &str)],
        args: ServeArgs,
    ) -> Result<Config, Failure> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("strandline.toml");
        std::fs::write(&path, text).expect("the file is written");
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let config = extract(&ServeArgs { config: Some(path), ..args }, &variables.collect())?;
        config.check()?;
        Ok(config)
    }

    #[test]
    fn flags_win_over_environment_which_wins_over_the_file() {
        let text = "data = \"file\"\n[kafka]\ndefault_partitions = 2\n[pg]\nlisten = \"127.0.0.1:1\"\n";
        let variables = [
            ("STRANDLINE_DATA", "environment"),
            ("STRANDLINE_KAFKA_DEFAULT_PARTITIONS", "3"),
            ("STRANDLINE_STORAGE_TAIL_BYTES_MAX", "2MiB"),
            ("STRANDLINE_TARGET_DIR", "/elsewhere"),
            ("PATH", "/bin"),
        ];
        let args = ServeArgs { data: Some("flag".to_owned()), ..ServeArgs::default() };
        let config = load_text(text, &variables, args).expect("the settings are right");
        assert_eq!(config.data, "flag");
        assert_eq!(config.kafka.default_partitions, 3);
        assert_eq!(config.pg.listen, HostPort::loopback(1));
        assert_eq!(config.storage.tail_bytes_max, ByteSize::mebibytes(2));
        assert_eq!(config.http, Config::default().http);
    }

    #[test]
    fn an_unknown_variable_is_an_error_that_names_it() {
        let variables = [("STRANDLINE_KAFKA_LISTN", "127.0.0.1:1")];
        let failure = load_text("", &variables, ServeArgs::default()).expect_err("the name is not known");
        assert!(failure.to_string().contains("STRANDLINE_KAFKA_LISTN"), "{failure}");
    }

    #[test]
    fn an_unknown_key_of_the_file_is_an_error_that_names_it() {
        let failure = load_text("[kafka]\nlissen = \"127.0.0.1:1\"\n", &[], ServeArgs::default())
            .expect_err("the key is not known");
        assert!(failure.to_string().contains("lissen"), "{failure}");
        assert!(failure.to_string().contains("strandline.toml"), "{failure}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_an_error_that_names_its_key() {
        let failure = load_text("[storage]\ntail_bytes_max = \"64 megs\"\n", &[], ServeArgs::default())
            .expect_err("no such unit");
        let message = failure.to_string();
        assert!(message.contains("tail_bytes_max") && message.contains("64MiB"), "{message}");
    }

    #[test]
    fn sizes_and_durations_are_read_as_written() {
        let text = "[kafka]\nidle_timeout = \"7d\"\n[storage]\ncache_bytes_max = 4096\nlinger = \"250ms\"\n";
        let config = load_text(text, &[], ServeArgs::default()).expect("the settings are right");
        assert_eq!(config.kafka.idle_timeout, HumanDuration::seconds(7 * 86_400));
        assert_eq!(config.storage.cache_bytes_max, ByteSize(4096));
        assert_eq!(config.storage.linger.map(HumanDuration::as_millis), Some(250));
    }

    #[test]
    fn store_settings_come_from_our_own_sources_and_then_from_shared_variables() {
        let text = "[s3]\nendpoint = \"https://own:9000\"\npath_style = false\n";
        let variables = [
            ("AWS_ENDPOINT_URL", "https://shared:9000"),
            ("AWS_DEFAULT_REGION", "second"),
            ("AWS_REGION", "first"),
            ("AWS_ACCESS_KEY_ID", "0123"),
            ("AWS_SECRET_ACCESS_KEY", "45e67"),
            ("STRANDLINE_S3_ALLOW_HTTP", "true"),
            ("STRANDLINE_GCS_SERVICE_ACCOUNT_KEY", "{\"type\": \"service_account\"}"),
        ];
        let config = load_text(text, &variables, ServeArgs::default()).expect("the settings are right");
        let settings = config.store_settings();
        assert_eq!(settings.s3.endpoint.as_deref(), Some("https://own:9000"));
        assert_eq!(settings.s3.region.as_deref(), Some("first"));
        assert_eq!(settings.s3.access_key_id.as_deref(), Some("0123"));
        assert_eq!(settings.s3.secret_access_key, Some(Secret::new("45e67")));
        assert_eq!(settings.s3.addressing, Some(Addressing::VirtualHost));
        assert_eq!(settings.s3.transport, Transport::PlainAllowed);
        let key = settings.gcs.service_account_key.expect("it is set");
        assert_eq!(key.expose(), "{\"type\": \"service_account\"}");
    }

    #[test]
    fn own_keys_are_not_completed_from_shared_ones() {
        let text = "[s3]\naccess_key_id = \"own\"\nsecret_access_key = \"hush\"\n";
        let variables = [("AWS_ACCESS_KEY_ID", "shared"), ("AWS_SESSION_TOKEN", "of the shared ones")];
        let config = load_text(text, &variables, ServeArgs::default()).expect("the settings are right");
        assert_eq!(config.s3.access_key_id.as_deref(), Some("own"));
        assert_eq!(config.s3.session_token, None);
        let half = "[s3]\naccess_key_id = \"own\"\n";
        let variables = [("AWS_SECRET_ACCESS_KEY", "shared")];
        let failure = load_text(half, &variables, ServeArgs::default()).expect_err("a key without its pair");
        assert!(failure.to_string().contains("s3.secret_access_key"), "{failure}");
    }

    #[test]
    fn secrets_are_shown_masked() {
        let variables = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hush")];
        let config = load_text("", &variables, ServeArgs::default()).expect("the settings are right");
        let shown = format!("{}{:?}{:?}", to_toml(&config), masked_entries(&config), config);
        assert!(shown.contains("secret_access_key = \"***\"") && !shown.contains("hush"), "{shown}");
    }
}
