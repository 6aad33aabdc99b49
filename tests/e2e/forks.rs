//! Forks: a session that begins with another one's past.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        CreateSessionRequest, Event, ForkOrigin, ForkSessionRequest, Session, session::Expiration,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::{detail, faulty, refused},
    make::{STRUCT, TEXT, append, create, get_with_events, key, plain, setting},
    read::{HasState, sequences},
    sessions::labels,
};

with_server! {
    a_fork_takes_events_state_and_labels
    a_fork_ends_where_it_is_told_to
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
