//! Commands that create, update, delete, fork and rewind a session.

use clap::Args;
use prost_types::FieldMask;

use crate::{
    cli::{
        args::{JSON_FORM, KeyArgs, MetadataArgs},
        connect::{ConnectArgs, Server},
        delta::{PreconditionArgs, set_object},
        failure::Failure,
        output,
        parse::{self, Keyed},
    },
    domain::json::Json,
    proto::v1::{self, create_session_request::StateForm},
};

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
    set: Vec<Keyed<Json>>,
    #[command(flatten)]
    metadata: MetadataArgs,
    /// If the session exists, return it unchanged.
    #[arg(long)]
    allow_existing: bool,
}

#[derive(Debug, Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    /// Remove all labels.
    #[arg(long, conflicts_with = "labels")]
    no_labels: bool,
    /// Remove the expiration.
    #[arg(long, conflicts_with_all = ["ttl", "expire_time"])]
    no_expiry: bool,
}

#[derive(Debug, Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// Succeed also if there is no such session.
    #[arg(long)]
    allow_missing: bool,
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// The last event to copy; 0: none; by default all are copied.
    #[arg(long, value_name = "SEQUENCE", value_parser = parse::sequence)]
    up_to: Option<i64>,
    /// Id of the new session; by default the server makes one.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    new_session: String,
}

#[derive(Debug, Args)]
pub struct RewindArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// The last event that stays visible; 0: none.
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
}

fn create_request(args: CreateArgs) -> v1::CreateSessionRequest {
    v1::CreateSessionRequest {
        app_name: args.app,
        user_id: args.user,
        session_id: args.session,
        state_form: set_object(args.state, &args.set).map(StateForm::StateJson),
        session: Some(args.metadata.session()),
        allow_existing: args.allow_existing,
        json_form: JSON_FORM,
    }
}

pub async fn create(args: CreateArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let server = Server::connect(connect).await?;
    let answer = server.sessions().create_session(create_request(args)).await?;
    output::print_answer(answer)
}

fn update_request(args: UpdateArgs) -> Result<v1::UpdateSessionRequest, Failure> {
    let UpdateArgs { key, metadata, no_labels, no_expiry } = args;
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
        key: Some(key.key()),
        session: Some(metadata.session()),
        update_mask: Some(FieldMask { paths }),
    })
}

pub async fn update(args: UpdateArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request = update_request(args)?;
    let server = Server::connect(connect).await?;
    output::print_answer(server.sessions().update_session(request).await?)
}

pub async fn delete(args: DeleteArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request =
        v1::DeleteSessionRequest { key: Some(args.key.key()), allow_missing: args.allow_missing };
    let server = Server::connect(connect).await?;
    output::print_answer(server.sessions().delete_session(request).await?)
}

pub async fn fork(args: ForkArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request = v1::ForkSessionRequest {
        key: Some(args.key.key()),
        up_to_sequence: args.up_to,
        session_id: args.new_session,
        json_form: JSON_FORM,
    };
    let server = Server::connect(connect).await?;
    output::print_answer(server.sessions().fork_session(request).await?)
}

pub async fn rewind(args: RewindArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request = v1::RewindSessionRequest {
        key: Some(args.key.key()),
        to_sequence: Some(args.to),
        event_id: args.event_id,
        author: args.author,
        precondition: args.precondition.precondition(),
        json_form: JSON_FORM,
    };
    let server = Server::connect(connect).await?;
    output::print_answer(server.sessions().rewind_session(request).await?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::proto::v1::session::Expiration;

    #[derive(Debug, Parser)]
    struct Create {
        #[command(flatten)]
        args: CreateArgs,
    }

    #[derive(Debug, Parser)]
    struct Update {
        #[command(flatten)]
        args: UpdateArgs,
    }

    fn create_line(arguments: &[&str]) -> v1::CreateSessionRequest {
        let line = [&["x", "--app", "a", "--user", "u"], arguments].concat();
        create_request(Create::try_parse_from(line).unwrap().args)
    }

    fn update_line(arguments: &[&str]) -> Result<v1::UpdateSessionRequest, Failure> {
        let line = [&["x", "--app", "a", "--user", "u", "--session", "s"], arguments].concat();
        update_request(Update::try_parse_from(line).unwrap().args)
    }

    #[test]
    fn initial_state_comes_from_both_arguments() {
        let state = |arguments: &[&str]| match create_line(arguments).state_form {
            Some(StateForm::StateJson(text)) => Some(text),
            Some(StateForm::State(_)) => panic!("not as text"),
            None => None,
        };
        assert_eq!(state(&[]), None);
        assert_eq!(state(&["--state", "{ \"a\":1.0}"]).unwrap(), "{ \"a\":1.0}");
        assert_eq!(
            state(&["--state", "{\"a\":1.0}", "--set", "app:b=[]"]).unwrap(),
            r#"{"a":1.0,"app:b":[]}"#
        );
    }

    #[test]
    fn what_is_said_about_a_session_is_sent() {
        let request = create_line(&[
            "--ttl",
            "1h",
            "--label",
            "a=b",
            "--display-name",
            "n",
            "--allow-existing",
        ]);
        let session = request.session.unwrap();
        assert_eq!(session.display_name, "n");
        assert_eq!(session.labels["a"], "b");
        assert!(matches!(session.expiration, Some(Expiration::Ttl(d)) if d.seconds == 3600));
        assert!(request.allow_existing);
    }

    #[test]
    fn an_update_masks_what_was_said_and_nothing_else() {
        let paths = |arguments: &[&str]| update_line(arguments).unwrap().update_mask.unwrap().paths;
        assert_eq!(paths(&["--display-name", ""]), ["display_name"]);
        assert_eq!(paths(&["--no-labels", "--ttl", "5s"]), ["labels", "ttl"]);
        assert_eq!(
            paths(&["--label", "a=b", "--expire-time", "2030-01-01T00:00:00Z"]),
            ["labels", "expire_time"]
        );
        assert_eq!(paths(&["--no-expiry"]), ["expire_time"]);
        assert_eq!(update_line(&["--no-expiry"]).unwrap().session.unwrap().expiration, None);
        assert!(matches!(update_line(&[]), Err(Failure::Usage(_))));
    }
}
