//! Changes of a topic's configuration, as clients ask for them: config by config, or all at once.
//! Pure.
//!
//! Invariant: a change is worked out against the configuration that it is committed after, so that
//! two clients that add to one list at the same time both succeed.

use std::collections::BTreeMap;

use super::topic_config::{ConfigError, ConfigKind, TopicConfig};

/// What to do with one config (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    Set(String),
    /// Back to the default.
    Reset,
    /// Adds to a list what it does not hold yet.
    Append(String),
    /// Takes from a list what it holds.
    Subtract(String),
}

/// What to do with the configuration of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChanges {
    /// What is not named stays.
    Each(Vec<(String, ConfigOperation)>),
    /// What is not named goes back to its default.
    ReplaceAll(BTreeMap<String, String>),
}

impl ConfigChanges {
    /// The values to set, and `None` for those that go back to their default.
    ///
    /// # Errors
    /// An unknown config, a value out of its bounds, or an operation on lists for a config that is none.
    pub fn resolve(&self, config: &TopicConfig) -> Result<Vec<(String, Option<String>)>, ConfigError> {
        let changes = match self {
            Self::Each(operations) => resolve_each(operations, config)?,
            Self::ReplaceAll(values) => replace_all(values, config),
        };
        config.with_changes(&changes)?;
        Ok(changes)
    }
}

/// What makes a configuration have these values and no others.
pub(super) fn replace_all(
    values: &BTreeMap<String, String>,
    config: &TopicConfig,
) -> Vec<(String, Option<String>)> {
    let removed = config.explicit().keys().filter(|key| !values.contains_key(*key));
    let removed = removed.map(|key| (key.clone(), None));
    removed.chain(values.iter().map(|(key, value)| (key.clone(), Some(value.clone())))).collect()
}

fn resolve_each(
    operations: &[(String, ConfigOperation)],
    config: &TopicConfig,
) -> Result<Vec<(String, Option<String>)>, ConfigError> {
    let resolve = |(key, operation): &(String, ConfigOperation)| {
        let value = match operation {
            ConfigOperation::Set(value) => Some(value.clone()),
            ConfigOperation::Reset => None,
            ConfigOperation::Append(added) => Some(append(&list(config, key)?, added)),
            ConfigOperation::Subtract(taken) => Some(subtract(&list(config, key)?, taken)),
        };
        Ok((key.clone(), value))
    };
    operations.iter().map(resolve).collect()
}

/// The value that a list has now.
fn list(config: &TopicConfig, key: &str) -> Result<String, ConfigError> {
    let entry = config.entry_of(key).ok_or_else(|| ConfigError::Unknown { key: key.to_owned() })?;
    match entry.kind {
        ConfigKind::List => Ok(entry.value),
        _ => Err(ConfigError::NotAList { key: key.to_owned() }),
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn append(list: &str, added: &str) -> String {
    let mut all: Vec<&str> = items(list).collect();
    for item in items(added) {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all.join(",")
}

fn subtract(list: &str, taken: &str) -> String {
    let taken: Vec<&str> = items(taken).collect();
    items(list).filter(|item| !taken.contains(item)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> TopicConfig {
        TopicConfig::parse(&values(pairs)).unwrap()
    }

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn each(key: &str, operation: ConfigOperation) -> ConfigChanges {
        ConfigChanges::Each(vec![(key.to_owned(), operation)])
    }

    fn resolved(key: &str, value: Option<&str>) -> Result<Vec<(String, Option<String>)>, ConfigError> {
        Ok(vec![(key.to_owned(), value.map(str::to_owned))])
    }

    #[test]
    fn lists_grow_and_shrink_from_what_they_are() {
        let both = config(&[("cleanup.policy", "delete,compact")]);
        let operation = |operation| each("cleanup.policy", operation);
        let append = operation(ConfigOperation::Append("compact".to_owned()));
        assert_eq!(
            append.resolve(&TopicConfig::default()),
            resolved("cleanup.policy", Some("delete,compact"))
        );
        assert_eq!(append.resolve(&both), resolved("cleanup.policy", Some("delete,compact")));
        let subtract = operation(ConfigOperation::Subtract("delete".to_owned()));
        assert_eq!(subtract.resolve(&both), resolved("cleanup.policy", Some("compact")));
        assert!(matches!(subtract.resolve(&TopicConfig::default()), Err(ConfigError::Invalid { .. })));
        assert_eq!(operation(ConfigOperation::Reset).resolve(&both), resolved("cleanup.policy", None));
    }

    #[test]
    fn what_no_config_allows_is_refused() {
        let refused = |changes: ConfigChanges| changes.resolve(&TopicConfig::default()).unwrap_err();
        let unknown = |operation| refused(each("no.such", operation));
        for operation in
            [ConfigOperation::Set("1".into()), ConfigOperation::Reset, ConfigOperation::Append("1".into())]
        {
            assert_eq!(unknown(operation), ConfigError::Unknown { key: "no.such".to_owned() });
        }
        let list_of_one = each("retention.ms", ConfigOperation::Append("1".to_owned()));
        assert_eq!(refused(list_of_one), ConfigError::NotAList { key: "retention.ms".to_owned() });
        let invalid = each("retention.ms", ConfigOperation::Set("soon".to_owned()));
        assert!(matches!(refused(invalid), ConfigError::Invalid { .. }));
    }

    #[test]
    fn what_a_replacement_does_not_name_goes_back_to_its_default() {
        let before = config(&[("retention.ms", "5"), ("retention.bytes", "6")]);
        let changes = ConfigChanges::ReplaceAll(values(&[("retention.bytes", "7")]));
        let changes = changes.resolve(&before).unwrap();
        let after = before.with_changes(&changes).unwrap();
        assert_eq!(after.explicit(), &values(&[("retention.bytes", "7")]));
    }
}
