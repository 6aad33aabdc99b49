//! `sessiond import`: creates sessions from files of ADK or of `export`.

mod plan;
mod same;
mod send;
mod shared;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use self::{
    plan::Plan,
    send::{Counts, Sender},
    shared::{AUTHOR, Shared, SharedCounts},
};
use super::{
    adk_file::{Metadata, SessionFile, state_of, to_send},
    args::JSON_FORM,
    calls::{get_request, retry, shared_scope},
    connect::{ConnectArgs, Server},
    failure::{Failure, tell},
    message::AsJson,
    output::{self, table::Column},
    parse,
    progress::Progress,
    time,
};
use crate::{
    domain::json::Json,
    proto::v1::{self, create_session_request::StateForm, session},
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond import chat.session.json --app shop --user alice
  sessiond import exported/*.json

Reads ADK session files (id, app_name, user_id, state or context, events; in
snake_case or camelCase) and those of `sessiond export`. --app and --user are
the defaults of files without application and user; the file's name is the
default of the session id. The session ends with the file's own state. A second
import changes nothing; a file that has grown adds its new events. Application
and user state belongs to other sessions as well: a key that has a value keeps
it, unless --restore-shared is given (pass it to restore a whole application).
Files of `export --state-only` hold only such state. Prints one line per file. A
file that fails does not stop the others.")]
pub struct ImportArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Session files; - for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Application for files that do not name one.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: Option<String>,
    /// User for files that do not name one.
    #[arg(long, env = "SESSIOND_USER", value_name = "ID")]
    user: Option<String>,
    /// Overwrite existing application and user keys with the file's values.
    #[arg(long)]
    restore_shared: bool,
    /// Create sessions without the expiration in the file.
    #[arg(long)]
    no_expiry: bool,
}

/// The line that is printed for a file.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: &'a Path,
    #[serde(flatten)]
    key: AsJson<v1::SessionKey>,
    created: bool,
    #[serde(flatten)]
    counts: Counts,
    /// Of the session's own state.
    state_keys_corrected: usize,
    #[serde(flatten)]
    shared: SharedCounts,
}

const REPORTS: [Column; 8] = [
    Column::new("FILE", "file"),
    Column::new("USER", "user_id"),
    Column::new("SESSION", "session_id"),
    Column::new("CREATED", "created"),
    Column::new("EVENTS NEW", "events_imported"),
    Column::new("OLD", "events_already_there"),
    Column::new("SHARED KEYS SET", "shared_keys_set"),
    Column::new("KEPT", "shared_keys_kept"),
];

pub async fn run(args: ImportArgs) -> Result<(), Failure> {
    let server = Server::connect(&args.connect).await?;
    let mut failed = false;
    let mut lines = output::Lines::new(args.connect.format(), &REPORTS);
    for path in &args.files {
        match import(&server, path, &args).await {
            Ok(report) => lines.add(&report)?,
            Err(failure) => {
                tell(&format!("error: {}: {}", path.display(), failure.text()));
                failed = true;
            }
        }
    }
    lines.end()?;
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

async fn import<'a>(
    server: &Server,
    path: &'a Path,
    args: &ImportArgs,
) -> Result<Report<'a>, Failure> {
    let text = parse::file_or_input(path)
        .map_err(|error| Failure::Failed(format!("cannot read the file: {error}")))?;
    let file = SessionFile::read(&text).map_err(Failure::Failed)?;
    drop(text);
    if !file.unknown.is_empty() {
        let unknown = file.unknown.join(", ");
        tell(&format!("note: {}: members that are not imported: {unknown}", path.display()));
    }
    if file.shared_only {
        return import_shared(server, path, file, args).await;
    }
    let key = key_of(&file.key, path, args)?;
    let plan = Plan::of(&file);
    let exact = file.exported.is_some();
    let metadata = file.exported.map(|exported| exported.metadata);
    let request = create_request(&key, &plan, metadata, args.no_expiry)?;
    let mut shared = Shared::read(server, shared_scope(&key), args.restore_shared).await?;
    // Before the session, so that they are there as of its beginning.
    if !exists(server, &key).await? {
        shared.begin(&plan.initial).await?;
    }
    let answer = retry(async || server.sessions().create_session(request.clone()).await).await?;
    let created = answer.created;
    let progress = Progress::new(&path.display().to_string(), file.events.len() as u64);
    let mut sender = Sender::new(server, &key, created, shared, (exact, progress)).await?;
    for event in file.events {
        sender.send(event).await?;
    }
    sender.flush().await?;
    let Sender { newest, mut counts, shared, .. } = sender;
    counts.fragments_skipped = file.fragments;
    // Otherwise the session has gone on since, and the file's end is no longer its end.
    let is_end = newest == plan.last_id;
    let state_keys_corrected = if is_end { correct_own(server, &key, &plan).await? } else { 0 };
    let shared = shared.end(plan.state(), &plan.gone).await?;
    Ok(Report { file: path, key: AsJson(key), created, counts, state_keys_corrected, shared })
}

async fn exists(server: &Server, key: &v1::SessionKey) -> Result<bool, Failure> {
    let key = Some(key.clone());
    let request = v1::GetSessionRequest { key, without_state: true, ..Default::default() };
    match retry(async || server.sessions().get_session(request.clone()).await).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.has_reason("SESSION_NOT_FOUND") => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Brings the state of an application or a user from a file of `export --state-only`.
async fn import_shared<'a>(
    server: &Server,
    path: &'a Path,
    file: SessionFile,
    args: &ImportArgs,
) -> Result<Report<'a>, Failure> {
    let key = v1::SessionKey { session_id: String::new(), ..file.key };
    if key.app_name.is_empty() {
        return Err(Failure::Failed("the file names no application".to_owned()));
    }
    let shared = Shared::read(server, shared_scope(&key), args.restore_shared).await?;
    let shared = shared.end(&file.state.unwrap_or_default(), &[]).await?;
    let counts = Counts::default();
    let key = AsJson(key);
    Ok(Report { file: path, key, created: false, counts, state_keys_corrected: 0, shared })
}

/// The file's own ids first, then the arguments and the file's name.
fn key_of(own: &v1::SessionKey, path: &Path, args: &ImportArgs) -> Result<v1::SessionKey, Failure> {
    let pick = |own: &str, default: Option<&str>, what: &str, remedy: &str| {
        let id = [Some(own), default].into_iter().flatten().find(|id| !id.is_empty());
        let missing = || Failure::Failed(format!("the file names no {what}. {remedy}"));
        id.map(str::to_owned).ok_or_else(missing)
    };
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let stem = name.strip_suffix(".json").unwrap_or(&name);
    let stem = stem.strip_suffix(".session").unwrap_or(stem);
    let stem = (path != Path::new("-")).then_some(stem);
    Ok(v1::SessionKey {
        app_name: pick(&own.app_name, args.app.as_deref(), "application", "Pass --app")?,
        user_id: pick(&own.user_id, args.user.as_deref(), "user", "Pass --user")?,
        session_id: pick(&own.session_id, stem, "session", "Give it a member `id`")?,
    })
}

fn create_request(
    key: &v1::SessionKey,
    plan: &Plan,
    metadata: Option<Metadata>,
    no_expiry: bool,
) -> Result<v1::CreateSessionRequest, Failure> {
    let metadata = metadata.unwrap_or_default();
    let expire_time = metadata.expire_time.filter(|_| !no_expiry);
    let expiration = expire_time.map(|text| match time::parse(&text) {
        Err(error) => Err(Failure::Failed(error)),
        Ok(time) if time::is_past(&time) => Err(Failure::Failed(format!(
            "the session expired at {text}. Pass --no-expiry to import it without expiration"
        ))),
        Ok(time) => Ok(session::Expiration::ExpireTime(time)),
    });
    let session = v1::Session {
        display_name: metadata.display_name,
        labels: metadata.labels.into_iter().collect(),
        expiration: expiration.transpose()?,
        ..Default::default()
    };
    Ok(v1::CreateSessionRequest {
        app_name: key.app_name.clone(),
        user_id: key.user_id.clone(),
        session_id: key.session_id.clone(),
        state_form: Some(StateForm::StateJson(plan.initial_state())),
        session: Some(session),
        allow_existing: true,
        json_form: JSON_FORM,
        include_versions: false,
    })
}

/// Brings the session's own state to the end of the file's, by one more event. Returns the number of keys that changed.
async fn correct_own(server: &Server, key: &v1::SessionKey, plan: &Plan) -> Result<usize, Failure> {
    let request = get_request(key);
    let answer = retry(async || server.sessions().get_session(request.clone()).await).await?;
    let session = answer.session.unwrap_or_default();
    let changes = plan.own_changes(&Json::from_stored(state_of(&session).to_owned()));
    let Some(delta) = changes.delta() else { return Ok(0) };
    let expected_sequence = Some(session.last_sequence);
    let request = v1::AppendEventRequest {
        key: Some(key.clone()),
        event: Some(v1::Event {
            event_id: plan.correction_id(),
            author: AUTHOR.to_owned(),
            event_time: plan.last_time,
            state_delta: Some(to_send(delta)),
            ..Default::default()
        }),
        precondition: Some(v1::Precondition {
            expected_sequence,
            keys: Vec::new(),
            ..Default::default()
        }),
        return_state: false,
        json_form: JSON_FORM,
        include_versions: false,
    };
    retry(async || server.events().append_event(request.clone()).await).await?;
    Ok(changes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = r#"{"events":[]}"#;

    fn key(text: &str, path: &str, app: &str, user: &str) -> Result<v1::SessionKey, String> {
        let args = ImportArgs {
            connect: ConnectArgs {
                server: String::new(),
                timeout: std::time::Duration::ZERO,
                tls: Default::default(),
                token: Default::default(),
                output: None,
            },
            files: Vec::new(),
            app: Some(app.to_owned()),
            user: Some(user.to_owned()),
            restore_shared: false,
            no_expiry: false,
        };
        let file = SessionFile::read(text).unwrap();
        key_of(&file.key, Path::new(path), &args).map_err(|failure| failure.text())
    }

    #[test]
    fn the_files_own_ids_come_first() {
        let own =
            key(r#"{"id":"s","appName":"a","userId":"u","state":{}}"#, "x.json", "b", "v").unwrap();
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
            let named = key(EMPTY, path, "b", "v").unwrap();
            assert_eq!((named.app_name.as_str(), named.session_id.as_str()), ("b", session_id));
        }
    }

    #[test]
    fn a_missing_id_is_an_error_that_says_what_to_pass() {
        assert!(key(EMPTY, "x.json", "", "u").unwrap_err().contains("--app"));
        assert!(key(EMPTY, "x.json", "a", "").unwrap_err().contains("--user"));
        assert!(key(EMPTY, "-", "a", "u").unwrap_err().contains("`id`"));
    }

    #[test]
    fn an_export_brings_back_the_metadata() {
        let text = |expires: &str| {
            format!(
                r#"{{"sessiond":{{"session":{{"format":1,"display_name":"n","labels":{{"a":"b"}},"expire_time":"{expires}"}},
                "initial_state":{{"k":1.0}},"events":[],"hidden":[],"rewinds":[]}}}}"#
            )
        };
        let request = |expires: &str, no_expiry| {
            let text = text(expires);
            let file = SessionFile::read(&text).unwrap();
            let metadata = file.exported.map(|exported| exported.metadata);
            create_request(&v1::SessionKey::default(), &Plan::default(), metadata, no_expiry)
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
}
