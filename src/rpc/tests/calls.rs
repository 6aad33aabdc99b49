//! Every call once, as its callers use it.

use super::{append, key, server, set};
use crate::proto::v1::{
    self, AppendEventRequest, AppendEventsRequest, DeleteSessionRequest, EndInvocationRequest,
    Event, EventSelection, ForkSessionRequest, GetSessionRequest, GetStateRequest, JsonForm,
    ListEventsRequest, ListKeyChangesRequest, ListSessionsRequest, RewindSessionRequest, Scope,
    Session, UpdateSessionRequest, UpdateStateRequest, get_state_response, key_change::ValueForm,
    session::StateForm, update_state_response,
};

const TEXT: i32 = JsonForm::Text as i32;

fn user_scope() -> Option<Scope> {
    Some(Scope { app_name: "app".into(), user_id: "user".into(), session_id: String::new() })
}

fn session_scope() -> Option<Scope> {
    user_scope().map(|scope| Scope { session_id: "s".into(), ..scope })
}

fn state(session: Option<Session>) -> String {
    match session.unwrap().state_form {
        Some(StateForm::StateJson(text)) => text,
        other => panic!("no state as text: {other:?}"),
    }
}

#[tokio::test]
async fn a_session_lives() {
    let server = server().await;
    server.create("s", "{\"app:a\":1,\"user:u\":2,\"own\":3,\"temp:t\":4}").await;
    let mut sessions = server.sessions();
    let get = GetSessionRequest { key: Some(key("s")), json_form: TEXT, ..Default::default() };
    let got = sessions.get_session(get.clone()).await.unwrap().into_inner();
    assert_eq!(state(got.session), "{\"app:a\":1,\"user:u\":2,\"own\":3}");

    let update = UpdateSessionRequest {
        key: Some(key("s")),
        session: Some(Session { display_name: "name".into(), ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["display_name".into()] }),
        ..Default::default()
    };
    let updated = sessions.update_session(update).await.unwrap().into_inner().session.unwrap();
    assert_eq!((updated.display_name.as_str(), updated.state_form), ("name", None));

    server.append(&key("s"), "e1", "{\"own\":4}").await;
    server.append(&key("s"), "e2", "{\"own\":5}").await;
    let fork = ForkSessionRequest {
        key: Some(key("s")),
        up_to_sequence: Some(1),
        session_id: "f".into(),
        json_form: TEXT,
        ..Default::default()
    };
    let forked = sessions.fork_session(fork).await.unwrap().into_inner().session.unwrap();
    assert_eq!(forked.forked_from.as_ref().unwrap().sequence, 1);
    assert!(state(Some(forked)).contains("\"own\":4"));

    let rewind = RewindSessionRequest {
        key: Some(key("s")),
        to_sequence: Some(0),
        event_id: "back".into(),
        json_form: TEXT,
        ..Default::default()
    };
    let rewound = sessions.rewind_session(rewind.clone()).await.unwrap().into_inner();
    let marker = rewound.event.unwrap();
    assert_eq!((marker.rewind_to_sequence, marker.author.as_str()), (Some(0), "system"));
    assert!(marker.rewound && !rewound.replayed);
    assert!(state(rewound.session).contains("\"own\":3"));
    assert!(sessions.rewind_session(rewind).await.unwrap().into_inner().replayed);

    let list = ListSessionsRequest {
        app_name: "app".into(),
        page_size: 1,
        include_state: true,
        json_form: TEXT,
        ..Default::default()
    };
    let first = sessions.list_sessions(list.clone()).await.unwrap().into_inner();
    assert_eq!(first.sessions.len(), 1);
    let list = ListSessionsRequest { page_token: first.next_page_token, ..list };
    let second = sessions.list_sessions(list).await.unwrap().into_inner();
    assert_eq!((second.sessions.len(), second.next_page_token.as_str()), (1, ""));

    let delete =
        DeleteSessionRequest { key: Some(key("s")), allow_missing: false, ..Default::default() };
    sessions.delete_session(delete.clone()).await.unwrap();
    assert!(sessions.delete_session(delete.clone()).await.is_err());
    let delete = DeleteSessionRequest { allow_missing: true, ..delete };
    assert!(sessions.delete_session(delete).await.is_ok());
}

