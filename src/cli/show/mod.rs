//! `sessiond show`: a session as a conversation.

mod conversation;
mod header;
mod state;
mod view;

use clap::Args;

use super::{
    args::{AnyKeyArgs, JSON_FORM},
    calls::{for_each_event, get_request},
    connect::{ConnectArgs, Server},
    convert::state_of,
    failure::{Failure, tell},
    find::connect_to,
    message::AsJson,
    output::{self, Format},
    parse, resume, terminal, time,
    whole_state::complete,
};
use crate::{
    domain::json::{Json, minified},
    proto::v1::{self, watch_response::Kind},
};

pub use conversation::event as event_text;
pub use state::{gist as delta_gist, state as state_text};
pub use view::View;

/// The title of a scope's state.
pub fn state_title(scope: &v1::Scope) -> String {
    let ids = [&scope.app_name, &scope.user_id, &scope.session_id].into_iter();
    let ids = ids.filter(|id| !id.is_empty()).map(|id| terminal::escape(id));
    let title = format!("State of {}", ids.collect::<Vec<_>>().join(" / "));
    terminal::paint(terminal::BOLD, title) + "\n"
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond show --app shop --user alice --session s1
  sessiond show s1 --recent 20            # by its bare id
  sessiond show s1 --follow               # stays open and live
  sessiond show s1 --as-of 7              # as it was after event 7
  sessiond show s1 --diff 3..7            # what changed from 3 to 7
  CLICOLOR_FORCE=1 sessiond show s1 | less -R

Colours are left out if standard output is not a terminal or NO_COLOR is set.
Texts are read in ADK's form of an event; a body of another form is shown as
JSON.")]
pub struct ShowArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(flatten)]
    key: AnyKeyArgs,
    /// Only the newest N events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    recent: Option<i32>,
    /// As of this event; 0 is right after the creation.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence, conflicts_with_all = ["follow", "diff"])]
    as_of: Option<i64>,
    /// The events after N up to M, and how the state changed. Without N from the creation, without M up to now.
    #[arg(long, value_name = "N..M", value_parser = parse::range, conflicts_with_all = ["follow", "recent"])]
    diff: Option<(i64, Option<i64>)>,
    /// Stay open, and show new events and changes of state as they are committed.
    #[arg(long, short)]
    follow: bool,
    /// Also events that a rewind has hidden, and the markers of rewinds.
    #[arg(long)]
    include_rewound: bool,
    /// Show long texts and values whole.
    #[arg(long)]
    full: bool,
    /// Columns of the text; by default those of the terminal, at most 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..=1000))]
    width: Option<u16>,
}

pub async fn run(args: ShowArgs) -> Result<(), Failure> {
    // A conversation is for people also in a pager, so that only an explicit form is another one.
    let format = args.connect.output.unwrap_or(Format::Table);
    let width = args.width.map_or(View::live().width, usize::from);
    let view = View { width, full: args.full, now: Some(time::now()) };
    let (server, key) = connect_to(&args.connect, &args.key).await?;
    let (from, to) = args.diff.map_or((None, args.as_of), |(from, to)| (Some(from), to));
    let mut request = v1::GetSessionRequest {
        events: Some(v1::EventSelection {
            recent: args.recent,
            after_sequence: from.unwrap_or_default(),
            include_rewound: args.include_rewound,
            ..Default::default()
        }),
        as_of_sequence: to,
        ..get_request(&key)
    };
    if let Some(from) = from {
        return difference(&server, request, from, format, &view).await;
    }
    if !args.follow {
        return conversation(&server, request, None, format, &view).await;
    }
    let v1::SessionKey { app_name, user_id, session_id } = key;
    let scope = v1::Scope { app_name, user_id, session_id };
    let mut watch = resume::Watch::new(
        &server,
        v1::WatchRequest { scope: Some(scope), json_form: JSON_FORM, ..Default::default() },
    );
    // The first message tells where the past ends, so that no event is shown twice or never.
    let Some(first) = watch.next().await? else { return Ok(()) };
    if let Some(Kind::Snapshot(snapshot)) = &first.kind {
        request.as_of_sequence = Some(snapshot.last_sequence);
    }
    conversation(&server, request, None, format, &view).await?;
    follow(watch, format, &View { now: None, ..view }).await
}

