//! The settings as text: the list of keys, a TOML file, and entries fit for a log.

use serde_json::Value;

use super::Config;

/// Every key, as `section.name` or `name`.
pub fn keys() -> Vec<String> {
    entries(&Config::default()).into_iter().map(|(key, _)| key).collect()
}

/// The settings in effect, secrets masked: what `serve` logs when it starts.
pub fn masked_entries(config: &Config) -> Vec<(String, String)> {
    entries(config).into_iter().map(|(key, value)| (key, value_text(&masked(value)))).collect()
}

/// The settings as a TOML file that says the same, but for masked secrets.
pub fn to_toml(config: &Config) -> String {
    let mut text = String::new();
    let mut section = "";
    let entries = entries(config);
    for (key, value) in &entries {
        let (of_section, name) = key.split_once('.').unwrap_or(("", key));
        if of_section != section {
            section = of_section;
            text.push_str(&format!("\n[{section}]\n"));
        }
        match value {
            Value::Null => text.push_str(&format!("# {name} is not set\n")),
            value => text.push_str(&format!("{name} = {}\n", value_text(&masked(value.clone())))),
        }
    }
    text
}

/// All settings, those outside a section first.
fn entries(config: &Config) -> Vec<(String, Value)> {
    let Ok(Value::Object(root)) = serde_json::to_value(config) else {
        unreachable!("settings are a struct of values that serde_json can hold")
    };
    let mut bare = Vec::new();
    let mut sectioned = Vec::new();
    for (key, value) in root {
        match value {
            Value::Object(section) => {
                sectioned.extend(section.into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
            }
            value => bare.push((key, value)),
        }
    }
    bare.extend(sectioned);
    bare
}

/// As TOML has it: a table in a list is written in one line.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(value_text).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            let fields: Vec<String> =
                set.map(|(name, value)| format!("{name} = {}", value_text(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        value => value.to_string(),
    }
}

/// A URL may carry a user name and a password.
fn masked(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(mask_url(&text)),
        value => value,
    }
}

fn mask_url(text: &str) -> String {
    let parts = text.split_once("://").and_then(|(scheme, rest)| {
        let authority_length = rest.find('/').unwrap_or(rest.len());
        let at = rest[..authority_length].rfind('@')?;
        Some((scheme, &rest[at..]))
    });
    parts.map_or_else(|| text.to_owned(), |(scheme, rest)| format!("{scheme}://***{rest}"))
}

#[cfg(test)]
mod tests {
    use figment::Figment;
    use figment::providers::{Format, Toml};

    use super::super::{ClientCertificate, KafkaTls, ListenerConfig, Names, PgTls};
    use super::*;
    use crate::units::HostPort;

    #[test]
    fn the_toml_reads_back_as_the_same_settings() {
        let mut config = Config { demo: true, ..Config::default() };
        config.kafka.advertise = "example.com:9092".parse().ok();
        config.pg.tls = Some(PgTls::Required);
        config.auth_super_users = Names(vec!["admin".to_owned(), "CN=ops,O=example".to_owned()]);
        let port = ListenerConfig {
            listen: HostPort::loopback(9093),
            advertise: None,
            tls: KafkaTls::Required,
            client_certificate: ClientCertificate::Optional,
        };
        config.kafka.listeners =
            vec![port.clone(), ListenerConfig { advertise: Some(port.listen.clone()), ..port }];
        let read: Config = Figment::from(Toml::string(&to_toml(&config))).extract().expect("it is TOML");
        assert_eq!(read, config);
    }

    #[test]
    fn credentials_in_a_url_are_masked() {
        assert_eq!(mask_url("s3://key:secret@bucket/a@b"), "s3://***@bucket/a@b");
        assert_eq!(mask_url("s3://bucket/a@b"), "s3://bucket/a@b");
        assert_eq!(mask_url("/var/lib/strandline"), "/var/lib/strandline");
    }

    #[test]
    fn keys_name_sections_and_settings_without_a_value() {
        let keys = keys();
        for key in ["data", "kafka.advertise", "storage.linger", "query.statement_timeout"] {
            assert!(keys.iter().any(|known| known == key), "{key}");
        }
    }
}
