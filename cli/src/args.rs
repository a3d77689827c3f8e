//! What can be typed: the commands, their flags, and the help that explains them.

mod access;

use std::path::PathBuf;

use chrono::DateTime;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::Auth;
use crate::units::{HostPort, HumanDuration};

pub use access::{AclArgs, AclCommand, LoginArgs, OPERATIONS, ResourceArgs, RuleArgs, UserArgs, UserCommand};

/// The data directory of a server that was told no other.
const DEFAULT_DATA: &str = "./strandline-data";

const EXAMPLES: &str = "\
Examples:
  strandline serve --demo                                   start a server with a topic to look at
  strandline produce events --file events.ndjson            put lines from a file into a topic
  strandline tail events --from 10m                         follow a topic, from ten minutes ago
  strandline sql \"SELECT ts, _value FROM events LIMIT 10\"   ask in SQL

Exit codes: 0 success, 1 damage or failure, 2 usage, 3 cannot reach the server.";

/// A log store that people query with SQL: Kafka protocol in and out, SQL over the Postgres
/// protocol, everything durable in one directory.
#[derive(Debug, Parser)]
#[command(name = "strandline", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(ServeArgs),
    Sql(SqlArgs),
    Topic(TopicArgs),
    Group(GroupArgs),
    User(UserArgs),
    Acl(AclArgs),
    Produce(ProduceArgs),
    Tail(TailArgs),
    Verify(VerifyArgs),
    Repair(RepairArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Config(ConfigArgs),
    Version(VersionArgs),
}

/// Run the server: Kafka and Postgres ports over one data directory.
///
/// Every flag can also be set in a TOML file (`kafka.listen`) or in the environment
/// (STRANDLINE_KAFKA_LISTEN). Flags win over the environment, which wins over the file.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
Examples:
  strandline serve                                            data in ./strandline-data
  strandline serve --data /var/lib/strandline
  strandline serve --kafka-listen 127.0.0.1:19092 --pg-listen 127.0.0.1:15432
  strandline serve --kafka-advertise db.example.com:9092      clients come through a forwarded port
  STRANDLINE_ADMIN_PASSWORD=... strandline serve --auth required --kafka-listen 0.0.0.0:9092
  strandline serve --demo                                     adds a topic `demo` of generated log events")]
pub struct ServeArgs {
    /// Directory that holds the data (default: ./strandline-data); s3://BUCKET/PREFIX, gs://, az://
    /// for an object store; memory:// to keep nothing
    #[arg(long, value_name = "PATH|URL")]
    pub data: Option<String>,

    /// Address of the Kafka port (default: 127.0.0.1:9092)
    #[arg(long, value_name = "HOST:PORT")]
    pub kafka_listen: Option<HostPort>,

    /// Address that Kafka clients are told to come back to (default: the one they came to)
    #[arg(long, value_name = "HOST:PORT")]
    pub kafka_advertise: Option<HostPort>,

    /// Address of the Postgres port (default: 127.0.0.1:5432)
    #[arg(long, value_name = "HOST:PORT")]
    pub pg_listen: Option<HostPort>,

    /// Address of the HTTP port: /healthz, /readyz, /metrics (default: 127.0.0.1:8080)
    #[arg(long, value_name = "HOST:PORT")]
    pub http_listen: Option<HostPort>,

    /// How many logs with a writer of their own the data is spread over (default: 1); a store that has
    /// more keeps them
    #[arg(long, value_name = "N")]
    pub shards: Option<u32>,

    /// TOML file with settings; `strandline config check` shows all of them
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Add a topic `demo` of live generated JSON log events, ten a second
    #[arg(long)]
    pub demo: bool,

    /// Who may come in (default: loopback)
    #[arg(long, value_enum, value_name = "WHO", conflicts_with = "no_auth")]
    pub auth: Option<Auth>,

    /// Let anyone who reaches the ports in: the same as --auth none
    #[arg(long)]
    pub no_auth: bool,
}

