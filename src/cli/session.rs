//! `sessiond session …`.

use clap::{Args, Subcommand, ValueEnum};
use prost_types::FieldMask;
use serde::Serialize;

use super::{
    args::{AnyKeyArgs, JSON_FORM, KeyArgs, MetadataArgs, PageArgs, SelectionArgs},
    calls::{for_each_event, sessions_request},
    connect::{Group, Server},
    delta::{PreconditionArgs, set_object},
    event::EVENTS,
    failure::{Failure, warn_of_dropped},
    find::connect_to,
    message::AsJson,
    output::{self, Format, table::Column},
    parse,
    whole_state::complete,
};
use crate::{
    domain::json::Json,
    proto::v1::{self, create_session_request::StateForm},
};

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Create a session, with initial state.
    #[command(after_help = "Examples:
  sessiond session create --app shop --user alice --set topic='\"shoes\"' \\
      --set user:lang='\"de\"'
  sessiond session create --app shop --user alice --session s1 \\
      --state @state.json --ttl 7d --allow-existing

The prefix of a key selects its scope: app: is shared by the whole application,
user: by all sessions of the user. A key without prefix belongs to the session.")]
    Create(CreateArgs),
    /// Read a session, its merged state and its events.
    #[command(after_help = "Examples:
  sessiond session get --app shop --user alice --session s1
  sessiond session get s1 --recent 20  # by its bare id
  sessiond session get --app shop --user alice --session s1 --as-of 7 --events")]
    Get(GetArgs),
    /// List the sessions of an application or user, one per line.
    #[command(after_help = "Examples:
  sessiond session list --app shop
  sessiond session list --app shop --user alice --limit 10 --state
  sessiond session list --app shop --label tier=gold")]
    List {
        /// Application.
        #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
        app: String,
        /// Only sessions of this user (--user '' for all if SESSIOND_USER is set).
        #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
        user: Option<String>,
        /// Only sessions that have this label; may be repeated.
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse::label)]
        labels: Vec<(String, String)>,
        /// Order by the time of the last event.
        #[arg(long, value_enum, default_value_t = Order::Newest)]
        order: Order,
        /// Also show the merged state of each session.
        #[arg(long)]
        state: bool,
        #[command(flatten)]
        pages: PageArgs,
    },
    /// Change a session's display name, labels or expiration.
    #[command(after_help = "Examples:
  sessiond session update --app shop --user alice --session s1 \\
      --display-name Shoes --label tier=gold --ttl 30d
  sessiond session update --app shop --user alice --session s1 --no-expiry \\
      --no-labels

--label replaces all labels.")]
    Update(UpdateArgs),
    /// Delete a session, its events and its own state.
    #[command(after_help = "Example:
  sessiond session delete --app shop --user alice --session s1 --allow-missing

Application and user state stay.")]
    Delete {
        #[command(flatten)]
        key: KeyArgs,
        /// Succeed also if there is no such session.
        #[arg(long)]
        allow_missing: bool,
        #[command(flatten)]
        precondition: PreconditionArgs,
    },
    /// Create a session from the past of another one.
    #[command(after_help = "Examples:
  sessiond session fork --app shop --user alice --session s1 --new-session s2
  sessiond session fork --app shop --user alice --session s1 --up-to 7")]
    Fork {
        #[command(flatten)]
        key: AnyKeyArgs,
        /// Last event to copy; 0 copies no events; by default all are copied.
        #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
        up_to: Option<i64>,
        /// Id of the new session; by default the server makes one.
        #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
        new_session: String,
        #[command(flatten)]
        precondition: PreconditionArgs,
    },
    /// Take a session back to an earlier event. Later events are hidden, not deleted.
    #[command(after_help = "Examples:
  sessiond session rewind --app shop --user alice --session s1 --to 7 \\
      --expect 12
  sessiond event list --app shop --user alice --session s1 --include-rewound

