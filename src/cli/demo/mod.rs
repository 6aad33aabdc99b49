//! `sessiond demo`: sessions to look at.

use clap::Args;
use prost_types::Timestamp;

use super::{
    adk_file::lookup::member,
    args::JSON_FORM,
    connect::{ConnectArgs, DEFAULT_SERVER, Server},
    failure::Failure,
    message::from_json,
    output, time,
};
use crate::{domain::json::Json, proto::v1};

/// Four sessions of two users, written like those of a shop's agents.
const SESSIONS: &str = include_str!("sessions.json");
/// Between two events of a session.
const SECONDS_BETWEEN: i64 = 19;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sessiond demo
  sessiond demo --app playground
  sessiond demo --remove

Also sets keys of the application, and of its users alice and bob. A second run
changes nothing. --remove deletes the sessions, and leaves these keys.")]
pub struct DemoArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Application of the sample sessions.
    #[arg(long, value_name = "NAME", default_value = "demo")]
    app: String,
    /// Delete the sample sessions.
    #[arg(long)]
    remove: bool,
}

pub async fn run(args: DemoArgs) -> Result<(), Failure> {
    let server = Server::connect(&args.connect).await?;
    let (app, mut new, mut old) = (&args.app, 0, 0);
    for session in Json::from_stored(SESSIONS.trim().to_owned()).items() {
        if args.remove {
            let v1::CreateSessionRequest { app_name, user_id, session_id, .. } =
                request_of(app, &session)?;
            let key = Some(v1::SessionKey { app_name, user_id, session_id });
            let request =
                v1::DeleteSessionRequest { key, allow_missing: true, ..Default::default() };
            server.sessions().delete_session(request).await?;
            continue;
        }
        match create(&server, app, &session).await? {
            true => new += 1,
            false => old += 1,
        }
    }
    if args.remove {
        return output::print_text(&format!(
            "Deleted the sample sessions of application `{app}`.\n"
        ));
    }
    let server = match args.connect.server.as_str() {
        DEFAULT_SERVER => String::new(),
        other => format!(" --server {other}"),
    };
    output::print_text(&format!(
        "Application `{app}`: {new} sessions created, {old} existed already. Look at them:\n\
         \x20 sessiond session list{server} --app {app}\n\
         \x20 sessiond show{server} --app {app} --user alice --session rain-shoes\n\
         \x20 sessiond show{server} --app {app} --user alice --session late-parcel --diff 3..7\n\
         \x20 sessiond show{server} --app {app} --user bob --session trip --include-rewound\n\
         \x20 sessiond state history{server} --app {app} --user alice --key user:orders_started\n\
         Watch one, and append to it in another terminal:\n\
         \x20 sessiond show{server} --app {app} --user bob --session returns --follow\n\
         \x20 sessiond event append{server} --app {app} --user bob --session returns --author user \\\n\
         \x20     --body '{{\"content\":{{\"role\":\"user\",\"parts\":[{{\"text\":\"Thanks!\"}}]}}}}'\n"
    ))
}

/// The request that creates a sample session.
fn request_of(app: &str, session: &Json) -> Result<v1::CreateSessionRequest, Failure> {
    let create = member(session, &["create"]).unwrap_or_else(|| Json::of_members(&[]));
    let request = from_json(&create).map_err(Failure::Failed)?;
    let (app_name, allow_existing) = (app.to_owned(), true);
    Ok(v1::CreateSessionRequest { app_name, allow_existing, json_form: JSON_FORM, ..request })
}

fn number(session: &Json, name: &str) -> Option<i64> {
    member(session, &[name])?.as_str().parse().ok()
}

/// Whether the session is new. One that is there stays as it is.
async fn create(server: &Server, app: &str, session: &Json) -> Result<bool, Failure> {
    let answer = server.sessions().create_session(request_of(app, session)?).await?.into_inner();
    if !answer.created {
        return Ok(false);
    }
    let key = answer.session.and_then(|session| session.key);
    let mut seconds = time::now().seconds - number(session, "minutes_ago").unwrap_or_default() * 60;
    for step in events_of(session) {
        if let to_sequence @ Some(_) = number(&step, "rewind_to") {
            let request = v1::RewindSessionRequest {
                key: key.clone(),
                to_sequence,
                event_id: "rewind".to_owned(),
                author: "user".to_owned(),
                precondition: None,
                json_form: JSON_FORM,
            };
            server.sessions().rewind_session(request).await?;
            continue;
        }
        let event: v1::Event = from_json(&step).map_err(Failure::Failed)?;
        let event_time = Some(Timestamp { seconds, nanos: 0 });
        let request = v1::AppendEventRequest {
            key: key.clone(),
            event: Some(v1::Event { event_time, ..event }),
            json_form: JSON_FORM,
            ..Default::default()
        };
        server.events().append_event(request).await?;
        seconds += SECONDS_BETWEEN;
    }
    Ok(true)
}

fn events_of(session: &Json) -> Vec<Json> {
    member(session, &["events"]).map(|events| events.items()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_users_have_four_sessions_that_can_be_sent() {
        let sessions = Json::parse(SESSIONS.to_owned()).unwrap().items();
        let mut keys: Vec<_> = sessions.iter().map(|it| request_of("demo", it).unwrap()).collect();
        keys.dedup_by_key(|key| key.session_id.clone());
        assert_eq!(keys.len(), 4);
        keys.dedup_by_key(|key| key.user_id.clone());
        assert_eq!(
            keys.iter().map(|key| key.user_id.as_str()).collect::<Vec<_>>(),
            ["alice", "bob"]
        );
        for session in &sessions {
            for event in events_of(session).iter().filter(|it| number(it, "rewind_to").is_none()) {
                let event: v1::Event = from_json(event).unwrap();
                assert!(!event.author.is_empty() && event.body_form.is_some());
            }
        }
    }
}
