//! `sessiond event …`: the log of a session.

use clap::{Args, Subcommand};

use super::{
    args::{AnyKeyArgs, JSON_FORM, KeyArgs, PageArgs},
    connect::{ConnectArgs, Server},
    delta::{DeltaArgs, PreconditionArgs},
    failure::Failure,
    output::{self, Output},
    parse,
    session::SelectionArgs,
    time,
    view::{AppendView, EventView},
};
use crate::proto::v1::{AppendEventRequest, Event, ListEventsRequest, event::BodyForm};

/// `sessiond event …`
#[derive(Debug, Args)]
pub struct EventArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Append an event, and change state with it in one commit.
    #[command(after_help = "Examples:
  sessiond event append --app shop --user alice --session s1 --author user \\
      --body '{\"content\": {\"role\": \"user\", \"parts\": [{\"text\": \"hi\"}]}}'
  sessiond event append --session s1 --author agent --body @event.json \\
      --set topic='\"shoes\"' --increment user:visits=1
  sessiond event append --session s1 --author agent --event-id turn-7 --expect 6

An append that may have failed is repeated with the same --event-id: it happens once.")]
    Append(Box<AppendArgs>),
    /// List a session's events, one per line.
    #[command(after_help = "Examples:
  sessiond event list --app shop --user alice --session s1
  sessiond event list --app shop --user alice --session s1 --descending --limit 5
  sessiond event list --app shop --user alice --session s1 --after-sequence 7 --author user")]
    List(ListArgs),
}

#[derive(Debug, Args)]
struct AppendArgs {
    #[command(flatten)]
    key: AnyKeyArgs,
    /// Who: `user`, an agent's name, `system`, …
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    author: String,
    /// Everything about the event that the server need not know: one JSON object.
    #[arg(long, value_name = "JSON|@FILE", value_parser = parse::object_or_file)]
    body: Option<String>,
    /// The invocation (turn) that the event belongs to.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Agent branch, dotted.
    #[arg(long, value_name = "BRANCH", default_value = "", hide_default_value = true)]
    branch: String,
    /// Id of the event; the server makes one otherwise.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    event_id: String,
    /// When it happened (RFC 3339); the server's clock otherwise.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    event_time: Option<prost_types::Timestamp>,
    /// A fragment of a streamed answer: checked, but not stored.
    #[arg(long)]
    partial: bool,
    /// Return the merged state right after the commit.
    #[arg(long)]
    return_state: bool,
    #[command(flatten)]
    delta: DeltaArgs,
    #[command(flatten)]
    precondition: PreconditionArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Newest first.
    #[arg(long)]
    descending: bool,
    /// Only this author's.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    author: String,
    /// Only this invocation's.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    #[command(flatten)]
    pages: PageArgs,
}

/// Runs `sessiond event …`.
///
/// # Errors
///
/// When the arguments contradict each other, or the server is not there or refuses.
pub async fn run(args: EventArgs) -> Result<(), Failure> {
    let EventArgs { connect, action } = args;
    match action {
        Action::Append(args) => {
            let request = append_request(*args)?;
            let server = Server::connect(&connect).await?;
            let answer = server.events().append_event(request).await?;
            output::print(&AppendView::try_from(answer.into_inner())?)
        }
        Action::List(args) => list(args, &Server::connect(&connect).await?).await,
    }
}

fn append_request(args: AppendArgs) -> Result<AppendEventRequest, Failure> {
    let event = Event {
        event_id: args.event_id,
        invocation_id: args.invocation,
        author: args.author,
        branch: args.branch,
        event_time: args.event_time,
        partial: args.partial,
        state_delta: args.delta.delta(),
        body_form: args.body.map(BodyForm::BodyJson),
        ..Event::default()
    };
    Ok(AppendEventRequest {
        key: Some(args.key.key()?),
        event: Some(event),
        precondition: args.precondition.precondition(),
        return_state: args.return_state,
        json_form: JSON_FORM,
    })
}

async fn list(args: ListArgs, server: &Server) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let mut request = ListEventsRequest {
        key: Some(args.key.key()),
        page_size: 0,
        page_token: String::new(),
        selection: Some(args.selection.selection()),
        descending: args.descending,
        author: args.author,
        invocation_id: args.invocation,
        json_form: JSON_FORM,
    };
    let mut seen = 0;
    while let Some(page_size) = args.pages.next(seen) {
        request.page_size = page_size;
        let page = server.events().list_events(request.clone()).await?.into_inner();
        for event in page.events {
            output.line(&EventView::try_from(event)?)?;
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
    struct Append {
        #[command(flatten)]
        args: AppendArgs,
    }

    #[test]
    fn an_append_carries_everything_that_was_said() {
        let line = Append::try_parse_from([
            "x",
            "--app",
            "a",
            "--user",
            "u",
            "--session",
            "s",
            "--author",
            "me",
            "--body",
            "{\"n\": 1.0}",
            "--invocation",
            "i",
            "--branch",
            "b",
            "--event-id",
            "e",
            "--event-time",
            "1970-01-01T00:00:01Z",
            "--set",
            "k=1",
            "--expect",
            "4",
        ]);
        let request = append_request(line.unwrap().args).unwrap();
        let event = request.event.unwrap();
        assert_eq!(request.key.unwrap().session_id, "s");
        assert_eq!(event.body_form, Some(BodyForm::BodyJson("{\"n\": 1.0}".to_owned())));
        assert_eq!((event.author.as_str(), event.branch.as_str()), ("me", "b"));
        assert_eq!((event.invocation_id.as_str(), event.event_id.as_str()), ("i", "e"));
        assert_eq!(event.event_time.map(|t| t.seconds), Some(1));
        assert!(event.state_delta.is_some());
        assert_eq!(request.precondition.and_then(|p| p.expected_sequence), Some(4));
        assert_eq!(request.json_form, JSON_FORM);
    }

    #[test]
    fn a_body_that_is_no_object_is_a_usage_error() {
        for body in ["[1]", "{", "hello", "@/nowhere/at/all"] {
            let error =
                Append::try_parse_from(["x", "--session", "s", "--body", body]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{body}");
        }
    }
}
