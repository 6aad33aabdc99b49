//! Forks: a session that begins with another one's past.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        CreateSessionRequest, Event, EventSelection, ForkOrigin, ForkSessionRequest,
        GetSessionRequest, GetStateRequest, Session, session::Expiration,
    },
};

use crate::{
    harness::{Service, on_each_store},
    judge::{detail, faulty, refused},
    make::{
        STRUCT, TEXT, append, create, event, get, get_state, get_with_events, key, plain, rewind,
        session_scope, setting,
    },
    past::as_of,
    read::{HasState, ids, sequences},
    sessions::labels,
};

on_each_store! {
    a_fork_takes_events_state_and_labels
    a_fork_ends_where_it_is_told_to
    a_fork_and_its_source_go_on_apart
    a_fork_keeps_rewinds_and_the_past
    a_fork_knows_what_was_appended_before
    a_fork_is_refused_like_a_creation
    a_fork_outlives_its_source
}

fn fork(up_to_sequence: Option<i64>, session_id: &str) -> ForkSessionRequest {
    ForkSessionRequest {
        key: Some(key("s1")),
        up_to_sequence,
        session_id: session_id.into(),
        json_form: TEXT,
        ..Default::default()
    }
}

/// A session with three events, each of which sets a key of each scope.
async fn source(service: &Service) {
    let request = CreateSessionRequest {
        session: Some(Session {
            display_name: "Source".into(),
            labels: labels(&[("team", "billing")]),
            expiration: Some(Expiration::Ttl(prost_types::Duration { seconds: 3600, nanos: 0 })),
            ..Default::default()
        }),
        ..create("s1", r#"{"n":0,"user:u":0,"app:a":0}"#)
    };
    service.create_session(request).await.unwrap();
    for n in 1..=3 {
        let state = json!({"n": n, "user:u": n, "app:a": n}).to_string();
        let event = Event { event_id: format!("e{n}"), ..setting(&state) };
        service.append_event(append("s1", event)).await.unwrap();
    }
}

async fn a_fork_takes_events_state_and_labels(service: &Service) {
    source(service).await;
    let answer = service.fork_session(fork(None, "s2")).await.unwrap();
    let session = answer.session.clone().unwrap();
    assert_eq!(answer.state(), json!({"n": 3, "user:u": 3, "app:a": 3}));
    assert_eq!(session.key, Some(key("s2")));
    assert_eq!(session.forked_from, Some(ForkOrigin { key: Some(key("s1")), sequence: 3 }));
    assert_eq!((session.last_sequence, &session.labels), (3, &labels(&[("team", "billing")])));
    let read = service.get_session(get_with_events("s2")).await.unwrap();
    assert_eq!(read.session, Some(session.clone()));
    let original = service.get_session(get_with_events("s1")).await.unwrap();
    assert_eq!(read.events, original.events, "ids, sequences, times and all");
    let original = original.session.unwrap();
    assert_eq!(session.display_name, "Source");
    assert!(session.expiration.is_some() && session.expiration == original.expiration);

    // An id is made where none is given, and the form is the one asked for.
    let unnamed = ForkSessionRequest { json_form: STRUCT, ..fork(None, "") };
    let unnamed = service.fork_session(unnamed).await.unwrap().session.unwrap();
    let form = unnamed.state_form;
    assert!(matches!(form, Some(sessiond::proto::v1::session::StateForm::State(_))));
    let id = unnamed.key.unwrap().session_id;
    assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 7);
}

async fn a_fork_ends_where_it_is_told_to(service: &Service) {
    source(service).await;
    for up_to in 0..=3 {
        let id = format!("at{up_to}");
        let answer = service.fork_session(fork(Some(up_to), &id)).await.unwrap();
        // Own state as it was then; wider state as it is, for it is shared.
        assert_eq!(answer.state(), json!({"n": up_to, "user:u": 3, "app:a": 3}));
        let read = service.get_session(get_with_events(&id)).await.unwrap();
        assert_eq!(sequences(&read.events), (1..=up_to).collect::<Vec<_>>());
        let session = read.session.unwrap();
        assert_eq!(session.forked_from.unwrap().sequence, up_to);
        let next = service.append_event(append(&id, plain())).await.unwrap();
        assert_eq!(next.event.unwrap().sequence, up_to + 1);
    }
    let status =
        refused(service.fork_session(fork(Some(4), "beyond")).await, Reason::BeyondLastSequence);
    assert_eq!(detail(&status, "last_sequence"), "3");
    let result = service.fork_session(fork(Some(-1), "before")).await;
    faulty(result, Reason::BadValue, "up_to_sequence");
}

