//! `sessiond import`: creates sessions from files of ADK or of `export`.

mod address;
mod log;
mod outcome;
mod plan;
mod same;
mod send;
mod session;
mod shared;
mod writers;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;

use self::{
    address::AddressArgs,
    outcome::{Imported, Where},
    session::Options,
    shared::Shared,
    writers::{Mark, Writers},
};
use super::{
    adk_file::SessionFile,
    calls::shared_scope,
    connect::{ConnectArgs, Server},
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
    let mut writers = Writers::new(&server);
    let (mut imported, mut failed, mut changed) = (0, 0, 0);
    let mut lines = output::Lines::new(args.connect.format(), &REPORTS);
    for path in &args.files {
        let mut at = Where::default();
        match import(&server, &mut writers, path, &args, &mut at).await {
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

async fn import<'a, 's>(
    server: &'s Server,
    writers: &mut Writers<'s>,
    path: &'a Path,
    args: &ImportArgs,
    at: &mut Where,
) -> Result<Report<'a>, Failure> {
    let text = parse::file_or_input(path)
        .map_err(|error| Failure::Failed(format!("cannot read the file: {error}")))?;
    let file = SessionFile::read(&text).map_err(|fault| {
        at.key = SessionFile::ids(&text);
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
    ];
    for (kind, what, names) in notes {
        list_names(kind, &label, what, &names);
    }
    at.key = match file.shared_only {
        true => args.address.shared(&file.key)?,
        false => args.address.session(&file.key, path)?,
    };
    let imported = match file.shared_only {
        true => import_shared((server, writers), file, &at.key, args.restore_shared).await?,
        false => {
            let &ImportArgs { restore_shared, no_expiry, .. } = args;
            let options = Options { restore_shared, no_expiry };
            session::import((server, writers), file, &label, options, at).await?
        }
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

/// Brings the state of an application or a user from a file of `export --state-only`.
async fn import_shared<'a>(
    (server, writers): (&'a Server, &mut Writers<'a>),
    file: SessionFile,
    key: &v1::SessionKey,
    restore: bool,
) -> Result<Imported, Failure> {
    let mark = Mark::new(key, None, &[]);
    // What an earlier run has set is equal, so none of it has to be told from the values of others.
    let values = BTreeMap::new();
    let shared = Shared::read((server, writers), mark, shared_scope(key), restore, &values).await;
    let mut shared = shared?;
    let counts = shared.end(&file.state.unwrap_or_default(), &[]).await?;
    Ok(Imported { shared: counts, changed: shared.changed, ..Default::default() })
}
