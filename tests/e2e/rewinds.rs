//! Rewinds: own state as it was, hidden events, markers, and rewinds of rewinds.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        Event, EventSelection, GetSessionRequest, GetStateRequest, ListEventsRequest,
        RewindSessionRequest,
    },
};

use crate::{
    harness::{Service, on_each_store},
    judge::{detail, faulty, refused},
    make::{
        STRUCT, append, append_all, create, event, get, get_state, get_with_events, key,
        list_events, plain, remove, rewind, session_scope, set, setting, update, user_scope,
    },
    past::as_of,
    read::{HasState, ids, removed_by, sequences, set_by},
};

on_each_store! {
    a_rewind_restores_own_state_and_leaves_wider_state
    hidden_events_show_where_they_are_asked_for
    a_rewind_to_nothing_is_the_session_as_created
    a_rewind_can_be_rewound
    what_follows_a_rewind_is_seen
    a_rewind_takes_every_field
    a_rewind_goes_back_only
    a_rewind_to_the_present_hides_nothing_but_itself
    hidden_events_keep_their_ids
}

async fn append_states(service: &Service, states: &[&str]) {
    for state in states {
        service.append_event(append("s1", setting(state))).await.unwrap();
    }
}

async fn shown(service: &Service) -> Vec<i64> {
    sequences(&service.get_session(get_with_events("s1")).await.unwrap().events)
}

async fn state(service: &Service) -> serde_json::Value {
    service.get_session(get("s1")).await.unwrap().state()
}

