//! The settings of one session, and what a transaction does to them. Pure.
//!
//! Invariants: a value is kept only after it was checked; `SET` in a transaction that rolls back, and
//! `SET LOCAL` at the end of every transaction, leave no trace.

use std::collections::BTreeMap;

use strandline_sql::{SetScope, canonical_time_zone};

use crate::error::{EngineError, ErrorKind};

use super::setting_table::{REPORTED, SETTINGS, SettingKind, SettingSpec, find};

/// Longest value of a setting, in bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Settings with a dot in their name that one session may make up.
const CUSTOM_SETTINGS_MAX: usize = 1_000;

/// One row of SHOW ALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    pub name: String,
    pub value: String,
    pub description: &'static str,
}

/// Values that differ from the defaults, by the name in its own spelling.
type Values = BTreeMap<String, String>;

/// The settings of one session.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// What RESET goes back to: the defaults, changed by the start of the connection.
    base: Values,
    current: Values,
    /// What COMMIT goes back to, where SET LOCAL changed something.
    without_local: Option<Values>,
    /// What ROLLBACK goes back to, while there is a transaction.
    at_begin: Option<Values>,
}

impl SessionSettings {
    /// # Errors
    /// When a start value is not accepted.
    pub fn new(fixed: &[(&str, String)], start: &[(String, String)]) -> Result<Self, EngineError> {
        let mut values = Values::new();
        for (name, value) in fixed {
            values.insert((*name).to_owned(), value.clone());
        }
        for (name, value) in start {
            let (name, value) = check(name, value)?;
            values.insert(name, value);
        }
        Ok(Self { base: values.clone(), current: values, without_local: None, at_begin: None })
    }

    /// The value of a setting, whatever the case of its name.
    pub fn get(&self, name: &str) -> Option<String> {
        let Some(spec) = find(name) else {
            return self
                .current
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|it| it.1.clone());
        };
        Some(self.value_of(spec).to_owned())
    }

    fn value_of(&self, spec: &SettingSpec) -> &str {
        self.current.get(spec.name).map_or(spec.default, String::as_str)
    }

    /// Sets a setting; an empty list of values means the default.
    ///
    /// # Errors
    /// When there is no such setting, it cannot be set, or the value is not one of its values.
    pub fn set(&mut self, name: &str, values: &[String], scope: SetScope) -> Result<(), EngineError> {
        if values.is_empty() {
            return self.reset(name, scope);
        }
        let (name, value) = check(name, &values.join(", "))?;
        let is_new = !self.current.contains_key(&name);
        if is_new && self.current.len() >= SETTINGS.len() + CUSTOM_SETTINGS_MAX {
            let message = format!("limit of {CUSTOM_SETTINGS_MAX} own settings reached");
            return Err(EngineError::new(ErrorKind::InvalidParameterValue, message));
        }
        self.change(scope, |current, _| {
            current.insert(name.clone(), value.clone());
        });
        Ok(())
    }

    /// Puts a setting back to the value at the start of the connection.
    ///
    /// # Errors
    /// When there is no such setting or it cannot be set.
    pub fn reset(&mut self, name: &str, scope: SetScope) -> Result<(), EngineError> {
        let name = settable(name)?;
        self.change(scope, |current, base| {
            match base.get(&name) {
                Some(value) => current.insert(name.clone(), value.clone()),
                None => current.remove(&name),
            };
        });
        Ok(())
    }

    pub fn reset_all(&mut self) {
        self.change(SetScope::Session, |current, base| current.clone_from(base));
    }

    /// A local change leaves a copy without it behind, to which later changes of the session apply
    /// too. Outside of a transaction a local change ends with its own statement: it does nothing.
    fn change(&mut self, scope: SetScope, apply: impl Fn(&mut Values, &Values)) {
        match scope {
            SetScope::Local if self.at_begin.is_none() => {}
            SetScope::Local => {
                self.without_local.get_or_insert_with(|| self.current.clone());
                apply(&mut self.current, &self.base);
            }
            SetScope::Session => {
                if let Some(without_local) = &mut self.without_local {
                    apply(without_local, &self.base);
                }
                apply(&mut self.current, &self.base);
            }
        }
    }

    pub fn begin(&mut self) {
        self.at_begin = Some(self.current.clone());
    }

    pub fn commit(&mut self) {
        if let Some(values) = self.without_local.take() {
            self.current = values;
        }
        self.at_begin = None;
    }

    pub fn roll_back(&mut self) {
        if let Some(values) = self.at_begin.take() {
            self.current = values;
        }
        self.without_local = None;
    }

    /// Every setting, for SHOW ALL.
    pub fn rows(&self) -> Vec<SettingRow> {
        let known = SETTINGS.iter().map(|spec| SettingRow {
            name: spec.name.to_owned(),
            value: self.value_of(spec).to_owned(),
            description: spec.description,
        });
        let custom = self.current.iter().filter(|(name, _)| find(name).is_none());
        let custom = custom.map(|(name, value)| SettingRow {
            name: name.clone(),
            value: value.clone(),
            description: "made up by this session",
        });
        known.chain(custom).collect()
    }

    /// The settings that clients are told of, with their values.
    pub fn reported(&self) -> Vec<(String, String)> {
        let specs = REPORTED.iter().filter_map(|name| find(name));
        let mut reported: Vec<_> =
            specs.map(|spec| (spec.name.to_owned(), self.value_of(spec).to_owned())).collect();
        reported.push(("server_encoding".to_owned(), "UTF8".to_owned()));
        reported
    }
}