/// Ask in SQL, from a running server or straight from a data directory.
///
/// Without --data and --server: the server on 127.0.0.1:5432 if one answers, else
/// ./strandline-data; which one it was is said on standard error. Without SQL on the command line,
/// statements are read from standard input.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline sql \"SELECT count(*) FROM demo\"
  strandline sql --format csv \"SELECT ts, level, message FROM demo WHERE ts > now() - interval '5 minutes'\"
  strandline sql --server db.example.com:5432 --tls --user alice \"SELECT count(*) FROM demo\"
  strandline sql --data ./strandline-data \"SELECT * FROM demo ORDER BY _offset DESC LIMIT 5\"
  strandline sql < report.sql")]
pub struct SqlArgs {
    /// Read this data directory, without a server or beside a running one
    #[arg(long, value_name = "PATH|URL", conflicts_with = "server")]
    pub data: Option<String>,

    /// Ask the server at this Postgres address
    #[arg(long, value_name = "HOST:PORT")]
    pub server: Option<HostPort>,

    #[command(flatten)]
    pub login: LoginArgs,

    /// How rows are printed
    #[arg(long, value_enum, default_value_t = SqlFormat::Table)]
    pub format: SqlFormat,

    /// One or more statements, separated by semicolons
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SqlFormat {
    /// Columns in line, for people
    Table,
    /// One JSON object per row and line
    Json,
    /// Comma-separated, with a header line
    Csv,
}

/// Where the Kafka port of the server is, and who asks.
#[derive(Clone, Debug, Args)]
pub struct BootstrapArgs {
    /// Kafka address of the server
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092", env = "STRANDLINE_BOOTSTRAP")]
    pub bootstrap: HostPort,

    #[command(flatten)]
    pub login: LoginArgs,
}

/// Create, list, describe and delete topics.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline topic create events
  strandline topic create events --partitions 3 --config message.timestamp.type=LogAppendTime
  strandline topic list
  strandline topic describe events
  strandline topic delete events")]
pub struct TopicArgs {
    #[command(subcommand)]
    pub command: TopicCommand,
}

#[derive(Debug, Subcommand)]
pub enum TopicCommand {
    /// Create a topic
    Create {
        topic: String,
        /// Number of partitions
        #[arg(long, default_value_t = 1, value_name = "N")]
        partitions: i32,
        /// A setting of the topic; may be given several times
        #[arg(long = "config", value_name = "KEY=VALUE", value_parser = parse_key_value)]
        configs: Vec<(String, String)>,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// List topics with their number of partitions and records
    List {
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Show a topic's partitions, offsets and settings
    Describe {
        topic: String,
        /// Show also the settings that have their default value
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Delete a topic and its records
    Delete {
        topic: String,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
}

fn parse_key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("\"{text}\" is not KEY=VALUE")),
    }
}

/// List, describe, reset and delete consumer groups.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline group list
  strandline group describe billing
  strandline group reset billing --to 10m --dry-run         what ten minutes ago would mean
  strandline group reset billing --to 2026-01-31T12:00:00Z
  strandline group reset billing --to earliest --topic events
  strandline group delete billing")]
pub struct GroupArgs {
    #[command(subcommand)]
    pub command: GroupCommand,
}

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// List groups with their protocol and state
    List {
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Show a group's offsets, how far behind they are, and its members
    Describe {
        group: String,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Move the committed offsets of a group that has no members, and print the old and the new ones
    Reset {
        group: String,
        /// Where to: `earliest`, `latest`, a time ago such as 10m, a time such as 2026-01-31T12:00:00Z, or an
        /// offset
        #[arg(long, value_name = "WHERE")]
        to: ResetTo,
        /// A topic; may be given several times (default: all that the group has committed)
        #[arg(long = "topic", value_name = "TOPIC")]
        topics: Vec<String>,
        /// Only print what would be done
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Delete a group that has no members, with its offsets
    Delete {
        group: String,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
}

/// Where a group is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetTo(pub TailFrom);

impl std::str::FromStr for ResetTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => Ok(Self(TailFrom::Beginning)),
            "latest" => Ok(Self(TailFrom::End)),
            "beginning" | "end" => Err(format!("\"{text}\" is called `earliest` or `latest` here")),
            _ => text.parse().map(Self).map_err(|_| {
                format!(
                    "\"{text}\" is not `earliest`, `latest`, a time ago such as 10m, a time with its zone such as \
                     2026-01-31T12:00:00Z, or an offset"
                )
            }),
        }
    }
}

/// Put lines into a topic, one record each: from a file, or from standard input.
///
/// A line becomes the value of a record as it stands; empty lines are skipped. With --key-field or
/// --timestamp-field each line has to be a JSON object that has the field. Lines that cannot be
/// taken are named with their number and the reason, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline produce events --file events.ndjson --timestamp-field time
  strandline produce events --file events.ndjson --key-field user_id --compression zstd
  tail -f /var/log/syslog | strandline produce syslog")]
pub struct ProduceArgs {
    /// The topic; it is created if the server allows that
    pub topic: String,

