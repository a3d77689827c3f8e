//! The binary `strandline`: what the user typed becomes one command, and its outcome an exit code.
//!
//! Owns: dispatch, the runtime, the exit code. Everything else is in the module of the command.

use std::process::ExitCode;

use clap::Parser;

mod acl;
mod args;
mod backup;
mod config;
mod data;
#[cfg(debug_assertions)]
mod failpoint;
mod failure;
mod group;
mod kafka_client;
mod output;
mod password;
mod produce;
mod repair;
mod serve;
mod sql;
mod tail;
mod tls;
mod topic;
mod units;
mod user;
mod verify;
mod version;

use args::{Cli, Command, ConfigCommand};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("strandline: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Sql(args) => block_on(sql::run(args)),
        Command::Topic(args) => block_on(topic::run(args)),
        Command::Group(args) => block_on(group::run(args)),
        Command::User(args) => block_on(user::run(args)),
        Command::Acl(args) => block_on(acl::run(args)),
        Command::Produce(args) => block_on(produce::run(args)),
        Command::Tail(args) => block_on(tail::run(args)),
        Command::Verify(args) => block_on(verify::run(args)),
        Command::Repair(args) => block_on(repair::run(args)),
        Command::Backup(args) => block_on(backup::run_backup(args)),
        Command::Restore(args) => block_on(backup::run_restore(args)),
        Command::Config(args) => match args.command {
            ConfigCommand::Check(args) => config::check(&args),
        },
        Command::Version(args) => version::run(&args),
    }
}

/// Runs a client command. The runtime is left, not joined: a thread that waits for standard input
/// must not keep the process alive.
fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}