The session's own state becomes the state as of that event. Application and
user state stay.")]
    Rewind {
        #[command(flatten)]
        key: AnyKeyArgs,
        /// Last event that stays visible; 0 hides all events.
        #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
        to: i64,
        /// Id of the marker event. Makes the rewind idempotent: a second one with the same id has no effect.
        #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
        event_id: String,
        /// Author of the marker event; by default `system`.
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        author: String,
        #[command(flatten)]
        precondition: PreconditionArgs,
    },
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: String,
    /// User within the application.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    user: String,
    /// Id of the session; by default the server makes one.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    session: String,
    /// Initial state: one JSON object.
    #[arg(long, value_name = "JSON|@FILE", value_parser = parse::object_or_file)]
    state: Option<Json>,
    /// Initial value of one key; may be repeated, and wins over --state.
    #[arg(long, value_name = "KEY=JSON", value_parser = parse::assignment)]
    set: Vec<(String, Json)>,
    #[command(flatten)]
    metadata: MetadataArgs,
    /// If the session exists, return it unchanged.
    #[arg(long)]
    allow_existing: bool,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(flatten)]
    key: AnyKeyArgs,
    /// Also show its events, oldest first.
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    /// As of this event; 0 is right after the creation.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    as_of: Option<i64>,
    /// Also show the temp: keys of this invocation.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Omit the state.
    #[arg(long)]
    without_state: bool,
    /// Also show the version of each key's last change.
    #[arg(long, conflicts_with = "without_state")]
    versions: bool,
}

#[derive(Debug, Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    key: AnyKeyArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    /// Remove all labels.
    #[arg(long, conflicts_with = "labels")]
    no_labels: bool,
    /// Remove the expiration.
    #[arg(long, conflicts_with_all = ["ttl", "expire_time"])]
    no_expiry: bool,
    #[command(flatten)]
    precondition: PreconditionArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[repr(i32)]
pub enum Order {
    /// Least recently used first.
    Oldest = v1::SessionOrder::LastEventTimeAsc as i32,
    /// Most recently used first.
    Newest = v1::SessionOrder::LastEventTimeDesc as i32,
}

const SESSIONS: [Column; 7] = [
    Column::id("SESSION", "key.session_id"),
    Column::new("USER", "key.user_id"),
    Column::new("EVENTS", "last_sequence").left_out(1),
    Column::new("LAST EVENT", "last_event_time").left_out(2),
    Column::new("NAME", "display_name").left_out(3),
    Column::new("LABELS", "labels").left_out(4),
    Column::new("STATE", "state"),
];

/// A session with all of its events, if they were asked for.
#[derive(Debug, Serialize)]
struct Found {
    session: AsJson<v1::Session>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<AsJson<v1::Event>>>,
}

pub async fn run(Group { connect, action }: Group<Action>) -> Result<(), Failure> {
    let format = connect.format();
    let server = async || Server::connect(&connect).await;
    match action {
        Action::Create(args) => {
            let created = server().await?.sessions().create_session(create_request(args)).await?;
            warn_of_dropped(&created.get_ref().dropped_temp_keys);
            output::print_answer(format, created)
        }
        Action::Get(args) => {
            let (server, key) = connect_to(&connect, &args.key).await?;
            get(&server, get_request(key, args), format).await
        }
        Action::List { app, user, labels, order, state, pages } => {
            let request = v1::ListSessionsRequest {
                order: order as i32,
                labels: labels.into_iter().collect(),
                include_state: state,
                ..sessions_request(&app, &user.unwrap_or_default())
            };
            list(&server().await?, request, (format, pages)).await
        }
        Action::Update(args) => {
            let mut request = update_request(args.metadata, args.no_labels, args.no_expiry)?;
            let (server, key) = connect_to(&connect, &args.key).await?;
            request.key = Some(key);
            request.precondition = args.precondition.precondition();
            output::print_answer(format, server.sessions().update_session(request).await?)
        }
        Action::Delete { key, allow_missing, precondition } => {
            let precondition = precondition.precondition();
            let key = Some(key.key());
            let request = v1::DeleteSessionRequest { key, allow_missing, precondition };
            output::print_answer(format, server().await?.sessions().delete_session(request).await?)
        }
        Action::Fork { key, up_to, new_session, precondition } => {
            let (server, key) = connect_to(&connect, &key).await?;
            let request = v1::ForkSessionRequest {
                key: Some(key),
                up_to_sequence: up_to,
                session_id: new_session,
                json_form: JSON_FORM,
                precondition: precondition.precondition(),
            };
            output::print_answer(format, server.sessions().fork_session(request).await?)
        }
        Action::Rewind { key, to, event_id, author, precondition } => {
            let (server, key) = connect_to(&connect, &key).await?;
            let request = v1::RewindSessionRequest {
                key: Some(key),
                to_sequence: Some(to),
                event_id,
                author,
                precondition: precondition.precondition(),
                json_form: JSON_FORM,
            };
            output::print_answer(format, server.sessions().rewind_session(request).await?)
        }
    }
}

