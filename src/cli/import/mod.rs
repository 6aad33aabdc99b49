//! `sessiond import`: creates sessions from files of ADK or of `export`.

mod address;
mod send;
mod session;
mod shared;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;

use self::{
    address::AddressArgs,
    send::Counts,
    shared::{FileValues, NewestChanges, Shared, SharedCounts},
};
use super::{
    adk_file::SessionFile,
    connect::{ConnectArgs, Server},
    convert::key_of,
    failure::{Failure, tell},
    message::AsJson,
    output::{self, table::Column},
    parse,
};
use crate::proto::v1;

/// Names of a list that a warning shows.
const SHOWN_NAMES: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond import chat.session.json --app shop --user alice
  sessiond import exported/*.json
  sessiond import exported/*.json --into-app copy

Reads ADK session files (id, app_name, user_id, state or context, events; in
snake_case or camelCase) and those of `sessiond export`. The file's name is the
default of the session id. The session ends with the file's own state. A second
import changes nothing; a file that has grown adds its new events, and an import
that was interrupted is completed. Application and user state belongs to other
sessions as well: a key that has a value keeps it, unless --restore-shared is
given (pass it to restore a whole application). Files of `export --state-only`
hold only such state. Prints one line per file. A file that fails does not stop
the others; the exit code is then 1.")]
pub struct ImportArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Session files; - for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    address: AddressArgs,
    /// Overwrite existing application and user keys with the file's values.
    #[arg(long)]
    restore_shared: bool,
    /// Create sessions without the expiration in the file.
    #[arg(long)]
    no_expiry: bool,
    /// Stop at the first file that fails.
    #[arg(long)]
    stop_on_error: bool,
}

/// The line that is printed for a file.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: &'a Path,
    #[serde(flatten)]
    key: AsJson<v1::SessionKey>,
    #[serde(flatten)]
    imported: Imported,
}

/// Outcome of a file.
#[derive(Debug, Default, Serialize)]
struct Imported {
    created: bool,
    #[serde(flatten)]
    counts: Counts,
    /// Of the session's own state.
    state_keys_corrected: usize,
    #[serde(flatten)]
    shared: SharedCounts,
    /// Shared keys that somebody else has written after this import did, and that stay.
    #[serde(skip)]
    changed: BTreeSet<String>,
}

/// Position of an import in its file, for the message about its failure.
#[derive(Debug, Default)]
struct Where {
    key: v1::SessionKey,
    /// Empty: at none.
    event: String,
}

impl Where {
    /// The address and the event, as far as they are known, before what is wrong there.
    fn describe(&self) -> String {
        let v1::SessionKey { app_name, user_id, session_id } = &self.key;
        let ids = [app_name, user_id, session_id].map(String::as_str);
        let ids: Vec<_> = ids.into_iter().filter(|id| !id.is_empty()).collect();
        let address = if ids.is_empty() { String::new() } else { ids.join(" / ") + ": " };
        match self.event.as_str() {
            "" => address,
            event => format!("{address}event `{event}`: "),
        }
    }
}

const REPORTS: [Column; 8] = [
    Column::new("FILE", "file"),
    Column::new("USER", "user_id"),
    Column::id("SESSION", "session_id"),
    Column::new("CREATED", "created").left_out(4),
    Column::new("EVENTS NEW", "events_imported").left_out(1),
    Column::new("OLD", "events_already_there").left_out(1),
    Column::new("SHARED KEYS SET", "shared_keys_set").left_out(3),
    Column::new("KEPT", "shared_keys_kept").left_out(3),
];

pub async fn run(args: ImportArgs) -> Result<(), Failure> {
    let server = Server::connect(&args.connect).await?;
    let (mut imported, mut failed, mut changed) = (0, 0, 0);
    let mut newest = NewestChanges::new();
    let mut lines = output::Lines::new(args.connect.format(), &REPORTS);
    for path in &args.files {
        let mut at = Where::default();
        match import((&server, &mut newest), path, &args, &mut at).await {
            Ok(report) => {
                imported += 1;
                changed += usize::from(!report.imported.changed.is_empty());
                lines.add(&report)?;
            }
            Err(failure) => {
                failed += 1;
                let reason = failure.text().replace("\n  ", "; ");
                tell(&format!("error: {}: {}{reason}", path.display(), at.describe()));
                // Without a server the others fail alike.
                if args.stop_on_error || failure.is_lost() {
                    break;
                }
            }
        }
    }
    lines.end()?;
    if failed + changed == 0 {
        return Ok(());
    }
    if args.files.len() > 1 {
        let untried = args.files.len() - imported - failed;
        tell(&format!(
            "files: {imported} imported, {failed} failed, {untried} not tried; with shared keys that others changed meanwhile: {changed}"
        ));
    }
    Err(Failure::Reported)
}

async fn import<'a>(
    (server, newest): (&Server, &mut NewestChanges),
    path: &'a Path,
    args: &ImportArgs,
    at: &mut Where,
) -> Result<Report<'a>, Failure> {
    let text = parse::file_or_input(path)
        .map_err(|error| Failure::Failed(format!("cannot read the file: {error}")))?;
    let file = SessionFile::read(&text).map_err(|fault| {
        at.key = key_of(SessionFile::ids(&text));
        Failure::Failed(fault)
    })?;
    drop(text);
    let label = path.display().to_string();
    let notes = [
        ("note", "members that are not imported", file.unknown.clone()),
        (
            "warning",
            "half of a surrogate pair became U+FFFD in",
            file.mended.iter().cloned().collect(),
        ),
        ("warning", "edited, so only ADK's form of these events counts", file.edited.clone()),
    ];
    for (kind, what, names) in notes {
        list_names(kind, &label, what, &names);
    }
    at.key = match file.shared_only {
        true => args.address.shared(&file.address)?,
        false => args.address.session(&file.address, path)?,
    };
    let imported = match file.shared_only {
        true => {
            // What an earlier run has set is equal, so none of it has to be told from the values of others.
            let values = FileValues::new();
            let server = (server, newest);
            let shared = Shared::read(server, &at.key, (None, &[]), args.restore_shared, &values);
            let mut shared = shared.await?;
            let counts = shared.end(&file.state.unwrap_or_default(), &[]).await?;
            Imported { shared: counts, changed: shared.changed, ..Default::default() }
        }
        false => session::import((server, newest), file, &label, args, at).await?,
    };
    let changed: Vec<_> = imported.changed.iter().cloned().collect();
    list_names("warning", &label, "changed by others during the import, and kept", &changed);
    Ok(Report { file: path, key: AsJson(at.key.clone()), imported })
}

fn list_names(kind: &str, label: &str, what: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let shown = names.iter().take(SHOWN_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(SHOWN_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    tell(&format!("{kind}: {label}: {what}: {shown}{more}"));
}
