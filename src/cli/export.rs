//! `sessiond export`: writes sessions into files that ADK reads and `import` restores.

use std::{
    fs::{self, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use indexmap::IndexSet;
use tempfile::NamedTempFile;
use tonic::{Code, Response};

use super::{
    adk_file::FileWriter,
    args::{JSON_FORM, MAX_PAGE, ScopeArgs},
    connect::{ConnectArgs, Server, for_each_event, get_request},
    failure::{Failure, tell},
    output,
};
use crate::proto::v1;

/// Bytes of the longest name that consists of the ids; file systems take 255.
const PLAIN_BYTES: usize = 180;
/// Characters of a session id in a name that is a hash.
const READABLE_CHARS: usize = 40;
const SUFFIX: &str = ".session.json";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond export --app shop --user alice --session s1 > s1.session.json
  sessiond export --app shop --out backup          # every session of the application

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
    let v1::Scope { app_name, user_id, session_id } = args.scope.scope()?;
    let key = v1::SessionKey { app_name, user_id, session_id };
    let Some(directory) = args.out else {
        if key.session_id.is_empty() {
            let text = "several sessions need a directory. Pass --out DIR";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut to = BufWriter::new(io::stdout());
        export(&Server::connect(&args.connect).await?, &key, &mut to).await?;
        return Ok(to.flush()?);
    };
    let server = Server::connect(&args.connect).await?;
    fs::create_dir_all(&directory).map_err(|error| {
        Failure::Failed(format!("cannot create {}: {error}", directory.display()))
    })?;
    let keys =
        if key.session_id.is_empty() { list(&server, key).await? } else { IndexSet::from([key]) };
    let (several, mut failed) = (keys.len() > 1, false);
    for key in keys {
        let (user_id, session_id) = (&key.user_id, &key.session_id);
        match export_to_file(&server, &key, &directory).await {
            Ok((path, events)) => output::print(&serde_json::json!({
                "file": path,
                "app_name": key.app_name,
                "user_id": user_id,
                "session_id": session_id,
                "events": events,
            }))?,
            Err(Failure::Refused(status)) if several && status.code() == Code::NotFound => {
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

/// All sessions of the application or user. One that is used meanwhile may be listed twice and is exported once.
async fn list(server: &Server, scope: v1::SessionKey) -> Result<IndexSet<v1::SessionKey>, Failure> {
    let mut request = v1::ListSessionsRequest {
        app_name: scope.app_name,
        user_id: scope.user_id,
        page_size: MAX_PAGE,
        json_form: JSON_FORM,
        ..Default::default()
    };
    let mut keys = IndexSet::new();
    loop {
        let page = server.sessions().list_sessions(request.clone()).await?.into_inner();
        keys.extend(page.sessions.into_iter().filter_map(|session| session.key));
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
) -> Result<(PathBuf, usize), Failure> {
    let path = directory.join(file_name(key));
    let cannot_write =
        |error: io::Error| Failure::Failed(format!("cannot write {}: {error}", path.display()));
    let mut file = BufWriter::new(temporary_file(directory).map_err(cannot_write)?);
    let events = export(server, key, &mut file).await?;
    commit(file, &path).map_err(cannot_write)?;
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

/// Writes one session as it is now, whatever is appended meanwhile. Returns the number of events.
async fn export(
    server: &Server,
    key: &v1::SessionKey,
    to: &mut impl Write,
) -> Result<usize, Failure> {
    let sessions = server.sessions();
    let get = async |request| sessions.clone().get_session(request).await.map(Response::into_inner);
    let now = get_request(key);
    let session = get(now.clone()).await?.session.unwrap_or_default();
    let created = get(v1::GetSessionRequest { as_of_sequence: Some(0), ..now.clone() }).await?;
    let last_sequence = session.last_sequence;
    let mut writer = FileWriter::begin(to, &session)?;
    if last_sequence > 0 {
        let selection = v1::EventSelection { include_rewound: true, ..Default::default() };
        let events = Some(selection);
        let as_of_sequence = Some(last_sequence);
        let first = v1::GetSessionRequest { as_of_sequence, events, without_state: true, ..now };
        let first = get(first).await?;
        for_each_event(server, first, events, |event| writer.event(&event)).await?;
    }
    let events = writer.events();
    if i64::try_from(events) != Ok(last_sequence) {
        return Err(Failure::Failed(format!(
            "the server sent {events} of {last_sequence} events. Export the session again"
        )));
    }
    writer.end(session, &created.session.unwrap_or_default())?;
    Ok(events)
}

/// Short and plain ids are written out, `app~user~session`. All others, which may be long, hold slashes or differ only
/// in case, become `session~hash` of all three.
fn file_name(key: &v1::SessionKey) -> String {
    let v1::SessionKey { app_name, user_id, session_id } = key;
    let parts = [app_name, user_id, session_id];
    let length: usize = parts.iter().map(|part| part.len() + 1).sum();
    if length <= PLAIN_BYTES && parts.into_iter().all(|part| is_plain(part)) {
        return format!("{app_name}~{user_id}~{session_id}{SUFFIX}");
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let readable: String = session_id.chars().take(READABLE_CHARS).map(plain).collect();
    let all = serde_json::json!(parts).to_string();
    let hash = xxhash_rust::xxh3::xxh3_128(all.as_bytes());
    format!("{readable}~{hash:032x}{SUFFIX}")
}

/// Whether the id is safe on every file system and in a shell.
fn is_plain(id: &str) -> bool {
    let harmless = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.');
    !id.is_empty() && !id.starts_with(['.', '-']) && id.bytes().all(harmless)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    fn name(app: &str, user: &str, session: &str) -> String {
        file_name(&v1::SessionKey {
            app_name: app.to_owned(),
            user_id: user.to_owned(),
            session_id: session.to_owned(),
        })
    }

    #[test]
    fn plain_ids_are_written_out() {
        assert_eq!(name("shop", "alice", "s-1.2"), "shop~alice~s-1.2.session.json");
    }

    #[test]
    fn every_name_is_one_safe_path_component() {
        let long = "x".repeat(512);
        let wide = "é".repeat(256);
        let ids = [
            "a",
            "A",
            "..",
            ".",
            ".hidden",
            "-rf",
            "a/b",
            "a\\b",
            "../../etc/passwd",
            "a~b",
            "a b",
            "con",
            "a\nb",
            "%2f",
            &long,
            &wide,
        ];
        for id in ids {
            for name in [name("app", "user", id), name(id, "user", "s"), name("app", id, "s")] {
                assert!(name.len() <= 200 && name.ends_with(SUFFIX), "{name}");
                assert!(!name.starts_with(['.', '-', '~']), "{name}");
                let safe = |letter: char| letter.is_ascii_alphanumeric() || "~._-".contains(letter);
                assert!(name.chars().all(safe), "{name}");
            }
        }
    }

    #[test]
    fn no_two_sessions_share_a_name_whatever_the_case() {
        let long = |end: &str| format!("{}{end}", "x".repeat(500));
        let (one, other) = (long("1"), long("2"));
        let ids =
            ["a", "A", "a~b", "b", "a_b", "a/b", "a.b", "é", "è", "E", "~", "_", &one, &other];
        let mut seen = HashSet::new();
        for app in ids {
            for user in ids {
                for session in ids {
                    let name = name(app, user, session);
                    assert!(seen.insert(name.to_lowercase()), "{name}");
                }
            }
        }
    }
}