    /// Read lines from this file instead of standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Field of each JSON line that becomes the record's key
    #[arg(long, value_name = "FIELD")]
    pub key_field: Option<String>,

    /// Field of each JSON line that becomes the record's time: epoch milliseconds, or RFC 3339
    /// such as 2015-09-12T12:00:00Z. Without it records get the time at which they are read
    #[arg(long, value_name = "FIELD")]
    pub timestamp_field: Option<String>,

    /// How batches are compressed
    #[arg(long, value_enum, default_value_t = Codec::None)]
    pub compression: Codec,

    /// Put all records into this partition, instead of by key or in turn
    #[arg(long, value_name = "N")]
    pub partition: Option<i32>,

    #[command(flatten)]
    pub bootstrap: BootstrapArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// Print a topic's records as they come, like `tail -f`. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline tail events                      what comes from now on
  strandline tail events --from 10m           from ten minutes ago
  strandline tail events --from beginning --count 5
  strandline tail events --from 1200 --format json")]
pub struct TailArgs {
    pub topic: String,

    /// Where to begin: `beginning`, `end`, a time ago such as 10m, a time such as 2026-01-31T12:00:00Z, or an
    /// offset
    #[arg(long, default_value = "end", value_name = "WHERE")]
    pub from: TailFrom,

    /// Stop after this many records
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// How records are printed
    #[arg(long, value_enum, default_value_t = TailFormat::Value)]
    pub format: TailFormat,

    #[command(flatten)]
    pub bootstrap: BootstrapArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TailFormat {
    /// The value alone, a line each
    Value,
    /// A JSON object with time, partition, offset, key, value and headers
    Json,
}

/// Where `tail` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailFrom {
    Beginning,
    End,
    Ago(HumanDuration),
    /// In milliseconds since the Unix epoch.
    Time(i64),
    Offset(i64),
}

impl TailFrom {
    fn moment(text: &str) -> Option<Self> {
        let time = DateTime::parse_from_rfc3339(text).map(|time| Self::Time(time.timestamp_millis()));
        time.ok().or_else(|| text.parse().map(Self::Ago).ok())
    }
}

impl std::str::FromStr for TailFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "beginning" => Ok(Self::Beginning),
            "end" => Ok(Self::End),
            _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map(Self::Offset).map_err(|_| format!("offset {text} is too large"))
            }
            _ => Self::moment(text).ok_or_else(|| {
                format!(
                    "\"{text}\" is not `beginning`, `end`, a time ago such as 10m, a time with its zone such as \
                     2026-01-31T12:00:00Z, or an offset"
                )
            }),
        }
    }
}

