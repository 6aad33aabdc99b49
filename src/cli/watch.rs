//! `sessiond watch`: changes as they are committed.

use clap::{Args, ValueEnum};

use super::{
    args::{JSON_FORM, ScopeArgs},
    connect::{ConnectArgs, Server},
    failure::Failure,
    output::Output,
    view::WatchView,
};
use crate::proto::v1::{WatchRequest, WatchStart, watch_response::Kind};

/// `sessiond watch`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond watch --app shop --user alice --session s1                  # state now, then what follows
  sessiond watch --app shop --user alice --session s1 --start beginning
  sessiond watch --app shop --start now                                # the application's keys
  sessiond watch --app shop --user alice --session s1 --cursor \"$CURSOR\"

Every line carries a cursor: with the last one a watch goes on exactly where it stopped, also
after a restart of the server.")]
pub struct WatchArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// The last cursor received: go on right after it.
    #[arg(long, value_name = "CURSOR", conflicts_with = "start")]
    cursor: Option<String>,
    /// Where to begin without a cursor.
    #[arg(long, value_enum, default_value_t = Start::Snapshot)]
    start: Start,
    /// Stop after so many lines.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop when nothing is left to catch up on.
    #[arg(long)]
    until_caught_up: bool,
    /// Leave out the lines that only say that the watch is alive.
    #[arg(long)]
    no_heartbeats: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Start {
    /// With the current state, then what follows it without a gap.
    Snapshot,
    /// With the first event of the session.
    Beginning,
    /// With the next change.
    Now,
}

/// Runs `sessiond watch`; returns when the stream ends or enough has come.
///
/// # Errors
///
/// When the arguments contradict each other, the server is not there or refuses, or stops.
pub async fn run(args: WatchArgs) -> Result<(), Failure> {
    let scope = args.scope.scope()?;
    let request = WatchRequest {
        scope: Some(scope),
        cursor: args.cursor.clone().unwrap_or_default(),
        start: match args.start {
            Start::Snapshot => WatchStart::Snapshot,
            Start::Beginning => WatchStart::Beginning,
            Start::Now => WatchStart::Now,
        }
        .into(),
        json_form: JSON_FORM,
    };
    if args.limit == Some(0) {
        return Ok(());
    }
    let server = Server::connect_for_streams(&args.connect).await?;
    let mut stream = server.watch().watch(request).await?.into_inner();
    let mut output = Output::stdout();
    let mut lines = 0;
    while let Some(message) = stream.message().await? {
        let caught_up = matches!(message.kind, Some(Kind::CaughtUp(_)));
        if args.no_heartbeats && matches!(message.kind, Some(Kind::Heartbeat(_))) {
            continue;
        }
        output.line(&WatchView::try_from(message)?)?;
        // Who follows a watch wants each line when it comes.
        output.flush()?;
        lines += 1;
        if args.limit == Some(lines) || (caught_up && args.until_caught_up) {
            break;
        }
    }
    Ok(())
}