/// The spelling of a setting that may be set.
fn settable(name: &str) -> Result<String, EngineError> {
    match find(name) {
        Some(SettingSpec { kind: SettingKind::ReadOnly, name, .. }) => Err(EngineError::new(
            ErrorKind::ReadOnlySetting,
            format!("parameter \"{name}\" cannot be changed"),
        )),
        Some(spec) => Ok(spec.name.to_owned()),
        None if is_custom_name(name) => Ok(name.to_ascii_lowercase()),
        None => Err(unknown(name)),
    }
}

pub(super) fn unknown(name: &str) -> EngineError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    EngineError::new(ErrorKind::UndefinedObject, message)
}

/// As in PostgreSQL, names with a dot belong to whoever makes them up.
fn is_custom_name(name: &str) -> bool {
    name.len() <= 255
        && name.split_once('.').is_some_and(|(class, rest)| !class.is_empty() && !rest.is_empty())
}

/// The setting's spelling and the value as it is kept.
fn check(name: &str, value: &str) -> Result<(String, String), EngineError> {
    let name = settable(name)?;
    let refused = |reason: String| Err(EngineError::new(ErrorKind::InvalidParameterValue, reason));
    if value.len() > VALUE_BYTES_MAX {
        return refused(format!(
            "value of \"{name}\" has {} bytes, at most {VALUE_BYTES_MAX} are kept",
            value.len()
        ));
    }
    let Some(spec) = find(&name) else { return Ok((name, value.to_owned())) };
    match checked_value(spec, value) {
        Some(value) => Ok((name, value)),
        None => refused(format!("invalid value for parameter \"{name}\": \"{value}\"")),
    }
}

fn checked_value(spec: &SettingSpec, value: &str) -> Option<String> {
    match spec.kind {
        SettingKind::Text => Some(text_value(spec, value)),
        SettingKind::Boolean => boolean(value).map(|on| if on { "on" } else { "off" }.to_owned()),
        SettingKind::Integer(min, max) => {
            let number: i64 = value.trim().parse().ok()?;
            (min..=max).contains(&number).then(|| number.to_string())
        }
        SettingKind::Duration => milliseconds(value).map(duration_text),
        SettingKind::OneOf(values) => {
            let value = match boolean(value) {
                Some(true) => "on",
                Some(false) => "off",
                None => value,
            };
            values.iter().find(|known| known.eq_ignore_ascii_case(value)).map(|known| (*known).to_owned())
        }
        SettingKind::TimeZone => canonical_time_zone(value),
        SettingKind::Encoding => {
            let plain = value.replace(['-', '_', '\''], "").to_ascii_lowercase();
            ["utf8", "unicode", "sqlascii"].contains(&plain.as_str()).then(|| "UTF8".to_owned())
        }
        SettingKind::ReadOnly => None,
    }
}

