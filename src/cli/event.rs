//! `sessiond event …`: the log of a session.

use std::time::Duration;

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use serde_json::json;

use super::{
    adk_file::gist,
    append,
    args::{AnyKeyArgs, JSON_FORM, PageArgs, SelectionArgs},
    connect::{ConnectArgs, Group, Server},
    delta::{DeltaArgs, PreconditionArgs},
    failure::{Failure, warn_of_dropped},
    find::connect_to,
    message::AsJson,
    output::{self, Format, Lines, table::Column},
    parse,
    show::delta_gist,
    time,
};
use crate::{
    domain::json::Json,
    proto::v1::{
        AppendEventRequest, BatchGetEventsRequest, Event, EventRef, ListEventsRequest, SessionKey,
        event::BodyForm, event_ref::Ref,
    },
};

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Append an event, and change state with it in one commit.
    #[command(after_help = "Examples:
  sessiond event append --app shop --user alice --session s1 --text 'Hello'
  sessiond event append s1 --author agent --text 'Hi. What do you need?'
  sessiond event append --app shop --user alice --session s1 --author user \\
      --body '{\"content\": {\"role\": \"user\", \"parts\": [{\"text\": \"hi\"}]}}'
  sessiond event append --session s1 --author agent --body @event.json \\
      --set topic='\"shoes\"' --increment user:visits=1
  sessiond event append --session s1 --author agent --event-id turn-7 --expect 6

An append with --event-id can be repeated: it happens once.")]
    Append(Box<AppendArgs>),
    /// Append the events of a file in one commit, all or nothing.
    #[command(after_help = "Examples:
  sessiond event append-batch --app shop --user alice --session s1 \\
      --file events.jsonl
  sessiond event list --session s1 --app shop --user alice -o json | \\
      sessiond event append-batch --app shop --user alice --session copy

The file has one JSON object per line, as `event list --output json` prints
them; at most 1000.")]
    AppendBatch(append::BatchArgs),
    /// Append events as they arrive on standard input, each in a commit of its own.
    #[command(after_help = "Example:
  producer | sessiond event append-stream --app shop --user alice --session s1

A line is an event as in `append-batch`, or an append: {\"key\": {...}, \"event\":
{...}, \"precondition\": {...}}. Prints one answer per line, in the same order.
An event that is refused does not stop the others; the exit code is then 1. A
line that cannot be read ends the input; the lines before it are appended.")]
    AppendStream(append::StreamArgs),
    /// Print events by their sequences and ids, those that a rewind hid as well.
    #[command(after_help = "Example:
  sessiond event get s1 --sequence 3,4 --event-id turn-7

Prints those of the sequences first. The exit code is 1 if one is missing.")]
    Get {
        #[command(flatten)]
        key: AnyKeyArgs,
        #[command(flatten)]
        named: Named,
    },
    /// List a session's events, one per line.
    #[command(after_help = "Examples:
  sessiond event list --app shop --user alice --session s1 --descending \\
      --limit 5
  sessiond event list --app shop --user alice --session s1 --after-sequence 7 \\
      --author user")]
    List {
        #[command(flatten)]
        key: AnyKeyArgs,
        #[command(flatten)]
        selection: SelectionArgs,
        /// Newest first.
        #[arg(long)]
        descending: bool,
        /// Only events of this author.
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        author: String,
        /// Only events of this invocation.
        #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
        invocation: String,
        #[command(flatten)]
        pages: PageArgs,
    },
}

/// Events by their names.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Named {
    /// Sequences of events.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    sequence: Vec<i64>,
    /// Id of an event; can be repeated.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    event_id: Vec<String>,
}

