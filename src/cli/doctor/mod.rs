//! `sessiond doctor`: the first look when something seems wrong.

mod contract;
mod database;
mod files;
mod finding;
mod server;

use clap::Args;

use self::finding::{Finding, Outcome};
pub use self::server::check;

use super::{
    connect::ConnectArgs,
    failure::{Failure, tell},
    output::{self, Format},
};
use crate::domain::limits;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond doctor
  sessiond doctor --server unix:/run/sessiond.sock \\
      --store sqlite:/var/lib/sessiond/sessiond.db
  sessiond doctor -o json | jq 'select(.result != \"ok\")'

Changes nothing. Exits with 0 if there is no error (there may be warnings), with
1 if there is one, and with 3 if the server cannot be reached.")]
pub struct DoctorArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Store of the server, if it is on this machine: looks at the file and the disk.
    // The variable's value may have a password, which a help text would show.
    #[arg(
        long,
        env = "SESSIOND_STORE",
        hide_env_values = true,
        value_name = "URL",
        default_value = "sqlite:sessiond.db"
    )]
    store: String,
    #[command(flatten)]
    files: files::FileArgs,
}

pub async fn run(args: DoctorArgs) -> Result<(), Failure> {
    let mut findings = vec![Finding::new("client", Outcome::Ok, env!("CARGO_PKG_VERSION"))];
    let unreachable = server::examine(&args.connect, &mut findings).await.err();
    findings.extend(database::examine(&args.store));
    findings.extend(files::examine(&args.files, &args.connect, &args.store));
    findings.push(limits());
    let format = args.connect.format();
    for finding in &findings {
        match format {
            Format::Table => output::print_text(&finding.line())?,
            format => output::print_as(format, finding)?,
        }
    }
    if let Some(failure) = unreachable {
        return Err(failure);
    }
    let wrong = |outcome| findings.iter().filter(|finding| finding.result == outcome).count();
    let (errors, warnings) = (wrong(Outcome::Error), wrong(Outcome::Warning));
    if format == Format::Table {
        tell(&match (errors, warnings) {
            (0, 0) => "nothing looks wrong".to_owned(),
            (errors, warnings) => format!("errors: {errors}, warnings: {warnings}"),
        });
    }
    if errors > 0 { Err(Failure::Reported) } else { Ok(()) }
}

/// The limits of the contract, which no flag changes. A server of the same contract has the same.
fn limits() -> Finding {
    let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
    let detail = format!(
        "message {}, event body {}, scope's state {}, value {} KiB, batch {} events",
        mib(limits::MESSAGE_BYTES),
        mib(limits::BODY_BYTES),
        mib(limits::SCOPE_BYTES),
        limits::VALUE_BYTES >> 10,
        limits::BATCH_EVENTS,
    );
    Finding::new("limits", Outcome::Ok, detail)
}
