//! Every call that reads or writes a session, with what damage makes of it.

use std::collections::BTreeMap;

use sessiond::proto::v1::{
    AppendEventRequest, Event, EventSelection, ForkSessionRequest, GetSessionRequest,
    GetStateRequest, Increment, KeyCheck, ListEventsRequest, ListKeyChangesRequest,
    ListSessionsRequest, Precondition, RenderTemplateRequest, RewindSessionRequest, Scope,
    SessionKey, StateDelta, StateOperation, UpdateStateRequest, WatchRequest, WatchStart,
    event_service_client::EventServiceClient, increment::Amount, key_check::Condition,
    session_service_client::SessionServiceClient, state_delta::SetForm, state_operation::Operation,
    state_service_client::StateServiceClient, watch_response::Kind,
    watch_service_client::WatchServiceClient,
};
use tonic::{Code, Response, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::harness::{Server, append, create, event, key};

/// Fills a store: `s` has five events, the application and the user a value each.
pub async fn fill(url: &str) {
    let server = Server::start_on(url, &[]);
    let channel = server.channel().await;
    create(&channel, "l", r#"{"k":0}"#).await;
    create(&channel, "s", r#"{"own":77,"k":0,"app:app":1,"user:usr":1}"#).await;
    for at in 1..=5 {
        let set = format!(r#"{{"k":{at},"own":{at}}}"#);
        let mut event = event(&format!("e{at}"), &set, "{}");
        let delta = event.state_delta.as_mut().unwrap();
        delta.operations.clear();
        delta.remove.push("k2".into());
        append(&channel, "s", event).await.unwrap();
    }
    create(&channel, "r", r#"{"k":0}"#).await;
    for name in ["app:app", "user:usr"] {
        update(&channel, &[], &format!(r#"{{"{name}":2}}"#), None).await.unwrap();
    }
    drop(channel);
    assert!(server.stop().status.success());
}

/// How a call ended: `ok`, what is damaged, or the keys that its state lacks.
pub fn outcome<T>(answer: Result<Response<T>, Status>, lacks: impl Fn(T) -> Vec<String>) -> String {
    match answer {
        Ok(answer) => match lacks(answer.into_inner()).join(" ") {
            lacks if lacks.is_empty() => "ok".to_owned(),
            lacks => format!("lacks {lacks}"),
        },
        Err(status) => damage(&status),
    }
}

fn damage(status: &Status) -> String {
    let info = status.get_details_error_info().unwrap();
    assert_eq!((status.code(), &*info.reason), (Code::DataLoss, "DAMAGED"), "{status}");
    let part = |name| info.metadata.get(name).cloned().unwrap_or_default();
    format!("{} {}", part("what"), part("name")).trim_end().to_owned()
}

fn scope() -> Option<Scope> {
    let SessionKey { app_name, user_id, session_id } = key("s");
    Some(Scope { app_name, user_id, session_id })
}

/// Sets keys through the session `s`, adds one to others, under a condition on a key.
pub async fn update(
    channel: &Channel,
    increments: &[&str],
    set: &str,
    condition: Option<&str>,
) -> Result<Response<sessiond::proto::v1::UpdateStateResponse>, Status> {
    let by_one = |key: &&str| {
        let operation = Operation::Increment(Increment { amount: Some(Amount::By(1)) });
        StateOperation { key: (*key).into(), operation: Some(operation) }
    };
    let delta = StateDelta {
        set_form: Some(SetForm::SetJson(set.into())),
        operations: increments.iter().map(by_one).collect(),
        ..Default::default()
    };
    let check = |key: &str| KeyCheck { key: key.into(), condition: Some(Condition::Exists(true)) };
    let keys = condition.into_iter().map(check).collect();
    let request = UpdateStateRequest {
        scope: scope(),
        delta: Some(delta),
        precondition: Some(Precondition { keys, ..Default::default() }),
        ..Default::default()
    };
    StateServiceClient::new(channel.clone()).update_state(request).await
}

/// The first damage or snapshot of a watch of `s`, up to where it has caught up.
async fn watch(channel: &Channel, start: WatchStart) -> String {
    let request = WatchRequest { scope: scope(), start: start.into(), ..Default::default() };
    let opened = WatchServiceClient::new(channel.clone()).watch(request).await;
    let mut stream = match opened {
        Ok(stream) => stream.into_inner(),
        Err(status) => return damage(&status),
    };
    let mut lacks = Vec::new();
    loop {
        match stream.message().await {
            Err(status) => return damage(&status),
            Ok(message) => match message.unwrap().kind.unwrap() {
                Kind::Snapshot(snapshot) => lacks = snapshot.damaged_keys,
                Kind::CaughtUp(_) if lacks.is_empty() => return "ok".to_owned(),
                Kind::CaughtUp(_) => return format!("lacks {}", lacks.join(" ")),
                _ => {}
            },
        }
    }
}

/// Calls everything: reads, then writes that leave the damage as it is.
pub async fn call_all(channel: &Channel) -> BTreeMap<&'static str, String> {
    let mut sessions = SessionServiceClient::new(channel.clone());
    let mut events = EventServiceClient::new(channel.clone());
    let mut states = StateServiceClient::new(channel.clone());
    let mut found = BTreeMap::new();
    let get = || GetSessionRequest { key: Some(key("s")), ..Default::default() };
    let after = |after_sequence| Some(EventSelection { after_sequence, ..Default::default() });
    for (name, request) in [
        ("GetSession", get()),
        ("GetSession without state", GetSessionRequest { without_state: true, ..get() }),
        (
            "GetSession with event 3",
            GetSessionRequest { events: after(2), without_state: true, ..get() },
        ),
        (
            "GetSession with event 4",
            GetSessionRequest { events: after(3), without_state: true, ..get() },
        ),
        ("GetSession as of 0", GetSessionRequest { as_of_sequence: Some(0), ..get() }),
        ("GetSession as of 2", GetSessionRequest { as_of_sequence: Some(2), ..get() }),
        ("GetSession as of 4", GetSessionRequest { as_of_sequence: Some(4), ..get() }),
        ("GetSession of another", GetSessionRequest { key: Some(key("l")), ..get() }),
    ] {
        let answer = sessions.get_session(request).await;
        found.insert(name, outcome(answer, |it| it.session.unwrap().damaged_keys));
    }
    for (name, include_state) in [("ListSessions", false), ("ListSessions with state", true)] {
        let mut list = ListSessionsRequest {
            app_name: "app".into(),
            user_id: "alice".into(),
            page_size: 1,
            include_state,
            ..Default::default()
        };
        // `s` was used last.
        let outcome = loop {
            let answer = sessions.list_sessions(list.clone()).await;
            let token = answer.as_ref().map(|it| it.get_ref().next_page_token.clone());
            match token {
                Ok(token) if !token.is_empty() => list.page_token = token,
                _ => break outcome(answer, |mut it| it.sessions.remove(0).damaged_keys),
            }
        };
        found.insert(name, outcome);
    }
    for (name, selection) in [("ListEvents from 3", after(2)), ("ListEvents from 4", after(3))] {
        let request = ListEventsRequest { key: Some(key("s")), selection, ..Default::default() };
        found.insert(name, outcome(events.list_events(request).await, |_| Vec::new()));
    }
    let get = || GetStateRequest { scope: scope(), ..Default::default() };
    for (name, keys) in [
        ("GetState", vec![]),
        ("GetState of k", vec!["k"]),
        ("GetState of own", vec!["own"]),
        ("GetState of app:app", vec!["app:app"]),
        ("GetState of user:usr", vec!["user:usr"]),
    ] {
        let keys = keys.into_iter().map(str::to_owned).collect();
        let answer = states.get_state(GetStateRequest { keys, ..get() }).await;
        found.insert(name, outcome(answer, |it| it.damaged_keys));
    }
    for (name, of) in [
        ("ListKeyChanges of k2", "k2"),
        ("ListKeyChanges of own", "own"),
        ("ListKeyChanges of app:app", "app:app"),
        ("ListKeyChanges of user:usr", "user:usr"),
    ] {
        let mut request =
            ListKeyChangesRequest { scope: scope(), key: of.into(), ..Default::default() };
        // A page ends before damage, and the next one begins with it.
        let last = loop {
            match states.list_key_changes(request.clone()).await.map(Response::into_inner) {
                Ok(page) if !page.next_page_token.is_empty() => {
                    request.page_token = page.next_page_token;
                }
                last => break last.map(Response::new),
            }
        };
        found.insert(name, outcome(last, |_| Vec::new()));
    }
    for (name, template) in [
        ("RenderTemplate of k", "{k}"),
        ("RenderTemplate of app:app", "{app:app}"),
        ("RenderTemplate of user:usr", "{user:usr}"),
    ] {
        let request = RenderTemplateRequest {
            key: Some(key("s")),
            template: template.into(),
            ..Default::default()
        };
        found.insert(name, outcome(states.render_template(request).await, |_| Vec::new()));
    }
    found.insert("Watch from a snapshot", watch(channel, WatchStart::Snapshot).await);
    found.insert("Watch from the beginning", watch(channel, WatchStart::Beginning).await);
    found.insert("CreateSession", {
        let request = sessiond::proto::v1::CreateSessionRequest {
            app_name: "app".into(),
            user_id: "alice".into(),
            ..Default::default()
        };
        outcome(sessions.create_session(request).await, |it| it.session.unwrap().damaged_keys)
    });
    found.insert("ForkSession", {
        let request = ForkSessionRequest {
            key: Some(key("s")),
            up_to_sequence: Some(5),
            ..Default::default()
        };
        outcome(sessions.fork_session(request).await, |it| it.session.unwrap().damaged_keys)
    });
    for (name, of) in [
        ("increment of own", "own"),
        ("increment of app:app", "app:app"),
        ("increment of user:usr", "user:usr"),
    ] {
        let answer = update(channel, &[of], r#"{"k":1}"#, None).await;
        found.insert(name, outcome(answer, |_| Vec::new()));
    }
    for (name, of) in [("condition on own", "own"), ("condition on app:app", "app:app")] {
        let answer = update(channel, &[], r#"{"k":1}"#, Some(of)).await;
        found.insert(name, outcome(answer, |_| Vec::new()));
    }
    for (name, return_state) in [("AppendEvent", false), ("AppendEvent with state", true)] {
        let event = Some(Event { author: "me".into(), ..Default::default() });
        let request =
            AppendEventRequest { key: Some(key("s")), event, return_state, ..Default::default() };
        let answer = events.append_event(request).await;
        found.insert(name, outcome(answer, |it| it.session.unwrap().damaged_keys));
    }
    found.insert(
        "UpdateState",
        outcome(update(channel, &[], r#"{"k":1}"#, None).await, |it| it.damaged_keys),
    );
    found.insert("RewindSession", {
        let request = RewindSessionRequest {
            key: Some(key("s")),
            to_sequence: Some(4),
            ..Default::default()
        };
        outcome(sessions.rewind_session(request).await, |it| it.session.unwrap().damaged_keys)
    });
    found
}