async fn list(
    server: &Server,
    request: v1::ListSessionsRequest,
    (format, pages): (Format, PageArgs),
) -> Result<(), Failure> {
    let fetch = async |page_size, page_token| {
        let request = v1::ListSessionsRequest { page_size, page_token, ..request.clone() };
        let page = server.sessions().list_sessions(request).await?.into_inner();
        Ok((page.sessions, page.next_page_token))
    };
    output::print_pages((format, &SESSIONS), pages, AsJson, fetch).await
}

fn create_request(args: CreateArgs) -> v1::CreateSessionRequest {
    v1::CreateSessionRequest {
        app_name: args.app,
        user_id: args.user,
        session_id: args.session,
        state_form: set_object(args.state, args.set).map(StateForm::StateJson),
        session: Some(args.metadata.session()),
        allow_existing: args.allow_existing,
        json_form: JSON_FORM,
        ..Default::default()
    }
}

fn get_request(key: v1::SessionKey, args: GetArgs) -> v1::GetSessionRequest {
    let selection = args.selection.selection();
    let wanted = args.events || selection != v1::EventSelection::default();
    v1::GetSessionRequest {
        key: Some(key),
        events: wanted.then_some(selection),
        as_of_sequence: args.as_of,
        invocation_id: args.invocation,
        without_state: args.without_state,
        json_form: JSON_FORM,
        include_versions: args.versions,
    }
}

async fn get(
    server: &Server,
    request: v1::GetSessionRequest,
    format: Format,
) -> Result<(), Failure> {
    let selection = request.events;
    let answer = server.sessions().get_session(request.clone()).await?.into_inner();
    let mut events = Vec::new();
    let push = |event| {
        events.push(AsJson(event));
        Ok(())
    };
    let mut session = for_each_event(server, answer, selection, push).await?;
    complete(server, &mut session, &request).await?;
    let session = AsJson(session);
    if format == Format::Table {
        output::print_as(format, &session)?;
        let mut lines = output::Lines::new(format, &EVENTS);
        events.iter().try_for_each(|event| lines.add(event))?;
        return lines.end();
    }
    output::print_as(format, &Found { session, events: selection.map(|_| events) })
}

fn update_request(
    metadata: MetadataArgs,
    no_labels: bool,
    no_expiry: bool,
) -> Result<v1::UpdateSessionRequest, Failure> {
    let paths = [
        ("display_name", metadata.display_name.is_some()),
        ("labels", no_labels || !metadata.labels.is_empty()),
        ("expire_time", no_expiry || metadata.expire_time.is_some()),
        ("ttl", metadata.ttl.is_some()),
    ];
    let changed = paths.into_iter().filter(|(_, changed)| *changed);
    let paths: Vec<_> = changed.map(|(path, _)| path.to_owned()).collect();
    if paths.is_empty() {
        return Err(Failure::Usage(
            "nothing to change. Give --display-name, --label, --no-labels, --ttl, --expire-time or --no-expiry".to_owned(),
        ));
    }
    Ok(v1::UpdateSessionRequest {
        session: Some(metadata.session()),
        update_mask: Some(FieldMask { paths }),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests;
