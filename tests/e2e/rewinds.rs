//! Rewinds: own state as it was, hidden events, markers, and rewinds of rewinds.

use sessiond::{
    domain::error::Reason,
    proto::v1::{EventSelection, GetSessionRequest, ListEventsRequest, RewindSessionRequest},
};

use crate::{
    harness::{Service, with_server},
    judge::{detail, faulty, refused},
    make::{
        STRUCT, append, append_all, create, get, get_with_events, key, list_events, plain, rewind,
        setting,
    },
    read::sequences,
};

with_server! {
    hidden_events_show_where_they_are_asked_for
    a_rewind_takes_every_field
    a_rewind_goes_back_only
}

async fn append_states(service: &Service, states: &[&str]) {
    for state in states {
        service.append_event(append("s1", setting(state))).await.unwrap();
    }
}

async fn shown(service: &Service) -> Vec<i64> {
    sequences(&service.get_session(get_with_events("s1")).await.unwrap().events)
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
    // The newest ones count among those that are shown.
    let recent = EventSelection { recent: Some(2), ..Default::default() };
    let read = GetSessionRequest { events: Some(recent), ..get("s1") };
    assert_eq!(sequences(&service.get_session(read).await.unwrap().events), [2, 6]);
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
    assert_eq!((marker.rewind_to_sequence, marker.rewound), (Some(0), true));
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