async fn a_fork_and_its_source_go_on_apart(service: &Service) {
    source(service).await;
    service.fork_session(fork(Some(2), "s2")).await.unwrap();
    service.append_event(append("s1", setting(r#"{"n":"source"}"#))).await.unwrap();
    service.append_event(append("s2", setting(r#"{"n":"fork","user:u":"fork"}"#))).await.unwrap();
    let source = service.get_session(get_with_events("s1")).await.unwrap();
    let fork = service.get_session(get_with_events("s2")).await.unwrap();
    assert_eq!(source.state(), json!({"n": "source", "user:u": "fork", "app:a": 3}));
    assert_eq!(fork.state(), json!({"n": "fork", "user:u": "fork", "app:a": 3}));
    assert_eq!(
        (sequences(&source.events), sequences(&fork.events)),
        (vec![1, 2, 3, 4], vec![1, 2, 3])
    );
}

async fn a_fork_keeps_rewinds_and_the_past(service: &Service) {
    source(service).await;
    service.rewind_session(rewind("s1", 1)).await.unwrap();
    service.append_event(append("s1", setting(r#"{"n":5}"#))).await.unwrap();
    service.fork_session(fork(None, "s2")).await.unwrap();
    service.fork_session(fork(Some(3), "s3")).await.unwrap();
    let shown =
        async |id| sequences(&service.get_session(get_with_events(id)).await.unwrap().events);
    assert_eq!(shown("s2").await, [1, 5]);
    assert_eq!(shown("s3").await, [1, 2, 3], "it ends before the marker");
    let all = EventSelection { include_rewound: true, ..Default::default() };
    let read = GetSessionRequest { events: Some(all), ..get("s2") };
    assert_eq!(sequences(&service.get_session(read).await.unwrap().events), [1, 2, 3, 4, 5]);
    for at in 0..=5 {
        assert_eq!(as_of(service, "s2", at).await, as_of(service, "s1", at).await);
    }
    let answer = service.rewind_session(rewind("s2", 3)).await.unwrap();
    assert_eq!(answer.state()["n"], 3);
    let versions = async |id| {
        let request = GetStateRequest { include_versions: true, ..get_state(session_scope(id)) };
        service.get_state(request).await.unwrap().versions
    };
    assert_eq!(versions("s3").await["n"], 3);
}

async fn a_fork_knows_what_was_appended_before(service: &Service) {
    source(service).await;
    service.fork_session(fork(Some(2), "s2")).await.unwrap();
    let state = json!({"n": 2, "user:u": 2, "app:a": 2}).to_string();
    let again = Event { event_id: "e2".into(), ..setting(&state) };
    let answer = service.append_event(append("s2", again)).await.unwrap();
    assert!(answer.replayed);
    refused(service.append_event(append("s2", event("e1"))).await, Reason::EventIdReused);
    // What was left behind is not there, and its id is free.
    assert!(!service.append_event(append("s2", event("e3"))).await.unwrap().replayed);
    let read = service.get_session(get_with_events("s2")).await.unwrap();
    assert_eq!(ids(&read.events), ["e1", "e2", "e3"]);
}

async fn a_fork_is_refused_like_a_creation(service: &Service) {
    source(service).await;
    service.create_session(create("s2", "")).await.unwrap();
    refused(service.fork_session(fork(None, "s2")).await, Reason::SessionExists);
    refused(service.fork_session(fork(None, "s1")).await, Reason::SessionExists);
    let lost = ForkSessionRequest { key: Some(key("none")), ..fork(None, "s3") };
    refused(service.fork_session(lost).await, Reason::SessionNotFound);
}

async fn a_fork_outlives_its_source(service: &Service) {
    source(service).await;
    service.fork_session(fork(None, "s2")).await.unwrap();
    let before = service.get_session(get_with_events("s2")).await.unwrap();
    let delete = sessiond::proto::v1::DeleteSessionRequest {
        key: Some(key("s1")),
        allow_missing: false,
        ..Default::default()
    };
    service.delete_session(delete).await.unwrap();
    assert_eq!(service.get_session(get_with_events("s2")).await.unwrap(), before);
    assert_eq!(as_of(service, "s2", 1).await, json!({"n": 1, "user:u": 1, "app:a": 1}));
}
