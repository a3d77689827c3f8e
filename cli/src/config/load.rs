//! Where settings come from: flags over environment over file over defaults.

use std::path::Path;

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;

use super::show::keys;
use super::{Auth, Config};
use crate::args::ServeArgs;
use crate::failure::Failure;

const ENVIRONMENT_PREFIX: &str = "STRANDLINE_";

/// Variables with our prefix that are no settings of the server: the client commands' default
/// address, and those of the project's own tests.
const OTHER_VARIABLES: [&str; 4] =
    ["STRANDLINE_BOOTSTRAP", "STRANDLINE_TARGET_DIR", "STRANDLINE_SHARED_DATA", "STRANDLINE_TEST_BINARY"];

/// Reads the settings from every source and checks them.
///
/// # Errors
/// [`Failure::Usage`] naming the key, the source and what would be right; an unknown key is an error.
pub fn load(args: &ServeArgs) -> Result<Config, Failure> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    load_with(args, variables)
}

fn load_with(args: &ServeArgs, variables: impl Iterator<Item = (String, String)>) -> Result<Config, Failure> {
    let mut figment = Figment::new();
    if let Some(path) = &args.config {
        figment = figment.merge(Toml::string(&read_file(path)?));
    }
    figment = variables.filter_map(environment_setting).fold(figment, Figment::merge);
    figment = flag_settings(args).into_iter().flatten().fold(figment, Figment::merge);
    let config = figment.extract::<Config>().map_err(|error| Failure::Usage(describe(error, args)))?;
    config.check()?;
    Ok(config)
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
}

impl Provider for Setting {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Serialized::global(&self.key, &self.value).data()
    }
}

/// `STRANDLINE_KAFKA_DEFAULT_PARTITIONS` sets `kafka.default_partitions`: the dot of each known key
/// is an underscore there. A name that is no key is passed on as it is, and refused as unknown.
fn environment_setting((name, value): (String, String)) -> Option<Setting> {
    let ours = name.strip_prefix(ENVIRONMENT_PREFIX)?.to_ascii_lowercase();
    if OTHER_VARIABLES.contains(&name.as_str()) {
        return None;
    }
    let key = keys().into_iter().find(|key| key.replace('.', "_") == ours).unwrap_or(ours);
    let Ok(value) = value.parse();
    Some(Setting { source: format!("environment variable {name}"), key, value })
}

fn flag_settings(args: &ServeArgs) -> [Option<Setting>; 7] {
    [
        flag("--data", "data", args.data.as_ref()),
        flag("--kafka-listen", "kafka.listen", args.kafka_listen.as_ref()),
        flag("--kafka-advertise", "kafka.advertise", args.kafka_advertise.as_ref()),
        flag("--pg-listen", "pg.listen", args.pg_listen.as_ref()),
        flag("--http-listen", "http.listen", args.http_listen.as_ref()),
        flag("--demo", "demo", args.demo.then_some(true)),
        flag("--no-auth", "auth", args.no_auth.then_some(Auth::None)),
    ]
}

fn flag(name: &str, key: &str, value: Option<impl Serialize>) -> Option<Setting> {
    let value = Value::serialize(value?).expect("a flag's value is a text or a boolean");
    Some(Setting { source: format!("flag {name}"), key: key.to_owned(), value })
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
mod tests {
    use super::*;
    use crate::units::{ByteSize, HostPort, HumanDuration};

    fn load_text(text: &str, variables: &[(&str, &str)], args: ServeArgs) -> Result<Config, Failure> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("strandline.toml");
        std::fs::write(&path, text).expect("the file is written");
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        load_with(&ServeArgs { config: Some(path), ..args }, variables)
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
    fn listening_beyond_this_machine_needs_no_auth_said_aloud() {
        let args = ServeArgs { pg_listen: "0.0.0.0:5432".parse().ok(), ..ServeArgs::default() };
        let failure = load_text("", &[], args.clone()).expect_err("nothing protects the port");
        assert!(failure.to_string().contains("pg.listen is 0.0.0.0:5432"), "{failure}");
        let args = ServeArgs { no_auth: true, ..args };
        let config = load_text("", &[], args).expect("it was said aloud");
        assert_eq!(config.auth, Auth::None);
    }
}
