//! `sessiond event append-batch` and `append-stream`: events as lines of JSON.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    thread,
};

use clap::{Args, builder::NonEmptyStringValueParser};
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    adk_file::lookup::member,
    args::{AnyKeyArgs, JSON_FORM},
    connect::{ConnectArgs, Server},
    delta::PreconditionArgs,
    failure::{Failure, tell, warn_of_dropped},
    find::{connect_to, whole_key},
    message::{AsJson, from_json},
    output::{self, Format},
    parse,
};
use crate::{
    domain::{json::Json, limits::BATCH_EVENTS},
    proto::v1::{self, append_event_stream_response::Outcome},
};

/// Appends that wait to be sent. The server answers while more are read.
const QUEUED: usize = 64;

#[derive(Debug, Args)]
pub struct BatchArgs {
    #[command(flatten)]
    key: AnyKeyArgs,
    /// File with one event per line; - for standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Return the merged state as of the last event.
    #[arg(long)]
    return_state: bool,
    /// Also show the version of each key's last change.
    #[arg(long, requires = "return_state")]
    versions: bool,
    #[command(flatten)]
    precondition: PreconditionArgs,
}

#[derive(Debug, Args)]
pub struct StreamArgs {
    /// Application of lines without a key.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: Option<String>,
    /// User of lines without a key.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    user: Option<String>,
    /// Session of lines without a key.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// File with one event per line; - for standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

pub async fn batch(connect: &ConnectArgs, args: BatchArgs) -> Result<(), Failure> {
    let text = parse::file_or_input(&args.file)
        .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", name(&args.file))))?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let events = lines
        .map(|(number, line)| event_of(line).map_err(|error| format!("line {number}: {error}")));
    let events = events.collect::<Result<Vec<_>, _>>().map_err(Failure::Failed)?;
    if events.is_empty() || events.len() > BATCH_EVENTS {
        return Err(Failure::Usage(format!(
            "{} has {} events, and a batch takes 1 to {BATCH_EVENTS}",
            name(&args.file),
            events.len()
        )));
    }
    let (server, key) = connect_to(connect, &args.key).await?;
    let request = v1::AppendEventsRequest {
        key: Some(key),
        events,
        precondition: args.precondition.precondition(),
        return_state: args.return_state,
        json_form: JSON_FORM,
        include_versions: args.versions,
    };
    let appended = server.events().append_events(request).await?;
    warn_of_dropped(&appended.get_ref().dropped_temp_keys);
    output::print_answer(connect.format(), appended)
}

/// Sends the lines while the answers arrive. A line that cannot be read ends the input, after those before it.
pub async fn stream(server: &Server, args: StreamArgs, format: Format) -> Result<(), Failure> {
    let StreamArgs { app, user, session, file } = args;
    let app_name = app.unwrap_or_default();
    // A bare id has neither.
    let user_id = user.filter(|_| !app_name.is_empty()).unwrap_or_default();
    let key = match session {
        Some(session_id) => {
            let key = v1::SessionKey { app_name, user_id, session_id };
            Some(whole_key(server, key).await?)
        }
        None => None,
    };
    let (sender, receiver) = mpsc::channel(QUEUED);
    // Standard input blocks, and a thread that waits for it must not keep the program from ending.
    let reader = thread::spawn(move || send_lines(&file, key.as_ref(), &sender));
    let requests = ReceiverStream::new(receiver);
    let mut answers = server.events().append_event_stream(requests).await?.into_inner();
    let mut refused = 0_u64;
    while let Some(answer) = answers.message().await? {
        match &answer.outcome {
            Some(Outcome::Appended(appended)) => warn_of_dropped(&appended.dropped_temp_keys),
            Some(Outcome::Failure(_)) => refused += 1,
            None => {}
        }
        output::print_as(format, &AsJson(answer))?;
    }
    // The stream ends when all lines are sent, so the thread has ended or is about to.
    if let Ok(Err(error)) = reader.join() {
        return Err(Failure::Failed(error));
    }
    if refused > 0 {
        tell(&format!("error: refused events: {refused}"));
        return Err(Failure::Reported);
    }
    Ok(())
}

fn send_lines(
    file: &Path,
    key: Option<&v1::SessionKey>,
    to: &Sender<v1::AppendEventStreamRequest>,
) -> Result<(), String> {
    let cannot_read = |error: io::Error| format!("cannot read {}: {error}", name(file));
    let from: Box<dyn BufRead> = match file == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(File::open(file).map_err(cannot_read)?)),
    };
    for (number, line) in (1..).zip(from.lines()) {
        let line = line.map_err(cannot_read)?;
        if line.trim().is_empty() {
            continue;
        }
        let append = append_of(&line, key).map_err(|error| format!("line {number}: {error}"))?;
        let request = v1::AppendEventStreamRequest { append: Some(append) };
        if to.blocking_send(request).is_err() {
            // The stream has ended, and its status tells why.
            return Ok(());
        }
    }
    Ok(())
}

