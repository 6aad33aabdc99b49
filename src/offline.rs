//! Commands that no server takes part in: verify, compact and migrate stores that none has open, decide about one that lost commits, and
//! check a policy.

mod policy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    cli::{self, Failure, progress_bar, tell},
    config::{PostgresArgs, StoreArgs},
    engine::new_store_id,
    store::{
        self,
        postgres::{Partitions, PostgresSettings},
        sqlite::{
            OpenError, compact,
            verify::{Finding, Observer, Part, Progress, verify},
        },
    },
};
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a database file for damage. The server must not be running.
    #[command(after_help = "Examples:
  sessiond verify sessiond.db
  sessiond verify sessiond.db | grep '\"session_id\"'    # the sessions that are damaged

Prints a JSON object per finding, then one that counts what was read. It checks the structure of
the file, that sequences have no holes, that state is what the events add up to, that indexes
agree, and that texts are JSON. It changes nothing. `sessiond serve --verify` does the same
before it serves.

Exit codes: 0 nothing was found, 1 findings, or the file cannot be opened, 2 usage error.")]
    Verify(FileArgs),
    /// Shrink a database file to its minimum size. The server must not be running.
    #[command(after_help = "Examples:
  sessiond compact sessiond.db

Rewrites the file without the space of what was deleted, and prints its bytes before and after.
It needs up to twice the size of the file in free space for the time that it takes. If it is
interrupted, the file is as it was.")]
    Compact(FileArgs),
    /// Bring a store to this version, or only say what that would do.
    Migrate(MigrateArgs),
    /// Decide about a store that lost commits.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Check a policy file.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
}

#[derive(Debug, Args)]
pub struct FileArgs {
    /// The database file.
    #[arg(value_name = "FILE", value_parser = path)]
    file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond migrate --dry-run                              # sqlite:sessiond.db
  sessiond migrate --store sqlite:/var/lib/sessiond/sessiond.db
  sessiond migrate --store postgres://sessiond@db/sessiond --dry-run

`sessiond serve` does the same when it starts. Prints a JSON object with the steps. A dry run
applies them in a transaction that it rolls back. A file is copied before it is changed. Replicas
of the version before may go on while a PostgreSQL database is migrated.")]
pub struct MigrateArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    postgres: PostgresArgs,

    /// Partitions of each table of an empty PostgreSQL database, at most 64 and a power of two
    #[arg(
        long,
        env = "SESSIOND_POSTGRES_PARTITIONS",
        value_name = "NUMBER",
        help_heading = "PostgreSQL"
    )]
    postgres_partitions: Option<Partitions>,
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Go on with a PostgreSQL database that lacks commits that were acknowledged.
    #[command(after_help = "Examples:
  sessiond store accept-loss --store postgres://sessiond@db/sessiond

Replicas refuse such a database (STORE_BEHIND). First look for the server that has the commits,
and promote that one instead: replicas then go on by themselves. If it is lost, run this once,
and restart every replica. The database gets another identity: no uid, cursor or page token from
before is valid any more, so that clients read anew what is left.")]
    AcceptLoss(AcceptLossArgs),
}

#[derive(Debug, Args)]
pub struct AcceptLossArgs {
    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    postgres: PostgresArgs,
}

/// A path, also as `serve --store` takes it.
fn path(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("sqlite:").unwrap_or(text) {
        "" => Err("the file has no name".to_owned()),
        path => Ok(path.into()),
    }
}

/// Runs a command. Answers go to standard output as JSON, an object per line. An error is a sentence or two.
pub async fn run(command: &Command) -> Result<ExitCode, String> {
    match command {
        Command::Policy(command) => policy::run(command),
        Command::Store(StoreCommand::AcceptLoss(AcceptLossArgs { store, postgres })) => {
            store::accept_loss(&store.url, new_store_id(), postgres.settings()).await?;
            print(&serde_json::json!({ "loss_accepted": true }))?;
            tell("note: restart every replica of this database");
            Ok(ExitCode::SUCCESS)
        }
        Command::Verify(FileArgs { file }) => {
            let mut shown = Shown { printed: Ok(()), bar: None };
            let summary = verify(file, &mut shown);
            let Shown { printed, bar } = shown;
            // It leaves the terminal before anything else is printed.
            drop(bar);
            let summary = summary.map_err(|error| error.to_string())?;
            printed.and_then(|()| print(&summary))?;
            Ok(if summary.findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Compact(FileArgs { file }) => {
            let (before, after) = compact(file).map_err(|error| match error {
                OpenError::DiskFull(path) => format!(
                    "Compacting '{}' needs up to twice its size in free space. The file is unchanged. Free space, also for temporary files.",
                    path.display()
                ),
                error => error.to_string(),
            })?;
            print(&serde_json::json!({ "bytes_before": before, "bytes_after": after }))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Migrate(args) => {
            let MigrateArgs { store, dry_run, postgres, postgres_partitions: partitions } = args;
            let StoreArgs { url } = store;
            let settings = PostgresSettings { partitions: *partitions, ..postgres.settings() };
            if let Some(path) = url.strip_prefix("sqlite:").map(Path::new)
                && !path.exists()
            {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                let path = path.display();
                tell(&format!("note: there is no file '{path}', and `sessiond serve` makes it"));
            }
            let steps = store::migrate(url, new_store_id(), settings, *dry_run).await?;
            print(&serde_json::json!({ "dry_run": dry_run, "steps": steps }))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints a JSON object as a line. A reader that has gone is no failure.
fn print(line: &impl Serialize) -> Result<(), String> {
    match cli::print(line) {
        Ok(()) | Err(Failure::OutputClosed) => Ok(()),
        Err(failure) => Err(failure.text()),
    }
}

/// Prints findings, and shows on a terminal how far the work is.
struct Shown {
    printed: Result<(), String>,
    bar: Option<(Part, indicatif::ProgressBar)>,
}

impl Observer for Shown {
    fn found(&mut self, finding: &Finding) {
        if self.printed.is_ok() {
            self.printed = match &self.bar {
                Some((_, bar)) => bar.suspend(|| print(finding)),
                None => print(finding),
            };
        }
    }

    fn progress(&mut self, Progress { part, rows, total }: Progress) {
        if let Some((shown, bar)) = &self.bar
            && *shown == part
        {
            return bar.set_position(rows);
        }
        // The bar of the part before goes first: they have the same line.
        self.bar = None;
        let label = match part {
            Part::Structure => "verifying the structure",
            Part::Sessions => "verifying sessions",
            Part::ApplicationsAndUsers => "verifying applications and users",
            Part::References => "verifying references",
        };
        self.bar = Some((part, progress_bar(label, total)));
    }
}