async fn a_rewind_restores_own_state_and_leaves_wider_state(service: &Service) {
    service.create_session(create("s1", r#"{"a":0,"kept":0,"user:u":0,"app:a":0}"#)).await.unwrap();
    append_states(
        service,
        &[r#"{"a":1}"#, r#"{"a":2,"new":2,"user:u":2,"app:a":2}"#, r#"{"a":3,"kept":0}"#],
    )
    .await;
    let gone = Event { state_delta: Some(remove(&["a", "kept"])), ..plain() };
    service.append_event(append("s1", gone)).await.unwrap();

    let answer = service.rewind_session(rewind("s1", 1)).await.unwrap();
    let wanted = json!({"a": 1, "kept": 0, "user:u": 2, "app:a": 2});
    assert_eq!(answer.state(), wanted);
    assert_eq!(answer.session.as_ref().unwrap().last_sequence, 5);
    let marker = answer.event.unwrap();
    assert_eq!((marker.sequence, marker.rewind_to_sequence, marker.rewound), (5, Some(1), true));
    assert_eq!(&*marker.author, "system");
    assert_eq!(set_by(&marker), json!({"a": 1, "kept": 0}));
    assert_eq!(removed_by(&marker), ["new"]);
    assert_eq!(state(service).await, wanted);
    // The keys that came back did so with the marker.
    let request = GetStateRequest { include_versions: true, ..get_state(session_scope("s1")) };
    let versions = service.get_state(request).await.unwrap().versions;
    assert_eq!((versions["a"], versions["kept"], versions["user:u"]), (5, 5, 2));
}

async fn hidden_events_show_where_they_are_asked_for(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_events(append_all("s1", vec![plain(); 4])).await.unwrap();
    service.rewind_session(rewind("s1", 2)).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    assert_eq!(shown(service).await, [1, 2, 6]);
    assert_eq!(sequences(&service.list_events(list_events("s1")).await.unwrap().events), [1, 2, 6]);

    let all = EventSelection { include_rewound: true, ..Default::default() };
    let read = service.get_session(GetSessionRequest { events: Some(all), ..get("s1") });
    let listed =
        service.list_events(ListEventsRequest { selection: Some(all), ..list_events("s1") });
    for events in [read.await.unwrap().events, listed.await.unwrap().events] {
        assert_eq!(sequences(&events), [1, 2, 3, 4, 5, 6]);
        let hidden: Vec<bool> = events.iter().map(|event| event.rewound).collect();
        assert_eq!(hidden, [false, false, true, true, true, false]);
        let markers: Vec<_> = events.iter().map(|event| event.rewind_to_sequence).collect();
        assert_eq!(markers, [None, None, None, None, Some(2), None]);
    }
    // The newest so many are those that are shown.
    let recent = EventSelection { recent: Some(2), ..Default::default() };
    let read = GetSessionRequest { events: Some(recent), ..get("s1") };
    assert_eq!(sequences(&service.get_session(read).await.unwrap().events), [2, 6]);
}

async fn a_rewind_to_nothing_is_the_session_as_created(service: &Service) {
    service.create_session(create("s1", r#"{"a":0,"b":{"c":[1]}}"#)).await.unwrap();
    append_states(service, &[r#"{"a":1,"x":1}"#, r#"{"b":2}"#]).await;
    let answer = service.rewind_session(rewind("s1", 0)).await.unwrap();
    assert_eq!(answer.state(), json!({"a": 0, "b": {"c": [1]}}));
    assert_eq!(answer.event.unwrap().rewind_to_sequence, Some(0));
    assert_eq!(shown(service).await, [0; 0]);
    // An expectation is by sequence, which stays dense.
    let answer = service.append_event(append("s1", plain())).await.unwrap();
    assert_eq!(answer.event.unwrap().sequence, 4);
    assert_eq!(shown(service).await, [4]);
}

async fn a_rewind_can_be_rewound(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    append_states(service, &[r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]).await;
    service.rewind_session(rewind("s1", 1)).await.unwrap();
    assert_eq!((shown(service).await, state(service).await), (vec![1], json!({"n": 1})));
    // Back to the moment before it: all is there again.
    let answer = service.rewind_session(rewind("s1", 3)).await.unwrap();
    assert_eq!(answer.event.unwrap().sequence, 5);
    assert_eq!((shown(service).await, state(service).await), (vec![1, 2, 3], json!({"n": 3})));
    // And to the first rewind itself, as which only what it had left was seen.
    service.rewind_session(rewind("s1", 4)).await.unwrap();
    assert_eq!((shown(service).await, state(service).await), (vec![1], json!({"n": 1})));
    for (at, n) in
        [(0, json!({})), (1, json!({"n": 1})), (3, json!({"n": 3})), (4, json!({"n": 1}))]
    {
        assert_eq!(as_of(service, "s1", at).await, n);
    }
    assert_eq!(as_of(service, "s1", 5).await, json!({"n": 3}));
}

async fn what_follows_a_rewind_is_seen(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    append_states(service, &[r#"{"n":1}"#, r#"{"n":2}"#]).await;
    service.rewind_session(rewind("s1", 1)).await.unwrap();
    append_states(service, &[r#"{"m":4}"#, r#"{"n":5}"#]).await;
    assert_eq!(
        (shown(service).await, state(service).await),
        (vec![1, 4, 5], json!({"n": 5, "m": 4}))
    );
    service.rewind_session(rewind("s1", 4)).await.unwrap();
    assert_eq!((shown(service).await, state(service).await), (vec![1, 4], json!({"n": 1, "m": 4})));
    // An event that is hidden now is still a moment to go back to.
    service.rewind_session(rewind("s1", 2)).await.unwrap();
    assert_eq!((shown(service).await, state(service).await), (vec![1, 2], json!({"n": 2})));
}

async fn a_rewind_takes_every_field(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    append_states(service, &[r#"{"n":1}"#]).await;
    let request = RewindSessionRequest {
        key: Some(key("s1")),
        to_sequence: Some(0),
        event_id: "marker".into(),
        author: "user".into(),
        precondition: None,
        json_form: STRUCT,
    };
    let answer = service.rewind_session(request).await.unwrap();
    assert!(!answer.replayed);
    let form = &answer.session.as_ref().unwrap().state_form;
    assert!(matches!(form, Some(sessiond::proto::v1::session::StateForm::State(_))));
    let marker = answer.event.unwrap();
    assert_eq!((&*marker.event_id, &*marker.author), ("marker", "user"));
    assert!(marker.commit_time.is_some() && marker.event_time == marker.commit_time);
    let unnamed = service.rewind_session(rewind("s1", 0)).await.unwrap().event.unwrap();
    assert_eq!(uuid::Uuid::parse_str(&unnamed.event_id).unwrap().get_version_num(), 7);
}

async fn a_rewind_goes_back_only(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    append_states(service, &[r#"{"n":1}"#]).await;
    let status = refused(service.rewind_session(rewind("s1", 2)).await, Reason::BeyondLastSequence);
    assert_eq!(detail(&status, "last_sequence"), "1");
    let result = service.rewind_session(rewind("s1", -1)).await;
    faulty(result, Reason::BadValue, "to_sequence");
    let unset = RewindSessionRequest { to_sequence: None, ..rewind("s1", 0) };
    faulty(service.rewind_session(unset).await, Reason::MissingField, "to_sequence");
    refused(service.rewind_session(rewind("none", 0)).await, Reason::SessionNotFound);
    assert_eq!(shown(service).await, [1]);
}

async fn a_rewind_to_the_present_hides_nothing_but_itself(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    append_states(service, &[r#"{"n":1}"#]).await;
    let answer = service.rewind_session(rewind("s1", 1)).await.unwrap();
    let marker = answer.event.unwrap();
    assert_eq!((set_by(&marker), removed_by(&marker)), (json!(null), vec![]));
    assert_eq!((shown(service).await, state(service).await), (vec![1], json!({"n": 1})));
    // Wider state is not looked at, however often it changed.
    service.update_state(update(user_scope(), set(r#"{"user:u":1}"#))).await.unwrap();
    let answer = service.rewind_session(rewind("s1", 1)).await.unwrap();
    assert_eq!(answer.state(), json!({"n": 1, "user:u": 1}));
}

async fn hidden_events_keep_their_ids(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_event(append("s1", event("e1"))).await.unwrap();
    service.rewind_session(rewind("s1", 0)).await.unwrap();
    let answer = service.append_event(append("s1", event("e1"))).await.unwrap();
    assert!(answer.replayed, "the id is taken for as long as the session lives");
    let stored = answer.event.unwrap();
    assert_eq!((stored.sequence, stored.rewound), (1, true));
    let other = setting(r#"{"n":1}"#);
    let other = Event { event_id: "e1".into(), ..other };
    refused(service.append_event(append("s1", other)).await, Reason::EventIdReused);
    assert_eq!(ids(&service.get_session(get_with_events("s1")).await.unwrap().events), [""; 0]);
}
