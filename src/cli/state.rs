//! `sessiond state …`: state without events.

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};

use super::{
    args::{JSON_FORM, PageArgs, ScopeArgs},
    connect::{ConnectArgs, Server},
    delta::{DeltaArgs, PreconditionArgs},
    failure::Failure,
    output::{self, Output},
    view::{KeyChangeView, StateView},
};
use crate::proto::v1::{GetStateRequest, ListKeyChangesRequest, Scope, UpdateStateRequest};

/// `sessiond state …`
#[derive(Debug, Args)]
pub struct StateArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read what is visible from an application, a user or a session.
    #[command(after_help = "Examples:
  sessiond state get --app shop                                  # the application's own
  sessiond state get --app shop --user alice --key user:lang
  sessiond state get --app shop --user alice --session s1 --versions")]
    Get(GetArgs),
    /// Change state outside of an agent's turn.
    #[command(after_help = "Examples:
  sessiond state set --app shop --set app:motd='\"welcome\"'
  sessiond state set --app shop --user alice --increment user:visits=1 --default user:lang='\"en\"'
  sessiond state set --app shop --user alice --session s1 --remove topic --expect 12
  sessiond state set --app shop --user alice --merge user:profile='{\"age\": null}'

An application takes app: keys, a user app: and user: keys, a session all but temp:. Through a
session the change is recorded in its log as an event.")]
    Set(Box<SetArgs>),
    /// List how a key came to its value, newest first, one change per line.
    #[command(after_help = "Example:
  sessiond state history --app shop --user alice --session s1 --key topic --limit 5")]
    History(HistoryArgs),
}

#[derive(Debug, Args)]
struct GetArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Only this key (with its prefix); may be repeated.
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Show this invocation's temp: keys as well.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// With the version at which each key was last written.
    #[arg(long)]
    versions: bool,
}

#[derive(Debug, Args)]
struct SetArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    delta: DeltaArgs,
    #[command(flatten)]
    precondition: PreconditionArgs,
    /// Who; `system` otherwise.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    author: String,
    /// Repeating a change with the same id changes nothing again.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
}

#[derive(Debug, Args)]
struct HistoryArgs {
    #[command(flatten)]
    scope: ScopeArgs,
    /// The key, with its prefix.
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    key: String,
    #[command(flatten)]
    pages: PageArgs,
}

/// Runs `sessiond state …`.
///
/// # Errors
///
/// When the arguments contradict each other, or the server is not there or refuses.
pub async fn run(args: StateArgs) -> Result<(), Failure> {
    let StateArgs { connect, action } = args;
    match action {
        Action::Get(args) => {
            let request = GetStateRequest {
                scope: Some(args.scope.scope()?),
                keys: args.keys,
                invocation_id: args.invocation,
                include_versions: args.versions,
                json_form: JSON_FORM,
            };
            let server = Server::connect(&connect).await?;
            let answer = server.state().get_state(request).await?;
            output::print(&StateView::try_from(answer.into_inner())?)
        }
        Action::Set(args) => {
            let request = set_request(*args)?;
            let server = Server::connect(&connect).await?;
            let answer = server.state().update_state(request).await?;
            output::print(&StateView::try_from(answer.into_inner())?)
        }
        Action::History(args) => {
            let scope = args.scope.scope()?;
            let server = Server::connect(&connect).await?;
            history(scope, args, &server).await
        }
    }
}

fn set_request(args: SetArgs) -> Result<UpdateStateRequest, Failure> {
    let Some(delta) = args.delta.delta() else {
        return Err(Failure::Usage(
            "say what to change: --set, --set-all, --remove, --increment, --append, --default or --merge".to_owned(),
        ));
    };
    Ok(UpdateStateRequest {
        scope: Some(args.scope.scope()?),
        delta: Some(delta),
        precondition: args.precondition.precondition(),
        author: args.author,
        request_id: args.request_id,
        json_form: JSON_FORM,
    })
}

async fn history(scope: Scope, args: HistoryArgs, server: &Server) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let mut request = ListKeyChangesRequest {
        scope: Some(scope),
        key: args.key,
        page_size: 0,
        page_token: String::new(),
        json_form: JSON_FORM,
    };
    let mut seen = 0;
    while let Some(page_size) = args.pages.next(seen) {
        request.page_size = page_size;
        let page = server.state().list_key_changes(request.clone()).await?.into_inner();
        for change in page.changes {
            output.line(&KeyChangeView::try_from(change)?)?;
            seen += 1;
        }
        output.flush()?;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Set {
        #[command(flatten)]
        args: SetArgs,
    }

    fn line(arguments: &[&str]) -> Result<UpdateStateRequest, Failure> {
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
}