/// The answer, and its session with the whole state.
async fn read(
    server: &Server,
    request: &v1::GetSessionRequest,
) -> Result<(v1::GetSessionResponse, v1::Session), Failure> {
    let answer = server.sessions().get_session(request.clone()).await?.into_inner();
    let mut session = answer.session.clone().unwrap_or_default();
    complete(server, &mut session, request).await?;
    Ok((answer, session))
}

/// Prints the session as of the request, with its events and its state, or how that differs from an earlier one.
async fn conversation(
    server: &Server,
    request: v1::GetSessionRequest,
    before: Option<(i64, Json)>,
    format: Format,
    view: &View,
) -> Result<(), Failure> {
    let (answer, session) = read(server, &request).await?;
    match format {
        Format::Table => output::print_text(&header::title(&session, view))?,
        format => output::print_as(format, &AsJson(session.clone()))?,
    }
    for_each_event(server, answer, request.events, |event| print_event(event, format, view))
        .await?;
    if format != Format::Table {
        return Ok(());
    }
    let (state, last) = (minified(state_of(&session)), session.last_sequence);
    let (title, text) = match before {
        None => ("State".to_owned(), state::state(&state, view)),
        Some((from, before)) => {
            let text = state::differences(&before, &state, view);
            (format!("State from #{from} to #{last}"), text)
        }
    };
    output::print_text(&(header::heading(&title) + &text))
}

fn print_event(event: v1::Event, format: Format, view: &View) -> Result<(), Failure> {
    match format {
        Format::Table => output::print_text(&conversation::event(&event, view)),
        format => output::print_as(format, &AsJson(event)),
    }
}

async fn follow(mut watch: resume::Watch, format: Format, view: &View) -> Result<(), Failure> {
    if format == Format::Table {
        tell("following; Ctrl-C ends");
    }
    while let Some(message) = watch.next().await? {
        match (message.kind, format) {
            (Some(Kind::Event(event)), format) => print_event(event, format, view)?,
            (Some(Kind::StateChange(change)), Format::Table) => {
                output::print_text(&shared_change(&change, view))?;
            }
            (Some(Kind::StateChange(change)), format) => output::print_as(format, &AsJson(change))?,
            (Some(Kind::SessionDeleted(_)), _) => tell("the session was deleted"),
            (Some(Kind::Snapshot(_) | Kind::CaughtUp(_) | Kind::Heartbeat(_)) | None, _) => {}
        }
    }
    Ok(())
}

/// A change of the user's or the application's state that another session made.
pub fn shared_change(change: &v1::StateChange, view: &View) -> String {
    let time = change.commit_time.map(|time| view.time(time)).unwrap_or_default();
    let title = terminal::paint(terminal::DIM, format!("shared state  {time}"));
    let changes: String = change.delta.iter().map(|delta| state::changes(delta, view)).collect();
    format!("\n{title}\n{changes}")
}

/// Prints what happened after event `from`.
async fn difference(
    server: &Server,
    request: v1::GetSessionRequest,
    from: i64,
    format: Format,
    view: &View,
) -> Result<(), Failure> {
    let state_at = v1::GetSessionRequest { events: None, ..request.clone() };
    let earlier = v1::GetSessionRequest { as_of_sequence: Some(from), ..state_at.clone() };
    let before = minified(state_of(&read(server, &earlier).await?.1));
    if format == Format::Table {
        return conversation(server, request, Some((from, before)), format, view).await;
    }
    let (_, session) = read(server, &state_at).await?;
    let raw = |json: Json| serde_json::value::RawValue::from_string(json.into_string());
    let report = serde_json::json!({
        "from": from, "to": session.last_sequence,
        "before": raw(before)?, "after": raw(minified(state_of(&session)))?,
    });
    output::print_as(format, &report)
}
