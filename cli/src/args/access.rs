//! The flags of `strandline user` and `strandline acl`, and by which every client command says who asks.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use strandline_storage::access::Operation;

use super::BootstrapArgs;
use crate::tls::ClientTls;

/// Who asks a server, and whether the connection is encrypted.
#[derive(Clone, Debug, Args)]
pub struct LoginArgs {
    /// Who you are to the server; the password is asked for, or taken from STRANDLINE_PASSWORD
    #[arg(long, value_name = "NAME", env = "STRANDLINE_USER")]
    pub user: Option<String>,

    /// Speak TLS with the server, and trust the authorities that this machine trusts
    #[arg(long)]
    pub tls: bool,

    /// Speak TLS with the server, and trust the authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

impl LoginArgs {
    /// `None`: in the clear.
    pub fn client_tls(&self) -> Option<ClientTls> {
        match &self.tls_ca {
            Some(path) => Some(ClientTls::Authorities(path.clone())),
            None => self.tls.then_some(ClientTls::System),
        }
    }
}

/// Create, list and delete users, and change their passwords.
///
/// A new password is asked for at a terminal, or else read from the first line of standard input. It is
/// never a flag. STRANDLINE_PASSWORD is the password of the user in --user, who does it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  STRANDLINE_PASSWORD=... strandline user create alice --user admin       asks for alice's password
  STRANDLINE_PASSWORD=... strandline user password alice --user admin < new-password
  strandline user list --user admin
  strandline user delete alice --user admin")]
pub struct UserArgs {
    #[command(subcommand)]
    pub command: UserCommand,
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Create a user
    Create {
        name: String,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Change a user's password
    Password {
        name: String,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// List users with the mechanisms that they can log in by
    List {
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Delete a user; its connections end at their next request
    Delete {
        name: String,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
}

/// Say what users may do: add, list and remove rules (ACLs).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strandline acl add --allow alice --operation read --topic orders --user admin
  strandline acl add --allow alice --operation read --group billing --user admin
  strandline acl add --allow app --operation write --operation create --topic app- --prefixed --user admin
  strandline acl add --deny '*' --operation delete --topic '*' --user admin
  strandline acl list --topic orders --user admin
  strandline acl remove --allow alice --operation read --topic orders --user admin")]
pub struct AclArgs {
    #[command(subcommand)]
    pub command: AclCommand,
}

#[derive(Debug, Subcommand)]
pub enum AclCommand {
    /// Add a rule for each operation
    Add {
        #[command(flatten)]
        rule: RuleArgs,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// List rules
    List {
        #[command(flatten)]
        resource: ResourceArgs,
        /// Only those of this user
        #[arg(long, value_name = "NAME")]
        principal: Option<String>,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
    /// Remove the rules that `add` with the same flags adds
    Remove {
        #[command(flatten)]
        rule: RuleArgs,
        #[command(flatten)]
        bootstrap: BootstrapArgs,
    },
}

/// Who may, or may not, do what to what.
#[derive(Clone, Debug, Args)]
pub struct RuleArgs {
    #[command(flatten)]
    pub effect: EffectArgs,

    /// The address that the user comes from
    #[arg(long, value_name = "ADDRESS", default_value = "*")]
    pub host: String,

    /// What is done; may be given several times
    #[arg(long = "operation", value_name = "OPERATION", required = true, value_parser = parse_operation)]
    pub operations: Vec<Operation>,

    #[command(flatten)]
    pub resource: ResourceArgs,
}

#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct EffectArgs {
    /// The user who may do it; `*` for everybody
    #[arg(long, value_name = "NAME")]
    pub allow: Option<String>,

    /// The user who may not; a denial counts more than any permission
    #[arg(long, value_name = "NAME")]
    pub deny: Option<String>,
}

/// What a rule is about.
#[derive(Clone, Debug, Args)]
pub struct ResourceArgs {
    /// A topic; `*` for all
    #[arg(long, value_name = "NAME", group = "resource")]
    pub topic: Option<String>,

    /// A consumer group; `*` for all
    #[arg(long, value_name = "NAME", group = "resource")]
    pub group: Option<String>,

    /// The transactional id of a producer; `*` for all
    #[arg(long, value_name = "NAME", group = "resource")]
    pub transactional_id: Option<String>,

    /// The cluster as a whole
    #[arg(long, group = "resource")]
    pub cluster: bool,

    /// The name is the beginning of names
    #[arg(long, conflicts_with = "cluster")]
    pub prefixed: bool,
}

/// The operations by their names; what the log knows of them is the same.
pub const OPERATIONS: [(Operation, &str); 11] = [
    (Operation::All, "all"),
    (Operation::Read, "read"),
    (Operation::Write, "write"),
    (Operation::Create, "create"),
    (Operation::Delete, "delete"),
    (Operation::Alter, "alter"),
    (Operation::Describe, "describe"),
    (Operation::ClusterAction, "cluster-action"),
    (Operation::DescribeConfigs, "describe-configs"),
    (Operation::AlterConfigs, "alter-configs"),
    (Operation::IdempotentWrite, "idempotent-write"),
];

fn parse_operation(text: &str) -> Result<Operation, String> {
    let known = OPERATIONS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    known.map(|(operation, _)| *operation).ok_or_else(|| {
        let names = OPERATIONS.map(|(_, name)| name).join(", ");
        format!("\"{text}\" is none of {names}")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn parse(words: &str) -> Result<AclCommand, clap::Error> {
        match Cli::try_parse_from(words.split(' '))?.command {
            Command::Acl(args) => Ok(args.command),
            other => panic!("{other:?} is another command"),
        }
    }

    #[test]
    fn a_rule_is_for_one_side_and_about_one_thing() {
        let added = parse("strandline acl add --allow a --operation read --operation WRITE --topic t");
        let AclCommand::Add { rule, .. } = added.expect("the flags are right") else { panic!("it adds") };
        assert_eq!(rule.operations, [Operation::Read, Operation::Write]);
        assert_eq!((rule.host.as_str(), rule.resource.topic.as_deref()), ("*", Some("t")));
        for wrong in [
            "strandline acl add --operation read --topic t",
            "strandline acl add --allow a --deny b --operation read --topic t",
            "strandline acl add --allow a --topic t",
            "strandline acl add --allow a --operation read --topic t --group g",
            "strandline acl add --allow a --operation read --cluster --prefixed",
            "strandline acl add --allow a --operation fly --topic t",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("strandline acl list").is_ok());
    }
}