/// Dates are always shown in ISO form, so only the order of day and month is taken over.
fn text_value(spec: &SettingSpec, value: &str) -> String {
    if spec.name != "DateStyle" {
        return value.to_owned();
    }
    let upper = value.to_ascii_uppercase();
    let order = ["DMY", "YMD"].into_iter().find(|order| upper.contains(order)).unwrap_or("MDY");
    format!("ISO, {order}")
}

fn boolean(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" => Some(true),
        "off" | "false" | "no" | "0" | "f" => Some(false),
        _ => None,
    }
}

/// `1500`, `1500ms`, `30s`, `5min`, `1h`, `1d` in milliseconds; at most what fits 31 bits.
pub(super) fn milliseconds(value: &str) -> Option<i64> {
    let value = value.trim();
    let digits = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let number: i64 = value[..digits].parse().ok()?;
    let unit = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit).filter(|number| *number <= i64::from(i32::MAX))
}

/// As PostgreSQL prints it: in the largest unit that is whole.
fn duration_text(number: i64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    let unit = units.into_iter().find(|(_, size)| number != 0 && number % size == 0);
    match unit {
        Some((name, size)) => format!("{}{name}", number / size),
        None if number == 0 => "0".to_owned(),
        None => format!("{number}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> SessionSettings {
        SessionSettings::new(&[("session_authorization", "ada".to_owned())], &[]).unwrap()
    }

    fn set(settings: &mut SessionSettings, name: &str, value: &str) -> Result<(), EngineError> {
        settings.set(name, &[value.to_owned()], SetScope::Session)
    }

    #[test]
    fn values_are_checked_and_kept_in_their_own_spelling() {
        let mut settings = settings();
        set(&mut settings, "timezone", "america/denver").unwrap();
        set(&mut settings, "statement_timeout", "90000").unwrap();
        set(&mut settings, "datestyle", "iso, dmy").unwrap();
        assert_eq!(settings.get("TimeZone").as_deref(), Some("America/Denver"));
        assert_eq!(settings.get("statement_timeout").as_deref(), Some("90s"));
        assert_eq!(settings.get("DATESTYLE").as_deref(), Some("ISO, DMY"));
        let refused = [("TimeZone", "Mars"), ("statement_timeout", "-1"), ("client_encoding", "LATIN1")];
        for (name, value) in refused {
            let error = set(&mut settings, name, value).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidParameterValue, "{name}");
        }
        assert_eq!(set(&mut settings, "no_such", "1").unwrap_err().kind, ErrorKind::UndefinedObject);
        let error = set(&mut settings, "server_version", "9").unwrap_err();
        assert_eq!(error.kind, ErrorKind::ReadOnlySetting);
        set(&mut settings, "my.own", "1").unwrap();
        assert_eq!(settings.get("my.own").as_deref(), Some("1"));
    }

    #[test]
    fn a_rollback_takes_every_change_back() {
        let mut settings = settings();
        settings.begin();
        set(&mut settings, "application_name", "a").unwrap();
        settings.roll_back();
        assert_eq!(settings.get("application_name").as_deref(), Some(""));
    }

    #[test]
    fn a_local_change_ends_with_the_transaction() {
        let mut settings = settings();
        settings.begin();
        settings.set("application_name", &["local".to_owned()], SetScope::Local).unwrap();
        set(&mut settings, "TimeZone", "Asia/Kolkata").unwrap();
        assert_eq!(settings.get("application_name").as_deref(), Some("local"));
        settings.commit();
        assert_eq!(settings.get("application_name").as_deref(), Some(""));
        assert_eq!(settings.get("TimeZone").as_deref(), Some("Asia/Kolkata"));
        settings.set("application_name", &["x".to_owned()], SetScope::Local).unwrap();
        assert_eq!(settings.get("application_name").as_deref(), Some(""));
    }

    #[test]
    fn every_reported_setting_exists() {
        assert_eq!(settings().reported().len(), REPORTED.len() + 1);
    }
}
