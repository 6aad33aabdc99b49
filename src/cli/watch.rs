//! `sessiond watch`: committed changes as a stream of lines.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{
    args::{JSON_FORM, ScopeArgs},
    connect::{ConnectArgs, Server},
    failure::Failure,
    message::AsJson,
    output::{self, Format},
    resume,
    show::{View, event_text, shared_change, state_text},
    terminal::{DIM, paint},
    time, whole_state,
};
use crate::{
    domain::json::Json,
    proto::v1::{
        StateSnapshot, WatchRequest, WatchResponse, WatchStart, state_snapshot::StateForm,
        watch_response::Kind,
    },
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond watch --app shop --user alice --session s1
  sessiond watch --app shop --user alice --session s1 --start beginning
  sessiond watch --app shop --start now  # the application's keys
  sessiond watch --app shop --user alice --session s1 --cursor \"$CURSOR\"

Every line of JSON has a cursor. A watch reconnects after a lost connection or
a restart of the server. When its token ends, it takes the one that is then in
--token-file. --cursor resumes right after the line that had it.")]
pub struct WatchArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,
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
    /// Stop when all past changes are read.
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
    /// The first event of the session, or the first change of the user or the application.
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
    let format = args.connect.format();
    let server = Server::connect(&ConnectArgs { timeout: Duration::ZERO, ..args.connect }).await?;
    let mut watch = resume::Watch::new(&server, request);
    let mut lines = 0;
    while let Some(message) = watch.next().await? {
        let caught_up = matches!(message.kind, Some(Kind::CaughtUp(_)));
        if args.no_heartbeats && matches!(message.kind, Some(Kind::Heartbeat(_))) {
            continue;
        }
        match format {
            Format::Table => output::print_text(&for_people(message, &View::live()))?,
            format => output::print_as(format, &AsJson(message))?,
        }
        lines += 1;
        if args.limit == Some(lines) || (caught_up && args.until_caught_up) {
            break;
        }
    }
    Ok(())
}

fn for_people(message: WatchResponse, view: &View) -> String {
    let note = |text: String| format!("{}\n", paint(DIM, text));
    match message.kind {
        Some(Kind::Snapshot(StateSnapshot {
            state_form,
            last_sequence,
            state_omitted,
            damaged_keys,
            ..
        })) => {
            whole_state::warn(state_omitted, &damaged_keys);
            let Some(StateForm::StateJson(state)) = state_form else { return String::new() };
            let title = note(format!("state after event {last_sequence}"));
            title + &state_text(&Json::from_stored(state), view)
        }
        Some(Kind::Event(event)) => event_text(&event, view),
        Some(Kind::StateChange(change)) => shared_change(&change, view),
        Some(Kind::CaughtUp(_)) => note("caught up, live from here".to_owned()),
        Some(Kind::Heartbeat(beat)) => {
            note(beat.server_time.map(time::clock).unwrap_or_default() + " heartbeat")
        }
        Some(Kind::SessionDeleted(_)) => note("the session was deleted".to_owned()),
        None => String::new(),
    }
}
