//! `sessiond session …`: the life of sessions.

mod life;
mod read;

use clap::{Args, Subcommand};

use super::{
    args::{AboutArgs, AnyKeyArgs, KeyArgs, PageArgs},
    connect::{ConnectArgs, Server},
    delta::PreconditionArgs,
    failure::Failure,
    parse, time,
};

/// `sessiond session …`
#[derive(Debug, Args)]
pub struct SessionArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a session, with initial state.
    #[command(after_help = "Examples:
  sessiond session create --app shop --user alice --set topic='\"shoes\"' --set user:lang='\"de\"'
  sessiond session create --app shop --user alice --session s1 --state @state.json --ttl 7d
  sessiond session create --app shop --user alice --session s1 --allow-existing

Prefixes pick the scope of a key: app: is shared by the whole application, user: by all
sessions of the user, no prefix belongs to the session alone.")]
    Create(CreateArgs),
    /// Read a session, its merged state and, if asked, its events.
    #[command(after_help = "Examples:
  sessiond session get --app shop --user alice --session s1
  sessiond session get --session s1 --recent 20          # by its bare id, with the newest 20 events
  sessiond session get --app shop --user alice --session s1 --as-of 7 --events")]
    Get(GetArgs),
    /// List the sessions of an application or user, one per line.
    #[command(after_help = "Examples:
  sessiond session list --app shop
  sessiond session list --app shop --user alice --order newest --limit 10 --state
  sessiond session list --app shop --label tier=gold")]
    List(ListArgs),
    /// Change a session's display name, labels or expiration.
    #[command(after_help = "Examples:
  sessiond session update --app shop --user alice --session s1 --display-name 'Shoes, again'
  sessiond session update --app shop --user alice --session s1 --label tier=gold --ttl 30d
  sessiond session update --app shop --user alice --session s1 --no-expiry --no-labels

Labels are replaced as a whole: give all that are to stay.")]
    Update(UpdateArgs),
    /// Delete a session with its events and its own state.
    #[command(after_help = "Example:
  sessiond session delete --app shop --user alice --session s1 --allow-missing

The application's and the user's state stay.")]
    Delete(DeleteArgs),
    /// Make a new session from another one's past.
    #[command(after_help = "Examples:
  sessiond session fork --app shop --user alice --session s1 --new-session s2
  sessiond session fork --app shop --user alice --session s1 --up-to 7")]
    Fork(ForkArgs),
    /// Take a session back to an earlier event; what came after is hidden, not deleted.
    #[command(after_help = "Examples:
  sessiond session rewind --app shop --user alice --session s1 --to 7
  sessiond session rewind --app shop --user alice --session s1 --to 0 --expect 12
  sessiond event list --app shop --user alice --session s1 --include-rewound   # everything is still there

The session's own state becomes what it was right after that event; application and user state stay.")]
    Rewind(RewindArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: String,
    /// User within the application.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    user: String,
    /// Id of the session; the server makes one otherwise.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    session: String,
    /// Initial state: one JSON object.
    #[arg(long, value_name = "JSON|@FILE", value_parser = parse::object_or_file)]
    state: Option<String>,
    /// Initial value of one key; may be repeated, and wins over --state.
    #[arg(long, value_name = "KEY=JSON", value_parser = parse::assignment)]
    set: Vec<parse::Keyed<String>>,
    #[command(flatten)]
    about: AboutArgs,
    /// Answer with the existing session, unchanged, where there is one.
    #[arg(long)]
    allow_existing: bool,
}

#[derive(Debug, Args)]
struct GetArgs {
    #[command(flatten)]
    key: AnyKeyArgs,
    /// With its events, oldest first.
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    /// As it was right after this event; 0: as it was created.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    as_of: Option<i64>,
    /// Show this invocation's temp: keys as well.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Leave the state out.
    #[arg(long)]
    without_state: bool,
}

/// Which events to read. Filters add up.
#[derive(Debug, Clone, Default, Args)]
pub struct SelectionArgs {
    /// Only the newest so many events of those that pass the other filters.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub recent: Option<i32>,
    /// Only events after this sequence.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    pub after_sequence: Option<i64>,
    /// Only events at or after this time (RFC 3339), by their own clock.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub after_time: Option<prost_types::Timestamp>,
    /// Also events that a rewind has hidden, and the markers of rewinds.
    #[arg(long)]
    pub include_rewound: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: String,
    /// Only this user's sessions (--user '' for all where SESSIOND_USER is set).
    #[arg(
        long,
        env = "SESSIOND_USER",
        value_name = "ID",
        default_value = "",
        hide_default_value = true
    )]
    user: String,
    /// Only sessions that have this label; may be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse::label)]
    labels: Vec<(String, String)>,
    /// By time of the last event.
    #[arg(long, value_enum, default_value_t = Order::Oldest)]
    order: Order,
    /// With the merged state of each session.
    #[arg(long)]
    state: bool,
    #[command(flatten)]
    pages: PageArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Order {
    /// Least recently used first.
    Oldest,
    /// Most recently used first.
    Newest,
}

#[derive(Debug, Args)]
struct UpdateArgs {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    about: AboutArgs,
    /// Remove all labels.
    #[arg(long, conflicts_with = "labels")]
    no_labels: bool,
    /// The session no longer expires.
    #[arg(long, conflicts_with_all = ["ttl", "expire_time"])]
    no_expiry: bool,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// Succeed where there is no such session.
    #[arg(long)]
    allow_missing: bool,
}

#[derive(Debug, Args)]
struct ForkArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// The last event to take over; 0: none; all are taken otherwise.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    up_to: Option<i64>,
    /// Id of the new session; the server makes one otherwise.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    new_session: String,
}

#[derive(Debug, Args)]
struct RewindArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// The last event that stays visible; 0: none does.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    to: i64,
    /// Id of the marker event; repeating a rewind with the same id changes nothing again.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    event_id: String,
    /// Who rewinds; `system` otherwise.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    author: String,
    #[command(flatten)]
    precondition: PreconditionArgs,
}

/// Runs `sessiond session …`.
///
/// # Errors
///
/// When the arguments contradict each other, or the server is not there or refuses.
pub async fn run(args: SessionArgs) -> Result<(), Failure> {
    let SessionArgs { connect, action } = args;
    let server = async || Server::connect(&connect).await;
    match action {
        Action::Create(args) => life::create(args, &server().await?).await,
        Action::Get(args) => {
            let request = read::get_request(&args)?;
            read::get(request, &server().await?).await
        }
        Action::List(args) => read::list(args, &server().await?).await,
        Action::Update(args) => {
            let request = life::update_request(&args)?;
            life::update(request, &server().await?).await
        }
        Action::Delete(args) => life::delete(args, &server().await?).await,
        Action::Fork(args) => life::fork(args, &server().await?).await,
        Action::Rewind(args) => life::rewind(args, &server().await?).await,
    }
}
