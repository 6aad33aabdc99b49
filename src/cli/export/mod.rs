//! `sessiond export`: writes sessions into files that ADK reads and `import` restores.

mod name;
mod write;

use std::{
    collections::HashSet,
    fs::{self, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use tempfile::NamedTempFile;
use tonic::Code;

use self::{
    name::file_name,
    write::{FileWriter, Overview},
};
use super::{
    args::{JSON_FORM, MAX_PAGE, ScopeArgs},
    connect::{ConnectArgs, Server},
    failure::Failure,
    log::for_each_event,
    output,
    system::tell,
};
use crate::proto::v1;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond export --app shop --user alice --session s1 > s1.session.json
  sessiond export --app shop --out backup          # every session of the application
  sessiond export --app shop --user alice --out backup

A file is an ADK session file with one more member, `sessiond`, for what that form cannot
express: removals, exact times, expiration, labels, rewinds, the state at creation. An import
restores an equal session. --out prints one line per file.")]
pub struct ExportArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Directory of the files, created if it is missing. Files of the same sessions are replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub async fn run(args: ExportArgs) -> Result<(), Failure> {
    let scope = args.scope.scope()?;
    if let Some(directory) = &args.out {
        return export_to_files(scope, directory, &args.connect).await;
    }
    if scope.session_id.is_empty() {
        let text = "several sessions need a directory. Pass --out DIR";
        return Err(Failure::Usage(text.to_owned()));
    }
    let server = Server::connect(&args.connect).await?;
    let to = BufWriter::new(io::stdout());
    let (mut to, _) = export(&server, &key_of(scope), to).await?;
    Ok(to.flush()?)
}

async fn export_to_files(
    scope: v1::Scope,
    directory: &Path,
    connect: &ConnectArgs,
) -> Result<(), Failure> {
    let server = Server::connect(connect).await?;
    fs::create_dir_all(directory).map_err(|error| {
        Failure::Failed(format!("cannot create {}: {error}", directory.display()))
    })?;
    let keys =
        if scope.session_id.is_empty() { list(&server, scope).await? } else { vec![key_of(scope)] };
    let single = keys.len() == 1;
    let mut failed = false;
    for key in keys {
        let outcome = export_to_file(&server, &key, directory).await;
        let v1::SessionKey { app_name, user_id, session_id } = key;
        match outcome {
            Ok((path, events)) => output::print(&serde_json::json!({
                "file": path,
                "app_name": app_name,
                "user_id": user_id,
                "session_id": session_id,
                "events": events,
            }))?,
            Err(failure) if !single && is_gone(&failure) => {
                tell(&format!("note: session `{session_id}` was deleted meanwhile"));
            }
            Err(failure) => {
                tell(&format!("error: session `{session_id}` of `{user_id}`: {}", failure.text()));
                failed = true;
            }
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

fn key_of(scope: v1::Scope) -> v1::SessionKey {
    let v1::Scope { app_name, user_id, session_id } = scope;
    v1::SessionKey { app_name, user_id, session_id }
}

fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(status) if status.code() == Code::NotFound)
}

/// All sessions. One that is used meanwhile may be listed twice and is exported once.
async fn list(server: &Server, scope: v1::Scope) -> Result<Vec<v1::SessionKey>, Failure> {
    let mut request = v1::ListSessionsRequest {
        app_name: scope.app_name,
        user_id: scope.user_id,
        page_size: MAX_PAGE,
        json_form: JSON_FORM,
        ..Default::default()
    };
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    loop {
        let page = server.sessions().list_sessions(request.clone()).await?.into_inner();
        let listed = page.sessions.into_iter().filter_map(|session| session.key);
        keys.extend(
            listed.filter(|key| seen.insert((key.user_id.clone(), key.session_id.clone()))),
        );
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(keys);
        }
    }
}

/// Writes a file that appears whole or not at all. Returns its path and the number of events.
async fn export_to_file(
    server: &Server,
    key: &v1::SessionKey,
    directory: &Path,
) -> Result<(PathBuf, u64), Failure> {
    let path = directory.join(file_name(key));
    let file = temporary_file(directory).map_err(|error| cannot_write(&path, &error))?;
    let (file, events) = export(server, key, BufWriter::new(file)).await?;
    commit(file, &path).map_err(|error| cannot_write(&path, &error))?;
    Ok((path, events))
}

/// A file that is removed when it is dropped, with the permissions of every new file.
fn temporary_file(directory: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".export-").suffix(".tmp").permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(directory)
}

/// Moves the file to `path` once its content is on the disk.
fn commit(file: BufWriter<NamedTempFile>, path: &Path) -> io::Result<()> {
    let file = file.into_inner()?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}

/// Writes one session as it is now, whatever is appended meanwhile. Returns the number of events.
async fn export<W: Write>(
    server: &Server,
    key: &v1::SessionKey,
    to: W,
) -> Result<(W, u64), Failure> {
    let get = async |request: v1::GetSessionRequest| -> Result<v1::GetSessionResponse, Failure> {
        Ok(server.sessions().get_session(request).await?.into_inner())
    };
    let now = v1::GetSessionRequest {
        key: Some(key.clone()),
        json_form: JSON_FORM,
        ..Default::default()
    };
    let session = get(now.clone()).await?.session.unwrap_or_default();
    let created = get(v1::GetSessionRequest { as_of_sequence: Some(0), ..now.clone() }).await?;
    let last_sequence = session.last_sequence;
    let overview = Overview::new(session, &created.session.unwrap_or_default())?;
    let mut writer = FileWriter::begin(to, &overview)?;
    if last_sequence > 0 {
        let selection = v1::EventSelection { include_rewound: true, ..Default::default() };
        let first = get(v1::GetSessionRequest {
            as_of_sequence: Some(last_sequence),
            events: Some(selection),
            without_state: true,
            ..now
        });
        let first = first.await?;
        first.events.into_iter().try_for_each(|event| writer.event(event))?;
        let token = first.next_page_token;
        if !token.is_empty() {
            for_each_event(server, key, selection, token, |event| writer.event(event)).await?;
        }
    }
    let events = writer.events;
    if events != last_sequence.unsigned_abs() {
        return Err(Failure::Failed(format!(
            "the server sent {events} of {last_sequence} events. Export the session again"
        )));
    }
    Ok((writer.end(&overview)?, events))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect::<Vec<_>>()
        };
        let mut given_up = BufWriter::new(temporary_file(dir.path()).unwrap());
        given_up.write_all(b"half").unwrap();
        assert_ne!(names(), ["a.json"]);
        drop(given_up);
        assert_eq!(names(), [""; 0]);
        let path = dir.path().join("a.json");
        for text in ["one", "two"] {
            let mut file = BufWriter::new(temporary_file(dir.path()).unwrap());
            file.write_all(text.as_bytes()).unwrap();
            commit(file, &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(), ["a.json"]);
    }
}
