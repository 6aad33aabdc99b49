//! `sessiond export`: writes sessions into files that ADK reads or `import` restores.

mod damage;
mod files;
mod name;
mod shared;
mod state;

use std::{io::Write, path::PathBuf};

use clap::Args;
use indexmap::IndexSet;
use tonic::{Code, Response};

use self::files::{Directory, finish, list, new_file};
use super::{
    adk_file::{FileForm, FileWriter, Losses},
    args::ScopeArgs,
    calls::{for_each_event, get_request},
    connect::{ConnectArgs, Server},
    failure::{Failure, tell},
    hidden::Form,
    output::{Lines, Sink, table::Column},
    progress::Progress,
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
    if args.state_only {
        return shared::export(
            &server,
            key,
            args.out.as_deref(),
            args.file_mode,
            args.connect.format(),
        )
        .await;
    }
    let keys = match key.session_id.is_empty() {
        true => list(&server, key.clone(), args.skip_damaged).await?,
        false => IndexSet::from([key.clone()]),
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
        let (_, losses) = export(&server, key, args.format, &Extent::Whole, &mut to).await?;
        to.flush()?;
        warn(&key.session_id, &losses);
        return Ok(());
    };
    let directory = Directory::create(&directory, args.file_mode)?;
    let progress = Progress::new("exporting", keys.len() as u64);
    let mut lines = Lines::new(args.connect.format(), &FILES);
    let (several, mut failed) = (keys.len() > 1, false);
    for key in keys {
        let (user_id, session_id) = (&key.user_id, &key.session_id);
        let mut exported =
            export_to_file(&server, &key, args.format, &Extent::Whole, &directory).await;
        if let Err(Failure::Refused(status)) = &exported
            && args.skip_damaged
            && damage::is_damage(status)
        {
            exported = export_readable(&server, &key, args.format, &directory).await;
        }
        progress.step();
        progress.pause(|| match exported {
            Ok((path, events, losses)) => {
                warn(session_id, &losses);
                lines.add(&serde_json::json!({
                    "file": path,
                    "app_name": key.app_name,
                    "user_id": user_id,
                    "session_id": session_id,
                    "events": events,
                }))
            }
            Err(Failure::Refused(status)) if several && status.code() == Code::NotFound => {
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

/// The part of a session that is written.
enum Extent {
    Whole,
    /// As it was right after an event, without the states that are damaged.
    UpTo(i64),
    /// Whole, but for damaged events.
    Around(damage::Damaged),
}

/// Writes what can be read of a damaged session: all but single events, or the session as it was right after the last event that can be
/// read.
async fn export_readable(
    server: &Server,
    key: &v1::SessionKey,
    form: FileForm,
    directory: &Directory,
) -> Result<(PathBuf, usize, Losses), Failure> {
    let now = v1::GetSessionRequest { without_state: true, ..get_request(key) };
    let now = server.sessions().get_session(now).await?.into_inner().session.unwrap_or_default();
    if let Some(damaged) = damage::find(server, key, now.last_sequence).await? {
        let events = damaged.events.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        match export_to_file(server, key, form, &Extent::Around(damaged), directory).await {
            // The state is damaged as well.
            Err(Failure::Refused(status)) if damage::is_damage(&status) => {}
            exported => {
                let exported = exported?;
                tell(&format!(
                    "note: session `{}` of `{}`: empty events take the places of the damaged ones: {events}",
                    key.session_id, key.user_id
                ));
                return Ok(exported);
            }
        }
    }
    let last = damage::readable_up_to(server, key).await?;
    let exported = export_to_file(server, key, form, &Extent::UpTo(last), directory).await?;
    tell(&format!(
        "note: session `{}` of `{}` is damaged after event {last} and exported as of that event",
        key.session_id, key.user_id
    ));
    Ok(exported)
}

/// Writes a file that appears whole or not at all. Returns its path, the number of events, and what it lacks.
async fn export_to_file(
    server: &Server,
    key: &v1::SessionKey,
    form: FileForm,
    extent: &Extent,
    directory: &Directory,
) -> Result<(PathBuf, usize, Losses), Failure> {
    let path = directory.join(name::of([&key.app_name, &key.user_id, &key.session_id], SUFFIX));
    let mut file = new_file(directory, &path)?;
    let (events, losses) = export(server, key, form, extent, &mut file).await?;
    finish(file, &path)?;
    Ok((path, events, losses))
}

/// Writes one session as it is now, whatever is appended meanwhile. Returns the number of events and what the form lacks.
async fn export(
    server: &Server,
    key: &v1::SessionKey,
    form: FileForm,
    extent: &Extent,
    to: &mut impl Write,
) -> Result<(usize, Losses), Failure> {
    let sessions = server.sessions();
    let get = async |request| sessions.clone().get_session(request).await.map(Response::into_inner);
    let up_to = match extent {
        Extent::UpTo(last) => Some(*last),
        Extent::Whole | Extent::Around(_) => None,
    };
    let now = v1::GetSessionRequest { as_of_sequence: up_to, ..get_request(key) };
    let state = async |request: v1::GetSessionRequest| match get(request.clone()).await {
        Err(status) if up_to.is_some() && damage::is_damage(&status) => {
            get(v1::GetSessionRequest { without_state: true, ..request }).await
        }
        answer => answer,
    };
    let mut session = state(now.clone()).await?.session.unwrap_or_default();
    state::complete(server, &mut session).await?;
    if !session.damaged_keys.is_empty() {
        let keys = session.damaged_keys.join(", ");
        tell(&format!(
            "warning: session `{}`: damaged, and left out of its state: {keys}",
            key.session_id
        ));
    }
    let created = v1::GetSessionRequest { as_of_sequence: Some(0), ..now.clone() };
    let mut created = state(created).await?.session.unwrap_or_default();
    state::complete(server, &mut created).await?;
    let last_sequence = session.last_sequence;
    let mut writer = FileWriter::begin(to, &session, form)?;
    if let Extent::Around(damaged) = extent {
        damaged.each_event(server, key, |event| writer.event(&event)).await?;
    } else if last_sequence > 0 {
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
    let losses = writer.end(session, &created)?;
    Ok((events, losses))
}
