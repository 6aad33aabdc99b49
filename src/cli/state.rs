//! `sessiond state …`: state without events.

use std::ops::Not as _;

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use serde::Serialize;

use super::{
    args::{JSON_FORM, PageArgs, ScopeArgs},
    connect::{ConnectArgs, Server},
    delta::{DeltaArgs, PreconditionArgs},
    failure::Failure,
    message::AsJson,
    output,
};
use crate::proto::v1;

#[derive(Debug, Args)]
pub struct StateArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read the merged state of a session, a user or an application.
    #[command(after_help = "Examples:
  sessiond state get --app shop                                  # the application's own
  sessiond state get --app shop --user alice --key user:lang
  sessiond state get --app shop --user alice --session s1 --versions")]
    Get(GetArgs),
    /// Update state without appending an event of your own.
    #[command(after_help = "Examples:
  sessiond state set --app shop --set app:motd='\"welcome\"'
  sessiond state set --app shop --user alice --increment user:visits=1 --default user:lang='\"en\"'
  sessiond state set --app shop --user alice --session s1 --remove topic --expect 12
  sessiond state set --app shop --user alice --merge user:profile='{\"age\": null}'

An application takes app: keys, a user app: and user: keys, a session all but temp:. The change
of a session is an event of its log.")]
    Set(Box<SetArgs>),
    /// List the changes of a key, newest first, one per line.
    #[command(after_help = "Example:
  sessiond state history --app shop --user alice --session s1 --key topic --limit 5")]
    History(HistoryArgs),
}

#[derive(Debug, Args)]
struct GetArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Only this key, with its prefix; may be repeated.
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Also show the temp: keys of this invocation.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Also show the version of each key's last change.
    #[arg(long)]
    versions: bool,
}

#[derive(Debug, Args)]
struct SetArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Author of the change; by default `system`.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    author: String,
    /// Makes the change idempotent: a second one with the same id has no effect.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
    #[command(flatten)]
    delta: DeltaArgs,
    #[command(flatten)]
    precondition: PreconditionArgs,
}

#[derive(Debug, Args)]
struct HistoryArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Key, with its prefix.
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    key: String,
    #[command(flatten)]
    pages: PageArgs,
}

/// A change as it is printed: a removal is told from null.
#[derive(Debug, Serialize)]
struct Change {
    #[serde(flatten)]
    change: AsJson<v1::KeyChange>,
    #[serde(skip_serializing_if = "<&bool>::not")]
    removed: bool,
}

impl Change {
    fn of(change: v1::KeyChange) -> Self {
        Self { removed: change.value_form.is_none(), change: AsJson(change) }
    }
}

pub async fn run(args: StateArgs) -> Result<(), Failure> {
    let StateArgs { connect, action } = args;
    match action {
        Action::Get(args) => get(args, &connect).await,
        Action::Set(args) => set(*args, &connect).await,
        Action::History(args) => history(args, &connect).await,
    }
}

async fn get(args: GetArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request = v1::GetStateRequest {
        scope: Some(args.scope.scope()?),
        keys: args.keys,
        invocation_id: args.invocation,
        include_versions: args.versions,
        json_form: JSON_FORM,
    };
    let server = Server::connect(connect).await?;
    output::print_answer(server.state().get_state(request).await?)
}

fn set_request(args: SetArgs) -> Result<v1::UpdateStateRequest, Failure> {
    let Some(delta) = args.delta.delta() else {
        return Err(Failure::Usage(
            "nothing to change. Give --set, --set-all, --remove, --increment, --append, --default or --merge".to_owned(),
        ));
    };
    Ok(v1::UpdateStateRequest {
        scope: Some(args.scope.scope()?),
        delta: Some(delta),
        precondition: args.precondition.precondition(),
        author: args.author,
        request_id: args.request_id,
        json_form: JSON_FORM,
    })
}

async fn set(args: SetArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request = set_request(args)?;
    let server = Server::connect(connect).await?;
    output::print_answer(server.state().update_state(request).await?)
}

async fn history(args: HistoryArgs, connect: &ConnectArgs) -> Result<(), Failure> {
    let request = v1::ListKeyChangesRequest {
        scope: Some(args.scope.scope()?),
        key: args.key,
        json_form: JSON_FORM,
        ..Default::default()
    };
    let server = Server::connect(connect).await?;
    let fetch = async |page_size, page_token| {
        let request = v1::ListKeyChangesRequest { page_size, page_token, ..request.clone() };
        let page = server.state().list_key_changes(request).await?.into_inner();
        Ok((page.changes, page.next_page_token))
    };
    output::print_pages(args.pages, Change::of, fetch).await
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::proto::v1::key_change;

    #[derive(Debug, Parser)]
    struct Set {
        #[command(flatten)]
        args: SetArgs,
    }

    fn line(arguments: &[&str]) -> Result<v1::UpdateStateRequest, Failure> {
        let line = [&["x", "--app", "a", "--user", ""], arguments].concat();
        set_request(Set::try_parse_from(line).unwrap().args)
    }

    #[test]
    fn a_change_names_its_scope_and_its_request() {
        let request = line(&["--set", "app:k=1", "--request-id", "r", "--author", "me"]).unwrap();
        let scope = request.scope.unwrap();
        assert_eq!((scope.app_name.as_str(), scope.user_id.as_str()), ("a", ""));
        assert_eq!((request.request_id.as_str(), request.author.as_str()), ("r", "me"));
    }

    #[test]
    fn a_change_of_nothing_is_a_usage_error() {
        assert!(matches!(line(&["--author", "me"]), Err(Failure::Usage(_))));
    }

    #[test]
    fn a_removal_is_told_from_null() {
        let change = |value_form| {
            let change = v1::KeyChange { version: 3, value_form, ..Default::default() };
            serde_json::to_string(&Change::of(change)).unwrap()
        };
        let null = key_change::ValueForm::ValueJson("null".to_owned());
        assert_eq!(change(Some(null)), r#"{"version":3,"value":null,"author":"","sequence":0}"#);
        assert_eq!(change(None), r#"{"version":3,"author":"","sequence":0,"removed":true}"#);
    }
}