/// Reads an append with its key and precondition, or an event alone.
fn append_of(line: &str, key: Option<&v1::SessionKey>) -> Result<v1::AppendEventRequest, String> {
    let json = object_of(line)?;
    let mut append: v1::AppendEventRequest = match member(&json, &["event"]) {
        Some(_) => from_json(&json)?,
        None => v1::AppendEventRequest { event: Some(from_json(&json)?), ..Default::default() },
    };
    append.event = append.event.map(sendable).transpose()?;
    append.key = append.key.or_else(|| key.cloned());
    if append.key.is_none() {
        return Err("no key. Give the line a member `key`, or pass --session".to_owned());
    }
    append.json_form = JSON_FORM;
    Ok(append)
}

fn event_of(line: &str) -> Result<v1::Event, String> {
    sendable(from_json(&object_of(line)?)?)
}

fn object_of(line: &str) -> Result<Json, String> {
    Json::object(line.to_owned()).map_err(|fault| {
        let fault = fault.replace(" at line 1 column ", " at column ");
        format!("the line {fault}. Write one event per line, as `jq -c` does")
    })
}

/// The event without what only the server writes.
fn sendable(event: v1::Event) -> Result<v1::Event, String> {
    if event.rewind_to_sequence.is_some() {
        return Err("the event is the marker of a rewind. Use `sessiond session rewind`".to_owned());
    }
    Ok(v1::Event { sequence: 0, commit_time: None, rewound: false, rounded: false, ..event })
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(session_id: &str) -> v1::SessionKey {
        v1::SessionKey { session_id: session_id.to_owned(), ..Default::default() }
    }

    #[test]
    fn a_line_is_an_event_or_an_append() {
        let append = append_of(r#"{"author":"x","sequence":9,"body":{"n":1.0}}"#, Some(&key("s")));
        let append = append.unwrap();
        assert_eq!(append.key.unwrap().session_id, "s");
        assert_eq!(append.event.unwrap().sequence, 0, "the server numbers events");
        let line = r#"{"key":{"session_id":"t"},"event":{"author":"x"},"precondition":{"expected_sequence":4}}"#;
        let append = append_of(line, Some(&key("s"))).unwrap();
        assert_eq!(append.key.unwrap().session_id, "t");
        assert_eq!(append.precondition.unwrap().expected_sequence, Some(4));
    }

    #[test]
    fn a_line_that_cannot_be_sent_says_why() {
        for (line, part) in [
            ("{", "is not valid JSON"),
            ("[1]", "has type array"),
            (r#"{"autor":"x"}"#, "unknown member `autor`"),
            (r#"{"author":"x"}"#, "pass --session"),
            (r#"{"rewind_to_sequence":1}"#, "session rewind"),
            (r#"{"event":{"rewind_to_sequence":1}}"#, "session rewind"),
        ] {
            let error = append_of(line, None).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
