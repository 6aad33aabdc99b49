//! `sessiond demo`: sessions to look at.

use clap::Args;
use prost_types::{Duration, Timestamp};

use super::{
    adk_file::lookup::{member, text},
    args::JSON_FORM,
    connect::{ConnectArgs, Server},
    failure::Failure,
    message::from_json,
    output, time,
};
use crate::{
    domain::json::Json,
    proto::v1::{self, create_session_request::StateForm, session::Expiration},
};

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
    let (mut new, mut old) = (0, 0);
    for session in Json::from_stored(SESSIONS.trim().to_owned()).items() {
        if args.remove {
            let request = v1::DeleteSessionRequest {
                key: Some(key_of(&args.app, &session)),
                allow_missing: true,
                ..Default::default()
            };
            server.sessions().delete_session(request).await?;
            continue;
        }
        match create(&server, &args.app, &session).await? {
            true => new += 1,
            false => old += 1,
        }
    }
    if args.remove {
        return output::print_text(&format!(
            "Deleted the sample sessions of application `{}`.\n",
            args.app
        ));
    }
    let app = &args.app;
    output::print_text(&format!(
        "Application `{app}`: {new} sessions created, {old} existed already. Look at them:\n\
         \x20 sessiond session list --app {app}\n\
         \x20 sessiond show --app {app} --user alice --session rain-shoes\n\
         \x20 sessiond show --app {app} --user alice --session late-parcel --diff 3..7\n\
         \x20 sessiond show --app {app} --user bob --session trip --include-rewound\n\
         \x20 sessiond state history --app {app} --user alice --key user:orders_started\n\
         Watch one, and append to it in another terminal:\n\
         \x20 sessiond show --app {app} --user bob --session returns --follow\n\
         \x20 sessiond event append --app {app} --user bob --session returns --author user \\\n\
         \x20     --body '{{\"content\":{{\"role\":\"user\",\"parts\":[{{\"text\":\"Thanks!\"}}]}}}}'\n"
    ))
}

fn key_of(app: &str, session: &Json) -> v1::SessionKey {
    v1::SessionKey {
        app_name: app.to_owned(),
        user_id: text(session, &["user_id"]).unwrap_or_default(),
        session_id: text(session, &["session_id"]).unwrap_or_default(),
    }
}

fn number(session: &Json, name: &str) -> Option<i64> {
    member(session, &[name])?.as_str().parse().ok()
}

/// Whether the session is new. One that is there stays as it is.
async fn create(server: &Server, app: &str, session: &Json) -> Result<bool, Failure> {
    let key = key_of(app, session);
    let labels = member(session, &["labels"]).map(|labels| labels.members()).unwrap_or_default();
    let labels = labels
        .into_iter()
        .map(|(name, value)| (name, value.decoded().unwrap_or_default().into_owned()));
    let ttl = number(session, "ttl_days").map(|days| Duration { seconds: days * 86_400, nanos: 0 });
    let request = v1::CreateSessionRequest {
        app_name: key.app_name.clone(),
        user_id: key.user_id.clone(),
        session_id: key.session_id.clone(),
        state_form: member(session, &["state"]).map(|it| StateForm::StateJson(it.into_string())),
        session: Some(v1::Session {
            display_name: text(session, &["display_name"]).unwrap_or_default(),
            labels: labels.collect(),
            expiration: ttl.map(Expiration::Ttl),
            ..Default::default()
        }),
        allow_existing: true,
        json_form: JSON_FORM,
        include_versions: false,
    };
    if !server.sessions().create_session(request).await?.into_inner().created {
        return Ok(false);
    }
    let began = time::now().seconds - number(session, "minutes_ago").unwrap_or_default() * 60;
    let mut sent = append(server, &key, session, "events", began).await?;
    if let Some(sequence) = number(session, "rewind_to") {
        let request = v1::RewindSessionRequest {
            key: Some(key.clone()),
            to_sequence: Some(sequence),
            event_id: "rewind".to_owned(),
            author: "user".to_owned(),
            precondition: None,
            json_form: JSON_FORM,
        };
        server.sessions().rewind_session(request).await?;
        sent +=
            append(server, &key, session, "after_rewind", began + sent * SECONDS_BETWEEN).await?;
    }
    Ok(sent > 0)
}

/// Appends the events of a member in one commit. Returns their number.
async fn append(
    server: &Server,
    key: &v1::SessionKey,
    session: &Json,
    name: &str,
    began: i64,
) -> Result<i64, Failure> {
    let events = member(session, &[name]).map(|events| events.items()).unwrap_or_default();
    let mut times = (0..).map(|at| Timestamp { seconds: began + at * SECONDS_BETWEEN, nanos: 0 });
    let event = |json: &Json| {
        let event: v1::Event = from_json(json).map_err(Failure::Failed)?;
        Ok(v1::Event { event_time: times.next(), ..event })
    };
    let events = events.iter().map(event).collect::<Result<Vec<_>, Failure>>()?;
    let number = events.len() as i64;
    let key = Some(key.clone());
    let request =
        v1::AppendEventsRequest { key, events, json_form: JSON_FORM, ..Default::default() };
    server.events().append_events(request).await?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_users_have_four_sessions_that_can_be_sent() {
        let sessions = Json::parse(SESSIONS.to_owned()).unwrap().items();
        let mut keys: Vec<_> = sessions.iter().map(|it| key_of("demo", it)).collect();
        keys.dedup_by_key(|key| key.session_id.clone());
        assert_eq!(keys.len(), 4);
        keys.dedup_by_key(|key| key.user_id.clone());
        assert_eq!(
            keys.iter().map(|key| key.user_id.as_str()).collect::<Vec<_>>(),
            ["alice", "bob"]
        );
        for session in &sessions {
            for name in ["events", "after_rewind"] {
                let events =
                    member(session, &[name]).map(|events| events.items()).unwrap_or_default();
                for event in &events {
                    let event: v1::Event = from_json(event).unwrap();
                    assert!(!event.author.is_empty() && event.body_form.is_some());
                }
            }
        }
    }
}