#[derive(Debug, Args)]
pub struct AppendArgs {
    #[command(flatten)]
    key: AnyKeyArgs,
    /// Author: `user`, an agent's name, `system`, …
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    author: String,
    /// What was said: a body in ADK's form with this text. Its author is `user` unless --author names an agent.
    #[arg(long, value_name = "TEXT|@FILE", value_parser = parse::text_or_file, conflicts_with = "body")]
    text: Option<String>,
    /// Body, which the server does not interpret: one JSON object.
    #[arg(long, value_name = "JSON|@FILE", value_parser = parse::object_or_file)]
    body: Option<Json>,
    /// Invocation of the event: one run of an agent.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    invocation: String,
    /// Agent branch, dotted.
    #[arg(long, value_name = "BRANCH", default_value = "", hide_default_value = true)]
    branch: String,
    /// Id of the event; by default the server makes one.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    event_id: String,
    /// Time of the event (RFC 3339); by default the server's clock.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    event_time: Option<prost_types::Timestamp>,
    /// Fragment of a streamed answer: checked, but not stored.
    #[arg(long)]
    partial: bool,
    /// Return the merged state as of this event.
    #[arg(long)]
    return_state: bool,
    /// Also show the version of each key's last change.
    #[arg(long, requires = "return_state")]
    versions: bool,
    #[command(flatten)]
    delta: DeltaArgs,
    #[command(flatten)]
    precondition: PreconditionArgs,
}

/// The author of what a person says, and the role of such an event.
const USER: &str = "user";

pub const EVENTS: [Column; 8] = [
    Column::new("EVENT", "sequence"),
    Column::new("TIME", "event_time"),
    Column::new("AUTHOR", "author"),
    Column::new("INVOCATION", "invocation_id"),
    Column::new("REWIND TO", "rewind_to_sequence"),
    Column::new("HIDDEN", "rewound"),
    Column::new("STATE", "state_delta").gist(delta_gist),
    Column::new("BODY", "body").gist(gist),
];

