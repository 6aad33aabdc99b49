//! `sessiond state …` and `sessiond render`: state without events.

use std::ops::Not as _;

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use serde::Serialize;

use super::{
    args::{AnyKeyArgs, JSON_FORM, KeyArgs, PageArgs, ScopeArgs},
    connect::{ConnectArgs, Group, Server},
    delta::{DeltaArgs, PreconditionArgs},
    failure::Failure,
    find::connect_to,
    hidden::Form,
    message::AsJson,
    output::{self, Format, table::Column},
    parse,
    show::{View, state_text, state_title},
    whole_state::{self, state_request, whole_state},
};
use crate::{
    domain::json::minified,
    proto::v1::{self, get_state_response::StateForm},
};

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Read the merged state of a session, a user or an application.
    #[command(after_help = "Examples:
  sessiond state get --app shop  # the application's own
  sessiond state get --app shop --user alice --key user:lang
  sessiond state get --app shop --user alice --session s1 --versions")]
    Get {
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
    },
    /// Update state without appending an event yourself.
    #[command(after_help = "Examples:
  sessiond state set --app shop --set app:motd='\"welcome\"'
  sessiond state set --app shop --user alice --increment user:visits=1 \\
      --default user:lang='\"en\"'
  sessiond state set --app shop --user alice --session s1 --remove topic \\
      --expect 12
  sessiond state set --app shop --user alice \\
      --merge user:profile='{\"age\": null}'

An application takes app: keys, a user app: and user: keys, a session all but
temp:. The change of a session is an event of its log.")]
    Set(Box<SetArgs>),
    /// End an invocation and drop its temp: keys.
    #[command(after_help = "Example:
  sessiond state end-invocation --app shop --user alice --session s1 \\
      --invocation turn-7

Happens by itself after the server's --temp-idle (an hour) without use.")]
    EndInvocation {
        #[command(flatten)]
        key: KeyArgs,
        /// Invocation of an agent.
        #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        invocation: String,
    },
    /// List the changes of a key, newest first, one per line.
    #[command(after_help = "Example:
  sessiond state history --app shop --user alice --session s1 --key topic \\
      --limit 5")]
    History {
        #[command(flatten)]
        scope: ScopeArgs,
        /// Key, with its prefix.
        #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
        key: String,
        #[command(flatten)]
        pages: PageArgs,
    },
}

#[derive(Debug, Args)]
pub struct SetArgs {
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

const CHANGES: [Column; 7] = [
    Column::new("VERSION", "version"),
    Column::new("CHANGED", "commit_time"),
    Column::new("AUTHOR", "author"),
    Column::id("SESSION", "session.session_id"),
    Column::new("EVENT", "sequence"),
    Column::new("VALUE", "value"),
    Column::new("REMOVED", "removed"),
];

/// A change as it is printed: a removal is told from null.
#[derive(Debug, Serialize)]
struct Change {
    #[serde(flatten)]
    change: AsJson<v1::KeyChange>,
    #[serde(skip_serializing_if = "<&bool>::not")]
    removed: bool,
}

pub async fn run(Group { connect, action }: Group<Action>) -> Result<(), Failure> {
    let state = async || Ok::<_, Failure>(Server::connect(&connect).await?.state());
    let format = connect.format();
    match action {
        Action::Get { scope, keys, invocation, versions } => {
            let scope = scope.scope()?;
            let title = state_title(&scope);
            let request = v1::GetStateRequest {
                keys,
                invocation_id: invocation,
                include_versions: versions,
                ..state_request(scope)
            };
            let state = whole_state(&Server::connect(&connect).await?, request).await?;
            whole_state::warn(state.state_omitted, &state.damaged_keys);
            match (format, &state.state_form) {
                (Format::Table, Some(StateForm::StateJson(text))) if !versions => {
                    let text = state_text(&minified(text), &View::live());
                    output::print_text(&(title + &text))
                }
                (format, _) => output::print_as(format, &AsJson(state)),
            }
        }
        Action::Set(args) => {
            let request = set_request(*args)?;
            output::print_answer(format, state().await?.update_state(request).await?)
        }
        Action::EndInvocation { key, invocation } => {
            let request =
                v1::EndInvocationRequest { key: Some(key.key()), invocation_id: invocation };
            output::print_answer(format, state().await?.end_invocation(request).await?)
        }
        Action::History { scope, key, pages } => {
            let request = v1::ListKeyChangesRequest {
                scope: Some(scope.scope()?),
                key,
                json_form: JSON_FORM,
                ..Default::default()
            };
            let state = state().await?;
            let fetch = async |page_size, page_token| {
                let request =
                    v1::ListKeyChangesRequest { page_size, page_token, ..request.clone() };
                let page = state.clone().list_key_changes(request).await?.into_inner();
                Ok((page.changes, page.next_page_token))
            };
            output::print_pages((format, &CHANGES), pages, printed, fetch).await
        }
    }
}

fn printed(change: v1::KeyChange) -> Change {
    Change { removed: change.value_form.is_none(), change: AsJson(change) }
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

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond render --app shop --user alice --session s1 \\
      --template 'Speak {user:lang?}. Topic: {topic}'
  sessiond render --app shop --user alice --session s1 \\
      --template @instruction.txt --text

{key} is replaced with the key's value. {key?} is removed if the key has no
value.")]
pub struct RenderArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(flatten)]
    key: AnyKeyArgs,
    /// The template.
    #[arg(long, value_name = "TEXT|@FILE", value_parser = parse::text_or_file)]
    template: String,
    /// Also use the temp: keys of this invocation.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Print the text instead of JSON.
    #[arg(long)]
    text: bool,
}

pub async fn render(args: RenderArgs) -> Result<(), Failure> {
    let (server, key) = connect_to(&args.connect, &args.key).await?;
    let request = v1::RenderTemplateRequest {
        key: Some(key),
        template: args.template,
        invocation_id: args.invocation,
    };
    let answer = server.state().render_template(request).await?;
    if args.text {
        return output::print_in(Form::Text, &answer.into_inner().text);
    }
    output::print_answer(args.connect.format(), answer)
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
            serde_json::to_string(&printed(change)).unwrap()
        };
        let null = key_change::ValueForm::ValueJson("null".to_owned());
        assert_eq!(change(Some(null)), r#"{"version":3,"value":null,"author":"","sequence":0}"#);
        assert_eq!(change(None), r#"{"version":3,"author":"","sequence":0,"removed":true}"#);
    }
}
