//! `sessiond session …`.

mod read;
mod write;

use clap::{Args, Subcommand};

use self::{
    read::{GetArgs, ListArgs},
    write::{CreateArgs, DeleteArgs, ForkArgs, RewindArgs, UpdateArgs},
};
use super::{connect::ConnectArgs, failure::Failure};

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

The prefix of a key picks its scope: app: is shared by the whole application, user: by all
sessions of the user. A key without prefix belongs to the session.")]
    Create(CreateArgs),
    /// Read a session, its merged state and its events.
    #[command(after_help = "Examples:
  sessiond session get --app shop --user alice --session s1
  sessiond session get --session s1 --recent 20          # by its bare id; the newest 20 events
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

--label replaces all labels.")]
    Update(UpdateArgs),
    /// Delete a session, its events and its own state.
    #[command(after_help = "Example:
  sessiond session delete --app shop --user alice --session s1 --allow-missing

Application and user state stay.")]
    Delete(DeleteArgs),
    /// Create a session from the past of another one.
    #[command(after_help = "Examples:
  sessiond session fork --app shop --user alice --session s1 --new-session s2
  sessiond session fork --app shop --user alice --session s1 --up-to 7")]
    Fork(ForkArgs),
    /// Take a session back to an earlier event. Later events are hidden, not deleted.
    #[command(after_help = "Examples:
  sessiond session rewind --app shop --user alice --session s1 --to 7
  sessiond session rewind --app shop --user alice --session s1 --to 0 --expect 12
  sessiond event list --app shop --user alice --session s1 --include-rewound

The session's own state becomes the state as of that event. Application and user state stay.")]
    Rewind(RewindArgs),
}

pub async fn run(args: SessionArgs) -> Result<(), Failure> {
    let SessionArgs { connect, action } = args;
    match action {
        Action::Create(args) => write::create(args, &connect).await,
        Action::Get(args) => read::get(args, &connect).await,
        Action::List(args) => read::list(args, &connect).await,
        Action::Update(args) => write::update(args, &connect).await,
        Action::Delete(args) => write::delete(args, &connect).await,
        Action::Fork(args) => write::fork(args, &connect).await,
        Action::Rewind(args) => write::rewind(args, &connect).await,
    }
}
