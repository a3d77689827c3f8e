//! The settings that a session knows: names, defaults, and what their values may be. Pure.
//!
//! Most of them exist because drivers set them at the start of a connection; those are kept and shown
//! and change nothing. A name that is not here is refused, as PostgreSQL does, unless it has a dot.

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// Any text.
    Text,
    Boolean,
    /// Inclusive bounds.
    Integer(i64, i64),
    /// Milliseconds, with an optional unit.
    Duration,
    OneOf(&'static [&'static str]),
    TimeZone,
    Encoding,
    /// Cannot be set.
    ReadOnly,
}

/// One setting.
#[derive(Debug)]
pub struct SettingSpec {
    /// As PostgreSQL prints it; names are compared without case.
    pub name: &'static str,
    pub default: &'static str,
    pub kind: SettingKind,
    pub description: &'static str,
}

/// The version of PostgreSQL whose behaviour clients may expect.
pub const SERVER_VERSION: &str = "16.6";

/// Settings whose changes are reported to the client, in the order of PostgreSQL's start-up packet.
pub const REPORTED: [&str; 13] = [
    "in_hot_standby",
    "integer_datetimes",
    "TimeZone",
    "IntervalStyle",
    "is_superuser",
    "application_name",
    "default_transaction_read_only",
    "scram_iterations",
    "DateStyle",
    "standard_conforming_strings",
    "session_authorization",
    "client_encoding",
    "server_version",
];

const fn spec(
    name: &'static str,
    default: &'static str,
    kind: SettingKind,
    description: &'static str,
) -> SettingSpec {
    SettingSpec { name, default, kind, description }
}

const ISOLATION: SettingKind =
    SettingKind::OneOf(&["read committed", "read uncommitted", "repeatable read", "serializable"]);
const MESSAGES: SettingKind = SettingKind::OneOf(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error",
]);
const ACCEPTED: &str = "accepted; has no effect";

/// Every setting, by name.
pub static SETTINGS: &[SettingSpec] = &[
    spec(
        "application_name",
        "",
        SettingKind::Text,
        "the name of the application, shown in strandline.queries",
    ),
    spec("backslash_quote", "safe_encoding", SettingKind::Text, ACCEPTED),
    spec("block_size", "8192", SettingKind::ReadOnly, ACCEPTED),
    spec("bytea_output", "hex", SettingKind::OneOf(&["hex"]), "how bytea is shown; only hex"),
    spec("client_encoding", "UTF8", SettingKind::Encoding, "the encoding of text; only UTF8"),
    spec("client_min_messages", "notice", MESSAGES, ACCEPTED),
    spec("cursor_tuple_fraction", "0.1", SettingKind::Text, ACCEPTED),
    spec("DateStyle", "ISO, MDY", SettingKind::Text, "how dates are shown; always ISO"),
    spec("default_table_access_method", "heap", SettingKind::Text, ACCEPTED),
    spec("default_text_search_config", "pg_catalog.simple", SettingKind::Text, ACCEPTED),
    spec("default_transaction_deferrable", "off", SettingKind::Boolean, ACCEPTED),
    spec(
        "default_transaction_isolation",
        "read committed",
        ISOLATION,
        "every statement reads its own snapshot",
    ),
    spec("default_transaction_read_only", "off", SettingKind::Boolean, "SQL writes nothing either way"),
    spec("enable_seqscan", "on", SettingKind::Boolean, ACCEPTED),
    spec("escape_string_warning", "on", SettingKind::Boolean, ACCEPTED),
    spec("extra_float_digits", "1", SettingKind::Integer(-15, 3), "doubles are always shown exactly"),
    spec("geqo", "on", SettingKind::Boolean, ACCEPTED),
    spec("idle_in_transaction_session_timeout", "0", SettingKind::Duration, ACCEPTED),
    spec("idle_session_timeout", "0", SettingKind::Duration, ACCEPTED),
    spec("in_hot_standby", "off", SettingKind::ReadOnly, "this server takes writes from Kafka clients"),
    spec("integer_datetimes", "on", SettingKind::ReadOnly, "times are integers on the wire"),
    spec(
        "IntervalStyle",
        "postgres",
        SettingKind::OneOf(&["postgres"]),
        "how intervals are shown; only postgres",
    ),
    spec("is_superuser", "off", SettingKind::ReadOnly, "users have no rights beyond reading"),
    spec("jit", "off", SettingKind::Boolean, ACCEPTED),
    spec("lc_collate", "C", SettingKind::ReadOnly, "text sorts by its bytes"),
    spec("lc_ctype", "C", SettingKind::ReadOnly, "text sorts by its bytes"),
    spec("lc_messages", "C", SettingKind::Text, ACCEPTED),
    spec("lc_monetary", "C", SettingKind::Text, ACCEPTED),
    spec("lc_numeric", "C", SettingKind::Text, ACCEPTED),
    spec("lc_time", "C", SettingKind::Text, ACCEPTED),
    spec("lock_timeout", "0", SettingKind::Duration, ACCEPTED),
    spec("max_identifier_length", "63", SettingKind::ReadOnly, "the length of names in PostgreSQL"),
    spec("max_index_keys", "32", SettingKind::ReadOnly, ACCEPTED),
    spec("row_security", "on", SettingKind::Boolean, ACCEPTED),
    spec("scram_iterations", "4096", SettingKind::ReadOnly, ACCEPTED),
    spec("search_path", "\"$user\", public", SettingKind::Text, "accepted; names are looked up in public"),
    spec("server_encoding", "UTF8", SettingKind::ReadOnly, "the encoding of text"),
    spec(
        "server_version",
        SERVER_VERSION,
        SettingKind::ReadOnly,
        "the PostgreSQL version that clients may expect",
    ),
    spec("server_version_num", "160006", SettingKind::ReadOnly, "the same as a number"),
    spec("session_authorization", "", SettingKind::ReadOnly, "the user of the session"),
    spec("ssl", "off", SettingKind::ReadOnly, "whether this connection is encrypted"),
    spec(
        "standard_conforming_strings",
        "on",
        SettingKind::OneOf(&["on"]),
        "backslashes in strings are backslashes",
    ),
    spec(
        "statement_timeout",
        "0",
        SettingKind::Duration,
        "how long a statement may take; 0 = as long as it likes",
    ),
    spec("synchronize_seqscans", "on", SettingKind::Boolean, ACCEPTED),
    spec("synchronous_commit", "on", SettingKind::Text, ACCEPTED),
    spec("tcp_keepalives_idle", "0", SettingKind::Text, ACCEPTED),
    spec("tcp_keepalives_interval", "0", SettingKind::Text, ACCEPTED),
    spec("tcp_keepalives_count", "0", SettingKind::Text, ACCEPTED),
    spec("tcp_user_timeout", "0", SettingKind::Text, ACCEPTED),
    spec(
        "TimeZone",
        "UTC",
        SettingKind::TimeZone,
        "the zone of times that name none, and of times that are shown",
    ),
    spec("transaction_deferrable", "off", SettingKind::Boolean, ACCEPTED),
    spec("transaction_isolation", "read committed", ISOLATION, "every statement reads its own snapshot"),
    spec("transaction_read_only", "off", SettingKind::Boolean, "SQL writes nothing either way"),
    spec("work_mem", "4MB", SettingKind::Text, ACCEPTED),
    spec("xmloption", "content", SettingKind::Text, ACCEPTED),
];

/// The setting of this name, in any case.
pub fn find(name: &str) -> Option<&'static SettingSpec> {
    SETTINGS.iter().find(|spec| spec.name.eq_ignore_ascii_case(name))
}
