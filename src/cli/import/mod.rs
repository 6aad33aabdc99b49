//! `sessiond import`: session files of the kits, or of `export`, become sessions.

mod existing;
mod plan;
mod retry;
mod send;

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;

use self::{
    existing::Existing,
    plan::{Changes, Plan},
    retry::retry,
    send::{Sender, Tally},
};
use super::{
    ambient::{now, tell},
    args::JSON_FORM,
    connect::{ConnectArgs, Server},
    failure::Failure,
    kit::{Extra, SessionFile, Step},
    output, time,
};
use crate::proto::v1::{
    AppendEventRequest, CreateSessionRequest, Event, GetSessionRequest, Precondition, Scope,
    Session, SessionKey, UpdateStateRequest, create_session_request, session,
};

pub use existing::entry_of;

/// Who corrects state that the log does not lead to.
const AUTHOR: &str = "system";

/// `sessiond import`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond import chat.session.json --app shop --user alice
  sessiond import exported/*.json

Reads the files that the agent kits write (id, app_name, user_id, state or context, events; in
snake_case or camelCase), and those of `sessiond export`. What a file does not say about its
application and user is taken from --app and --user, its session id from its name. The session
ends with the file's state. Importing again changes nothing; a file that has grown adds its new
events. Prints one line per file; one that fails does not stop the others.")]
pub struct ImportArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Session files; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Application of files that do not name theirs.
    #[arg(
        long,
        env = "SESSIOND_APP",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    app: String,
    /// User of files that do not name theirs.
    #[arg(
        long,
        env = "SESSIOND_USER",
        value_name = "ID",
        default_value = "",
        hide_default_value = true
    )]
    user: String,
    /// Create sessions without the expiration that an export recorded.
    #[arg(long)]
    no_expiry: bool,
}

/// What became of one file.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: &'a Path,
    app_name: String,
    user_id: String,
    session_id: String,
    created: bool,
    events_imported: u64,
    events_already_there: u64,
    fragments_skipped: u64,
    state_keys_corrected: usize,
}

/// Runs `sessiond import`.
///
/// # Errors
///
/// When any file failed; each is told when it does.
pub async fn run(args: ImportArgs) -> Result<(), Failure> {
    let server = Server::connect(&args.connect).await?;
    let mut failed = false;
    for path in &args.files {
        match import(&server, path, &args).await {
            Ok(report) => output::print(&report)?,
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) => {
                tell(&format!("error: {}: {}", path.display(), failure.text()));
                failed = true;
            }
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

async fn import<'a>(
    server: &Server,
    path: &'a Path,
    args: &ImportArgs,
) -> Result<Report<'a>, Failure> {
    let text = read(path)?;
    let file = SessionFile::read(&text).map_err(Failure::Failed)?;
    let key = key_of(&file, path, args)?;
    let plan = Plan::of(&file).map_err(Failure::Failed)?;
    let request = create_request(&key, &plan, file.extra.as_ref(), args.no_expiry)?;
    let created = retry(async || {
        let answer = server.sessions().create_session(request.clone()).await?;
        Ok(answer.into_inner().created)
    });
    let created = created.await?;
    let existing = if created { Existing::default() } else { Existing::load(server, &key).await? };
    let mut sender = Sender::new(server, key.clone(), &existing, file.extra.is_some());
    for step in file.steps() {
        match step.map_err(Failure::Failed)? {
            Step::Event(entry) => sender.event(entry).await?,
            Step::Rewind(rewind) => sender.rewind(rewind).await?,
            Step::Fragment => sender.tally.skipped += 1,
        }
    }
    sender.flush().await?;
    let Sender { newest, tally, .. } = sender;
    let mut state_keys_corrected = 0;
    // Where somebody has gone on since, the file's end is no longer the session's.
    if newest == plan.last_id {
        state_keys_corrected = correct_wider(server, &key, &plan).await?;
        state_keys_corrected += correct_own(server, &key, &plan).await?;
    }
    let SessionKey { app_name, user_id, session_id } = key;
    let Tally { imported, already_there, skipped } = tally;
    Ok(Report {
        file: path,
        app_name,
        user_id,
        session_id,
        created,
        events_imported: imported,
        events_already_there: already_there,
        fragments_skipped: skipped,
        state_keys_corrected,
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| Failure::Failed(format!("cannot be read: {error}")))
}

/// The file's own word first, then the arguments and the file's name.
fn key_of(file: &SessionFile<'_>, path: &Path, args: &ImportArgs) -> Result<SessionKey, Failure> {
    let pick = |own: &str, other: &str, what: &str, flag: &str| match (own, other) {
        ("", "") => Err(Failure::Failed(format!("the file does not name its {what}: give {flag}"))),
        ("", other) => Ok(other.to_owned()),
        (own, _) => Ok(own.to_owned()),
    };
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let stem = name.strip_suffix(".json").unwrap_or(&name);
    let stem = stem.strip_suffix(".session").unwrap_or(stem);
    let stem = if path == Path::new("-") { "" } else { stem };
    Ok(SessionKey {
        app_name: pick(&file.app_name, &args.app, "application", "--app")?,
        user_id: pick(&file.user_id, &args.user, "user", "--user")?,
        session_id: pick(&file.session_id, stem, "session", "it a member `id`")?,
    })
}

fn create_request(
    key: &SessionKey,
    plan: &Plan,
    extra: Option<&Extra<'_>>,
    no_expiry: bool,
) -> Result<CreateSessionRequest, Failure> {
    let mut about = Session::default();
    if let Some(Extra { session: head, .. }) = extra {
        about.display_name.clone_from(&head.display_name);
        about.labels = head.labels.clone().into_iter().collect();
        let expire_time = head.expire_time.as_deref().filter(|_| !no_expiry);
        if let Some(text) = expire_time {
            let expire_time = time::parse(text).map_err(Failure::Failed)?;
            let now = now();
            if (expire_time.seconds, expire_time.nanos) <= (now.seconds, now.nanos) {
                return Err(Failure::Failed(format!(
                    "the session expired at {text}; --no-expiry imports it all the same"
                )));
            }
            about.expiration = Some(session::Expiration::ExpireTime(expire_time));
        }
    }
    Ok(CreateSessionRequest {
        app_name: key.app_name.clone(),
        user_id: key.user_id.clone(),
        session_id: key.session_id.clone(),
        state_form: Some(create_session_request::StateForm::StateJson(plan.initial_state.clone())),
        session: Some(about),
        allow_existing: true,
        json_form: JSON_FORM,
    })
}

/// Brings the user's and the application's state to where the file's ends. A repetition is
/// known by its request id and changes nothing.
async fn correct_wider(server: &Server, key: &SessionKey, plan: &Plan) -> Result<usize, Failure> {
    let Some(delta) = plan.wider.delta() else {
        return Ok(0);
    };
    let request = UpdateStateRequest {
        scope: Some(Scope {
            app_name: key.app_name.clone(),
            user_id: key.user_id.clone(),
            session_id: String::new(),
        }),
        delta: Some(delta),
        precondition: None,
        author: AUTHOR.to_owned(),
        request_id: plan.wider_request_id(&key.session_id),
        json_form: JSON_FORM,
    };
    let answer = retry(async || Ok(server.state().update_state(request.clone()).await?)).await?;
    Ok(if answer.into_inner().replayed { 0 } else { plan.wider.len() })
}

/// Brings the session's own state to where the file's ends, by one more event.
async fn correct_own(server: &Server, key: &SessionKey, plan: &Plan) -> Result<usize, Failure> {
    let request = GetSessionRequest {
        key: Some(key.clone()),
        json_form: JSON_FORM,
        ..GetSessionRequest::default()
    };
    let answer = retry(async || Ok(server.sessions().get_session(request.clone()).await?)).await?;
    let session = answer.into_inner().session.unwrap_or_default();
    let state = match session.state_form {
        Some(session::StateForm::StateJson(text)) => text,
        Some(session::StateForm::State(_)) | None => "{}".to_owned(),
    };
    let changes: Changes = plan.own_changes(&state).map_err(Failure::Failed)?;
    let Some(delta) = changes.delta() else {
        return Ok(0);
    };
    let request = AppendEventRequest {
        key: Some(key.clone()),
        event: Some(Event {
            event_id: plan.correction_id(),
            author: AUTHOR.to_owned(),
            event_time: plan.last_time,
            state_delta: Some(delta),
            ..Event::default()
        }),
        precondition: Some(Precondition {
            expected_sequence: Some(session.last_sequence),
            keys: Vec::new(),
        }),
        return_state: false,
        json_form: JSON_FORM,
    };
    retry(async || Ok(server.events().append_event(request.clone()).await?)).await?;
    Ok(changes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, path: &str, app: &str, user: &str) -> Result<SessionKey, String> {
        let args = ImportArgs {
            connect: ConnectArgs { server: "".parse().unwrap(), timeout: 1 },
            files: Vec::new(),
            app: app.to_owned(),
            user: user.to_owned(),
            no_expiry: false,
        };
        let file = SessionFile::read(text).unwrap();
        key_of(&file, Path::new(path), &args).map_err(|failure| failure.text())
    }

    #[test]
    fn the_file_names_itself_before_anybody_else_does() {
        let own = key(r#"{"id":"s","appName":"a","userId":"u"}"#, "x.json", "b", "v").unwrap();
        assert_eq!(
            (own.app_name.as_str(), own.user_id.as_str(), own.session_id.as_str()),
            ("a", "u", "s")
        );
        for (path, session_id) in [
            ("dir/chat.session.json", "chat"),
            ("chat.json", "chat"),
            ("chat", "chat"),
            ("chat.session", "chat"),
            ("a.b.json", "a.b"),
        ] {
            let named = key("{}", path, "b", "v").unwrap();
            assert_eq!((named.app_name.as_str(), named.session_id.as_str()), ("b", session_id));
        }
    }

    #[test]
    fn what_nobody_names_is_an_error_that_says_what_to_give() {
        assert!(key("{}", "x.json", "", "u").unwrap_err().contains("--app"));
        assert!(key("{}", "x.json", "a", "").unwrap_err().contains("--user"));
        assert!(key("{}", "-", "a", "u").unwrap_err().contains("`id`"));
    }

    #[test]
    fn an_export_brings_back_what_is_said_about_the_session() {
        let text = |expires: &str| {
            format!(
                r#"{{"sessiond":{{"session":{{"format":1,"display_name":"n","labels":{{"a":"b"}},"expire_time":"{expires}"}},
                "initial_state":{{"k":1.0}},"events":[],"hidden":[],"rewinds":[]}}}}"#
            )
        };
        let request = |expires: &str, no_expiry| {
            let text = text(expires);
            let file = SessionFile::read(&text).unwrap();
            let plan = Plan::of(&file).unwrap();
            create_request(&SessionKey::default(), &plan, file.extra.as_ref(), no_expiry)
        };
        let late = request("9999-01-01T00:00:00.000000001Z", false).unwrap();
        let about = late.session.unwrap();
        assert_eq!((about.display_name.as_str(), about.labels["a"].as_str()), ("n", "b"));
        assert!(
            matches!(about.expiration, Some(session::Expiration::ExpireTime(t)) if t.nanos == 1)
        );
        assert!(request("2001-01-01T00:00:00Z", false).unwrap_err().text().contains("--no-expiry"));
        assert_eq!(
            request("2001-01-01T00:00:00Z", true).unwrap().session.unwrap().expiration,
            None
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_of_its_own() {
        assert!(read(Path::new("/nowhere/at/all")).unwrap_err().text().contains("cannot be read"));
    }
}