#[tokio::test]
async fn events_are_appended_one_by_one_and_in_batches_and_read_back() {
    let server = server().await;
    server.create("s", "{}").await;
    let mut events = server.events();
    let exact = "{\"n\": 9007199254740993, \"x\":1.10}";
    let request = AppendEventRequest { return_state: true, ..append("e1", exact) };
    let appended = events.append_event(request.clone()).await.unwrap().into_inner();
    assert_eq!(state(appended.session), "{\"n\":9007199254740993,\"x\":1.10}");
    assert!(!appended.replayed);
    assert!(events.append_event(request).await.unwrap().into_inner().replayed);

    let batch = AppendEventsRequest {
        key: Some(key("s")),
        events: vec![
            Event { event_id: "e2".into(), state_delta: set("{\"n\":1}"), ..Default::default() },
            Event { event_id: "p".into(), partial: true, ..Default::default() },
            Event { event_id: "e3".into(), ..Default::default() },
        ],
        ..Default::default()
    };
    let appended = events.append_events(batch).await.unwrap().into_inner();
    let sequences: Vec<_> = appended.events.iter().map(|event| event.sequence).collect();
    assert_eq!((sequences, appended.replayed), (vec![2, 0, 3], vec![false; 3]));

    let list =
        ListEventsRequest { key: Some(key("s")), author: "user".into(), ..Default::default() };
    let listed = events.list_events(list).await.unwrap().into_inner();
    assert_eq!(listed.events.len(), 1);
    assert!(listed.events[0].rounded);
    let get = GetSessionRequest {
        key: Some(key("s")),
        events: Some(EventSelection { recent: Some(2), ..Default::default() }),
        as_of_sequence: Some(2),
        ..Default::default()
    };
    let got = server.sessions().get_session(get).await.unwrap().into_inner();
    let ids: Vec<_> = got.events.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(ids, ["e1", "e2"]);
    assert_eq!(got.session.unwrap().last_sequence, 2);
}

#[tokio::test]
async fn state_is_read_changed_and_explained() {
    let server = server().await;
    server.create("s", "{\"own\":1}").await;
    let mut states = server.states();
    let update = UpdateStateRequest {
        scope: user_scope(),
        delta: set("{\"user:k\":{\"a\":[1,2.50]}}"),
        request_id: "r".into(),
        json_form: TEXT,
        ..Default::default()
    };
    let updated = states.update_state(update.clone()).await.unwrap().into_inner();
    let text = "{\"user:k\":{\"a\":[1,2.50]}}".to_owned();
    let expected = update_state_response::StateForm::StateJson(text.clone());
    assert_eq!((updated.state_form, updated.replayed), (Some(expected), false));
    assert!(states.update_state(update).await.unwrap().into_inner().replayed);
    let through_session = UpdateStateRequest {
        scope: session_scope(),
        delta: set("{\"own\":2,\"user:k\":null}"),
        author: "me".into(),
        ..Default::default()
    };
    states.update_state(through_session).await.unwrap();

    let get = GetStateRequest {
        scope: session_scope(),
        keys: vec!["own".into(), "user:k".into(), "none".into()],
        include_versions: true,
        json_form: TEXT,
        ..Default::default()
    };
    let got = states.get_state(get).await.unwrap().into_inner();
    let text = "{\"user:k\":null,\"own\":2}".to_owned();
    assert_eq!(got.state_form, Some(get_state_response::StateForm::StateJson(text)));
    assert_eq!(got.versions, [("user:k".to_owned(), 2), ("own".to_owned(), 1)].into());

    let changes = ListKeyChangesRequest {
        scope: session_scope(),
        key: "user:k".into(),
        json_form: TEXT,
        ..Default::default()
    };
    let listed = states.list_key_changes(changes).await.unwrap().into_inner();
    let [newest, oldest] = &listed.changes[..] else { panic!("{listed:?}") };
    assert_eq!(newest.value_form, Some(ValueForm::ValueJson("null".into())));
    assert_eq!((newest.session.clone(), newest.sequence), (Some(key("s")), 1));
    assert_eq!((newest.author.as_str(), oldest.author.as_str()), ("me", "system"));
    assert_eq!((oldest.version, oldest.session.clone()), (1, None::<v1::SessionKey>));
}

#[tokio::test]
async fn temp_state_lives_until_its_invocation_ends() {
    let server = server().await;
    server.create("s", "{}").await;
    let mut request = append("e1", "{\"temp:t\":1,\"own\":2}");
    if let Some(event) = &mut request.event {
        event.invocation_id = "turn".into();
    }
    let request = AppendEventRequest { return_state: true, ..request };
    let appended = server.events().append_event(request).await.unwrap().into_inner();
    assert_eq!(state(appended.session), "{\"own\":2,\"temp:t\":1}");
    let delta = appended.event.unwrap().state_delta.unwrap().set_form;
    let stored = v1::state_delta::SetForm::SetJson("{\"own\":2}".into());
    assert_eq!(delta, Some(stored));
    let get = GetSessionRequest {
        key: Some(key("s")),
        invocation_id: "turn".into(),
        json_form: TEXT,
        ..Default::default()
    };
    let got = server.sessions().get_session(get.clone()).await.unwrap().into_inner();
    assert_eq!(state(got.session), "{\"own\":2,\"temp:t\":1}");
    let end = EndInvocationRequest { key: Some(key("s")), invocation_id: "turn".into() };
    server.states().end_invocation(end).await.unwrap();
    let got = server.sessions().get_session(get).await.unwrap().into_inner();
    assert_eq!(state(got.session), "{\"own\":2}");
}