/// Read every object of the data, and say what is damaged or missing, and which offsets that concerns.
///
/// Writes nothing, and works beside a running server. Exit code 1 if anything is damaged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline verify
  strandline verify --data s3://bucket/logs --format json
  strandline verify --repair-index                  with the server stopped")]
pub struct VerifyArgs {
    /// The data directory, or a backup
    #[arg(long, value_name = "PATH|URL", default_value = DEFAULT_DATA)]
    pub data: String,

    /// How the result is printed
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,

    /// Write segments anew whose index is damaged and whose records are whole; no server may be
    /// running
    #[arg(long)]
    pub repair_index: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// One JSON object
    Json,
}

/// Give up the records of damaged or missing objects, so that readers skip them.
///
/// Says first what is lost; --yes does it. Nothing else is changed, and nothing is overwritten. No
/// server may be running.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline repair --accept-loss shards/0/data/01JD0000000000000000000000.seg
  strandline repair --accept-loss shards/0/data/01JD0000000000000000000000.seg --yes")]
pub struct RepairArgs {
    /// The data directory
    #[arg(long, value_name = "PATH|URL", default_value = DEFAULT_DATA)]
    pub data: String,

    /// The object, as `strandline verify` names it; may be given several times
    #[arg(long, value_name = "OBJECT", required = true)]
    pub accept_loss: Vec<String>,

    /// Do it
    #[arg(long)]
    pub yes: bool,
}

/// Copy the log as it is now to another place, beside a running server.
///
/// The second time only what is new is copied.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline backup --to /mnt/backups/strandline
  strandline backup --data /var/lib/strandline --to s3://bucket/backups/strandline")]
pub struct BackupArgs {
    /// The data directory
    #[arg(long, value_name = "PATH|URL", default_value = DEFAULT_DATA)]
    pub data: String,

    /// Where the backup goes: an empty place, or one with older backups of the same log
    #[arg(long, value_name = "PATH|URL")]
    pub to: String,
}

/// Copy the newest backup to an empty place, where a server can open it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline restore --from /mnt/backups/strandline --data /var/lib/strandline
  strandline serve --data /var/lib/strandline")]
pub struct RestoreArgs {
    /// Where the backup is
    #[arg(long, value_name = "PATH|URL")]
    pub from: String,

    /// Where the data goes: a place that is empty or does not exist
    #[arg(long, value_name = "PATH|URL")]
    pub data: String,
}

/// Look at the settings that the server would run with.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read flags, environment and file as `serve` would, and print the result as TOML
    Check(ServeArgs),
}

/// Print the version.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Print also the versions of the durable formats that this build reads and writes
    #[arg(long)]
    pub formats: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_group_is_reset_to_where_the_text_says() {
        assert_eq!("earliest".parse(), Ok(ResetTo(TailFrom::Beginning)));
        assert_eq!("latest".parse(), Ok(ResetTo(TailFrom::End)));
        assert_eq!("17".parse(), Ok(ResetTo(TailFrom::Offset(17))));
        assert_eq!("10m".parse(), Ok(ResetTo(TailFrom::Ago(HumanDuration::seconds(600)))));
        for text in ["", "beginning", "end", "-1", "yesterday"] {
            assert!(text.parse::<ResetTo>().is_err(), "{text}");
        }
    }

    #[test]
    fn tail_begins_where_the_text_says() {
        assert_eq!("beginning".parse(), Ok(TailFrom::Beginning));
        assert_eq!("end".parse(), Ok(TailFrom::End));
        assert_eq!("0".parse(), Ok(TailFrom::Offset(0)));
        assert_eq!("10m".parse(), Ok(TailFrom::Ago(HumanDuration::seconds(600))));
        assert_eq!("2015-09-12T14:00:00+02:00".parse(), Ok(TailFrom::Time(1_442_059_200_000)));
        for text in ["", "-1", "10 minutes", "99999999999999999999"] {
            assert!(text.parse::<TailFrom>().is_err(), "{text}");
        }
    }
}
