//! `sessiond export`: sessions become files that kits can read and `import` can restore.

mod name;
mod write;

use std::{
    collections::HashSet,
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use tonic::Code;

use self::{
    name::{AtomicFile, file_name},
    write::{FileWriter, Overview, state_text},
};
use super::{
    ambient::tell,
    args::JSON_FORM,
    connect::{ConnectArgs, Server},
    failure::Failure,
    output,
};
use crate::proto::v1::{
    EventSelection, GetSessionRequest, GetSessionResponse, ListEventsRequest, ListSessionsRequest,
    SessionKey,
};

/// `sessiond export`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond export --app shop --user alice --session s1 > s1.session.json
  sessiond export --app shop --out backup          # every session of the application
  sessiond export --app shop --user alice --out backup

A file has the form that the agent kits read, with one more member, `sessiond`, for what that form
cannot say: removals, exact times, expiration, labels, rewinds, the state at creation. Importing
it makes an equal session. With --out one line is printed per file.")]
pub struct ExportArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Application.
    #[arg(long, env = "SESSIOND_APP", value_name = "NAME")]
    app: String,
    /// Only this user's sessions (--user '' for all where SESSIOND_USER is set).
    #[arg(
        long,
        env = "SESSIOND_USER",
        value_name = "ID",
        default_value = "",
        hide_default_value = true
    )]
    user: String,
    /// Only this session of the user.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    session: String,
    /// Directory for the files, made where it is missing; files of the same sessions are replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs `sessiond export`.
///
/// # Errors
///
/// When the arguments contradict each other, the server is not there or refuses, a file cannot be
/// written, or any session failed; each is told when it does.
pub async fn run(args: ExportArgs) -> Result<(), Failure> {
    if !args.session.is_empty() && args.user.is_empty() {
        return Err(Failure::Usage("--session needs --user".to_owned()));
    }
    let Some(directory) = &args.out else {
        if args.session.is_empty() {
            return Err(Failure::Usage("several sessions need --out DIR".to_owned()));
        }
        let server = Server::connect(&args.connect).await?;
        let to = io::BufWriter::new(io::stdout());
        let (mut to, _) = export(&server, &key_of(&args), to).await?;
        to.flush()?;
        return Ok(());
    };
    let server = Server::connect(&args.connect).await?;
    fs::create_dir_all(directory).map_err(|error| {
        Failure::Failed(format!("cannot make {}: {error}", directory.display()))
    })?;
    let keys =
        if args.session.is_empty() { list(&server, &args).await? } else { vec![key_of(&args)] };
    let single = keys.len() == 1;
    let mut failed = false;
    for key in keys {
        let name = file_name(&key);
        let outcome = async {
            let file = AtomicFile::create(directory, &name).map_err(disk)?;
            let (file, events) = export(&server, &key, file).await?;
            Ok::<_, Failure>((file.commit().map_err(disk)?, events))
        };
        match outcome.await {
            Ok((path, events)) => output::print(&serde_json::json!({
                "file": path,
                "app_name": key.app_name,
                "user_id": key.user_id,
                "session_id": key.session_id,
                "events": events,
            }))?,
            Err(failure) if !single && is_gone(&failure) => {
                tell(&format!("note: session `{}` is gone since it was listed", key.session_id));
            }
            Err(failure) => {
                tell(&format!(
                    "error: session `{}` of `{}`: {}",
                    key.session_id,
                    key.user_id,
                    failure.text()
                ));
                failed = true;
            }
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

fn key_of(args: &ExportArgs) -> SessionKey {
    SessionKey {
        app_name: args.app.clone(),
        user_id: args.user.clone(),
        session_id: args.session.clone(),
    }
}

fn disk(error: io::Error) -> Failure {
    Failure::Failed(format!("the file cannot be written: {error}"))
}

fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(status) if status.code() == Code::NotFound)
}

/// The keys of all sessions; one that is used meanwhile may be listed twice, and is taken once.
async fn list(server: &Server, args: &ExportArgs) -> Result<Vec<SessionKey>, Failure> {
    let mut request = ListSessionsRequest {
        app_name: args.app.clone(),
        user_id: args.user.clone(),
        page_size: 1000,
        json_form: JSON_FORM,
        ..ListSessionsRequest::default()
    };
    let mut names = HashSet::new();
    let mut keys = Vec::new();
    loop {
        let page = server.sessions().list_sessions(request.clone()).await?.into_inner();
        let listed = page.sessions.into_iter().filter_map(|session| session.key);
        keys.extend(
            listed.filter(|key| names.insert((key.user_id.clone(), key.session_id.clone()))),
        );
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(keys);
        }
    }
}

/// Writes one session as it is now, whatever is appended meanwhile. Returns the number of events.
async fn export<W: Write>(server: &Server, key: &SessionKey, to: W) -> Result<(W, u64), Failure> {
    let get = async |request: GetSessionRequest| -> Result<GetSessionResponse, Failure> {
        Ok(server.sessions().get_session(request).await?.into_inner())
    };
    let now = GetSessionRequest {
        key: Some(key.clone()),
        json_form: JSON_FORM,
        ..GetSessionRequest::default()
    };
    let session = get(now.clone()).await?.session.unwrap_or_default();
    let created = get(GetSessionRequest { as_of_sequence: Some(0), ..now.clone() }).await?;
    let initial_state = state_text(created.session.unwrap_or_default().state_form);
    let last_sequence = session.last_sequence;
    let overview = Overview::new(session, initial_state);
    let mut writer = FileWriter::begin(to, &overview)?;
    if last_sequence > 0 {
        let selection = EventSelection { include_rewound: true, ..EventSelection::default() };
        let first = get(GetSessionRequest {
            as_of_sequence: Some(last_sequence),
            events: Some(selection),
            without_state: true,
            ..now
        });
        let first = first.await?;
        let (mut events, mut token) = (first.events, first.next_page_token);
        loop {
            for event in events {
                writer.event(event)?;
            }
            if token.is_empty() {
                break;
            }
            let request = ListEventsRequest {
                key: Some(key.clone()),
                page_size: 1000,
                page_token: token,
                selection: Some(selection),
                json_form: JSON_FORM,
                ..ListEventsRequest::default()
            };
            let page = server.events().list_events(request).await?.into_inner();
            (events, token) = (page.events, page.next_page_token);
        }
    }
    if writer.events != last_sequence.unsigned_abs() {
        return Err(Failure::Failed(format!(
            "the server gave {} of {last_sequence} events; was the session deleted meanwhile?",
            writer.events
        )));
    }
    let events = writer.events;
    Ok((writer.end(&overview)?, events))
}