pub async fn run(Group { connect, action }: Group<Action>) -> Result<(), Failure> {
    let format = connect.format();
    match action {
        Action::Append(args) => {
            let key = args.key.clone();
            let mut request = append_request(*args)?;
            let (server, key) = connect_to(&connect, &key).await?;
            request.key = Some(key);
            let appended = server.events().append_event(request).await?;
            warn_of_dropped(&appended.get_ref().dropped_temp_keys);
            output::print_answer(format, appended)
        }
        Action::AppendBatch(args) => append::batch(&connect, args).await,
        Action::AppendStream(args) => {
            // The stream lasts as long as its input.
            let connect = ConnectArgs { timeout: Duration::ZERO, ..connect.clone() };
            append::stream(&Server::connect(&connect).await?, args, format).await
        }
        Action::Get { key, named: Named { sequence, event_id } } => {
            let (server, key) = connect_to(&connect, &key).await?;
            let sequences = sequence.into_iter().map(Ref::Sequence);
            let refs = sequences.chain(event_id.into_iter().map(Ref::EventId));
            let refs = refs.map(|named| EventRef { r#ref: Some(named) }).collect();
            get(&server, key, refs, format).await
        }
        Action::List { key, selection, descending, author, invocation, pages } => {
            let (server, key) = connect_to(&connect, &key).await?;
            let request = ListEventsRequest {
                key: Some(key),
                selection: Some(selection.selection()),
                descending,
                author,
                invocation_id: invocation,
                json_form: JSON_FORM,
                ..Default::default()
            };
            let events = server.events();
            let fetch = async |page_size, page_token| {
                let request = ListEventsRequest { page_size, page_token, ..request.clone() };
                let page = events.clone().list_events(request).await?.into_inner();
                Ok((page.events, page.next_page_token))
            };
            output::print_pages((format, &EVENTS), pages, AsJson, fetch).await
        }
    }
}

/// Missing events that an error names.
const NAMED: usize = 20;

async fn get(
    server: &Server,
    key: SessionKey,
    refs: Vec<EventRef>,
    format: Format,
) -> Result<(), Failure> {
    let mut request = BatchGetEventsRequest {
        key: Some(key),
        refs,
        json_form: JSON_FORM,
        page_token: String::new(),
    };
    let (mut lines, mut missing) = (Lines::new(format, &EVENTS), Vec::new());
    loop {
        let page = server.events().batch_get_events(request.clone()).await?.into_inner();
        page.events.into_iter().try_for_each(|event| lines.add(&AsJson(event)))?;
        missing.extend(page.missing);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    lines.end()?;
    let names = missing.into_iter().filter_map(|missing| match missing.r#ref? {
        Ref::EventId(id) => Some(format!("event id {id}")),
        Ref::Sequence(sequence) => Some(format!("sequence {sequence}")),
    });
    let mut names: Vec<String> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    let others = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let others = if others > 0 { format!(", and {others} others") } else { String::new() };
    Err(Failure::Failed(format!("the session has no event with {}{others}", names.join(", "))))
}

fn append_request(mut args: AppendArgs) -> Result<AppendEventRequest, Failure> {
    if let Some(text) = args.text {
        if args.author.is_empty() {
            args.author = USER.to_owned();
        }
        let role = if args.author == USER { USER } else { "model" };
        let body = json!({ "content": { "role": role, "parts": [{ "text": text }] } });
        args.body = Some(Json::from_stored(body.to_string()));
    }
    let event = Event {
        event_id: args.event_id,
        invocation_id: args.invocation,
        author: args.author,
        branch: args.branch,
        event_time: args.event_time,
        partial: args.partial,
        state_delta: args.delta.delta(),
        body_form: args.body.map(|body| BodyForm::BodyJson(body.into_string())),
        ..Default::default()
    };
    let is_empty =
        Event { event_id: String::new(), event_time: None, ..event.clone() } == Event::default();
    if is_empty {
        let text =
            "nothing to append. Give --text, --author, --body or a change of state such as --set";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(AppendEventRequest {
        event: Some(event),
        precondition: args.precondition.precondition(),
        return_state: args.return_state,
        json_form: JSON_FORM,
        include_versions: args.versions,
        ..Default::default()
    })
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
        assert_eq!(event.body_form, Some(BodyForm::BodyJson("{\"n\": 1.0}".to_owned())));
        assert_eq!((event.author.as_str(), event.branch.as_str()), ("me", "b"));
        assert_eq!((event.invocation_id.as_str(), event.event_id.as_str()), ("i", "e"));
        assert_eq!(event.event_time.map(|t| t.seconds), Some(1));
        assert!(event.state_delta.is_some());
        assert_eq!(request.precondition.and_then(|p| p.expected_sequence), Some(4));
        assert_eq!(request.json_form, JSON_FORM);
    }

    #[test]
    fn an_event_without_anything_is_a_usage_error() {
        let request = |more: &[&str]| {
            let line = [&["x", "--app", "a", "--user", "u", "--session", "s"], more].concat();
            append_request(Append::try_parse_from(line).unwrap().args)
        };
        assert!(matches!(request(&[]), Err(Failure::Usage(_))));
        assert!(matches!(request(&["--event-id", "e", "--expect", "1"]), Err(Failure::Usage(_))));
        for some in [["--author", "a"], ["--body", "{}"], ["--set", "k=1"], ["--remove", "k"]] {
            assert!(request(&some).is_ok(), "{some:?}");
        }
    }

    #[test]
    fn a_text_becomes_a_body_in_adks_form() {
        let event = |more: &[&str]| {
            let line = [&["x", "s", "--text", "say \"hi\""], more].concat();
            append_request(Append::try_parse_from(line).unwrap().args).unwrap().event.unwrap()
        };
        for (more, author, role) in
            [(&[][..], "user", "user"), (&["--author", "shop"], "shop", "model")]
        {
            let event = event(more);
            let body =
                format!(r#"{{"content":{{"parts":[{{"text":"say \"hi\""}}],"role":"{role}"}}}}"#);
            assert_eq!(
                (event.author.as_str(), event.body_form),
                (author, Some(BodyForm::BodyJson(body)))
            );
        }
        let both = ["x", "s", "--text", "a", "--body", "{}"];
        assert!(Append::try_parse_from(both).is_err());
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
