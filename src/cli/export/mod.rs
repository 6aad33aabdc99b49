//! `sessiond export`: writes sessions into files that ADK reads or `import` restores.

mod damage;
mod shared;
mod state;
mod write;

use std::{
    fs::Permissions,
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use indexmap::IndexSet;
use tonic::Code;

use self::write::Written;
use super::{
    adk_file::{Losses, NewFile, file_name},
    args::ScopeArgs,
    calls::sessions_request,
    connect::{ConnectArgs, Server},
    failure::{Failure, tell},
    hidden::Form,
    output::{Lines, Sink, table::Column},
    progress::progress_bar,
};
use crate::{files::FileMode, proto::v1};

const SUFFIX: &str = ".session.json";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond export --app shop --user alice --session s1 > s1.session.json
  sessiond export --app shop --out backup --format sessiond   # to restore from
  sessiond export --app shop --state-only > shop.state.json   # app: keys alone
  sessiond export --app shop --out saved --skip-damaged
  adk run --resume s1.session.json my_agent  # what `export` wrote

A file has exactly ADK's form of a session, so that ADK's tools read it. A
warning names what that form cannot hold: removals, rewinds, labels and more.
--format sessiond keeps it in one more member, and an import restores an equal
session. --state-only --out writes the application's state and that of each of
its users. --out prints one line per file.")]
pub struct ExportArgs {
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Directory of the files, created if it is missing. Files of the same sessions are replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Mode of new files in the directory, in octal: 0640 lets their group read
    #[arg(long, requires = "out", default_value_t, value_name = "MODE")]
    file_mode: FileMode,
    /// File format.
    #[arg(long, value_enum, default_value_t = FileForm::Adk)]
    format: FileForm,
    /// Export application and user state instead of sessions.
    #[arg(long, conflicts_with_all = ["session", "format"])]
    state_only: bool,
    /// Skip damage: an empty event takes the place of a damaged one. A session that is damaged otherwise is exported up to the last
    /// event before the damage.
    #[arg(long, requires = "out")]
    skip_damaged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FileForm {
    /// ADK's own form, for its tools. Omits what that form cannot hold.
    Adk,
    /// ADK's form with one more member, from which `import` restores an equal session.
    Sessiond,
}

const FILES: [Column; 4] = [
    Column::new("FILE", "file"),
    Column::new("USER", "user_id"),
    Column::id("SESSION", "session_id"),
    Column::new("EVENTS", "events").left_out(1),
];

pub async fn run(args: ExportArgs) -> Result<(), Failure> {
    let v1::Scope { app_name, user_id, session_id } = args.scope.scope()?;
    let key = v1::SessionKey { app_name, user_id, session_id };
    let server = Server::connect(&args.connect).await?;
    let (format, exact) = (args.connect.format(), args.format == FileForm::Sessiond);
    if args.state_only {
        let directory = args.out.as_deref();
        return shared::export(&server, key, directory, args.file_mode, format).await;
    }
    let keys = if key.session_id.is_empty() {
        let request = sessions_request(&key.app_name, &key.user_id);
        damage::list(&server, &request, args.skip_damaged).await?
    } else {
        IndexSet::from([key.clone()])
    };
    if keys.is_empty() {
        let user = match key.user_id.as_str() {
            "" => String::new(),
            user => format!(" of user `{user}`"),
        };
        let text = format!("no sessions{user} in application `{}`", key.app_name);
        return Err(Failure::Failed(text));
    }
    let Some(directory) = args.out else {
        let [key] = keys.iter().collect::<Vec<_>>()[..] else {
            let text = format!("{} sessions need a directory. Pass --out DIR", keys.len());
            return Err(Failure::Usage(text));
        };
        let mut to = Sink::stdout(Form::Json);
        let (_, losses) = write::whole(&server, key, exact, &mut to).await?;
        to.flush()?;
        warn(&key.session_id, &losses);
        return Ok(());
    };
    let to = (directory.as_path(), &args.file_mode.permissions());
    export_all(&server, &keys, (exact, args.skip_damaged), to, Lines::new(format, &FILES)).await
}

/// Writes a file per session. One that fails does not stop the others.
async fn export_all(
    server: &Server,
    keys: &IndexSet<v1::SessionKey>,
    (exact, skip_damaged): (bool, bool),
    to: (&Path, &Permissions),
    mut lines: Lines<'_>,
) -> Result<(), Failure> {
    let progress = progress_bar("exporting", Some(keys.len() as u64));
    let mut failed = false;
    for key in keys {
        let (user_id, session_id) = (&key.user_id, &key.session_id);
        let mut exported = export_to_file(server, key, (exact, false), to).await;
        if let Err(Failure::Refused(status)) = &exported
            && skip_damaged
            && damage::is_damage(status)
        {
            exported = export_to_file(server, key, (exact, true), to).await;
        }
        progress.inc(1);
        progress.suspend(|| match exported {
            Ok((path, (events, losses))) => {
                warn(session_id, &losses);
                lines.add(&serde_json::json!({
                    "file": path,
                    "app_name": key.app_name,
                    "user_id": user_id,
                    "session_id": session_id,
                    "events": events,
                }))
            }
            Err(Failure::Refused(status)) if keys.len() > 1 && status.code() == Code::NotFound => {
                tell(&format!("note: session `{session_id}` was deleted during the export"));
                Ok(())
            }
            Err(failure) => {
                tell(&format!("error: session `{session_id}` of `{user_id}`: {}", failure.text()));
                failed = true;
                Ok(())
            }
        })?;
    }
    drop(progress);
    lines.end()?;
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

/// Says once per file what it lacks.
fn warn(session_id: &str, losses: &Losses) {
    if !losses.is_empty() {
        let losses = losses.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        tell(&format!(
            "warning: session `{session_id}`: ADK's form cannot hold {losses}. --format sessiond keeps them"
        ));
    }
}

/// Writes a file that appears whole or not at all.
async fn export_to_file(
    server: &Server,
    key: &v1::SessionKey,
    (exact, is_damaged): (bool, bool),
    (directory, permissions): (&Path, &Permissions),
) -> Result<(PathBuf, Written), Failure> {
    let name = file_name([&key.app_name, &key.user_id, &key.session_id], SUFFIX);
    let mut file = NewFile::create(directory, permissions, &name).map_err(Failure::Failed)?;
    let written = match is_damaged {
        true => write::readable(server, key, exact, &mut file.to).await?,
        false => write::whole(server, key, exact, &mut file.to).await?,
    };
    Ok((file.finish().map_err(Failure::Failed)?, written))
}
