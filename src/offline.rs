//! Commands on a database file that no server has open: verify and compact.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::store::sqlite::{OpenError, compact, verify::verify};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a database file for damage. The server must not be running.
    Verify(VerifyArgs),
    /// Shrink a database file to its minimum size. The server must not be running.
    Compact(CompactArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond verify sessiond.db
  sessiond verify sessiond.db | grep '\"session_id\"'    # the sessions that are damaged

Prints a JSON object per finding, then one that counts what was read. It checks the structure of
the file, that sequences have no holes, that state is what the events add up to, that indexes
agree, and that texts are JSON. It changes nothing. `sessiond serve --verify` does the same
before it serves.

Exit codes: 0 nothing was found, 1 findings, or the file cannot be opened, 2 usage error.")]
pub struct VerifyArgs {
    /// The database file.
    #[arg(value_name = "FILE", value_parser = path)]
    file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond compact sessiond.db

Rewrites the file without the space of what was deleted, and prints its bytes before and after.
It needs up to twice the size of the file in free space for the time that it takes. If it is
interrupted, the file is as it was.")]
pub struct CompactArgs {
    /// The database file.
    #[arg(value_name = "FILE", value_parser = path)]
    file: PathBuf,
}

/// A path, also as `serve --store` takes it.
fn path(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("sqlite:").unwrap_or(text) {
        "" => Err("the file has no name".to_owned()),
        path => Ok(path.into()),
    }
}

/// Runs a command. Answers go to standard output as JSON, an object per line. An error is a sentence or two.
pub fn run(command: &Command) -> Result<ExitCode, String> {
    match command {
        Command::Verify(VerifyArgs { file }) => {
            let mut printed = Ok(());
            let summary = verify(file, &mut |finding| {
                if printed.is_ok() {
                    printed = print(finding);
                }
            });
            let summary = summary.map_err(|error| error.to_string())?;
            told(printed.and_then(|()| print(&summary)))?;
            Ok(if summary.findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Compact(CompactArgs { file }) => {
            let (before, after) = compact(file).map_err(|error| match error {
                OpenError::DiskFull(path) => format!(
                    "Compacting '{}' needs up to twice its size in free space. The file is unchanged. Free space, also for temporary files.",
                    path.display()
                ),
                error => error.to_string(),
            })?;
            told(print(&serde_json::json!({ "bytes_before": before, "bytes_after": after })))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn print(line: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")
}

/// A reader that has gone is no failure.
fn told(printed: io::Result<()>) -> Result<(), String> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("The output cannot be written: {error}."))
        }
        _ => Ok(()),
    }
}
