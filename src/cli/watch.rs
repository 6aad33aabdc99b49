//! `sessiond watch`: committed changes as a stream of lines.

use clap::{Args, ValueEnum};

use super::{
    args::{JSON_FORM, ScopeArgs},
    connect::{ConnectArgs, Server},
    failure::Failure,
    message::AsJson,
    output,
};
use crate::proto::v1::{WatchRequest, WatchStart, watch_response::Kind};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond watch --app shop --user alice --session s1                  # the state, then its changes
  sessiond watch --app shop --user alice --session s1 --start beginning
  sessiond watch --app shop --start now                                # the application's keys
  sessiond watch --app shop --user alice --session s1 --cursor \"$CURSOR\"

Every line has a cursor. A watch with --cursor resumes right after that line, also after a
restart of the server.")]
pub struct WatchArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Resume after this cursor, which a line of an earlier watch had.
    #[arg(long, value_name = "CURSOR", conflicts_with = "start")]
    cursor: Option<String>,
    /// Start of the watch without --cursor.
    #[arg(long, value_enum, default_value_t = Start::Snapshot)]
    start: Start,
    /// Stop after N lines.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop once the past is read.
    #[arg(long)]
    until_caught_up: bool,
    /// Omit heartbeats.
    #[arg(long)]
    no_heartbeats: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[repr(i32)]
enum Start {
    /// The current state, then its changes without a gap.
    Snapshot = WatchStart::Snapshot as i32,
    /// The first event of the session.
    Beginning = WatchStart::Beginning as i32,
    /// The next change.
    Now = WatchStart::Now as i32,
}

pub async fn run(args: WatchArgs) -> Result<(), Failure> {
    let request = WatchRequest {
        scope: Some(args.scope.scope()?),
        cursor: args.cursor.unwrap_or_default(),
        start: args.start as i32,
        json_form: JSON_FORM,
    };
    if args.limit == Some(0) {
        return Ok(());
    }
    let server = Server::connect(&ConnectArgs { timeout: 0, ..args.connect }).await?;
    let mut stream = server.watch().watch(request).await?.into_inner();
    let mut lines = 0;
    while let Some(message) = stream.message().await? {
        let caught_up = matches!(message.kind, Some(Kind::CaughtUp(_)));
        if args.no_heartbeats && matches!(message.kind, Some(Kind::Heartbeat(_))) {
            continue;
        }
        output::print(&AsJson(message))?;
        lines += 1;
        if args.limit == Some(lines) || (caught_up && args.until_caught_up) {
            break;
        }
    }
    Ok(())
}
