//! The past over the wire: a session as of one of its events.

use serde_json::json;
use sessiond::{domain::error::Reason, proto::v1::GetSessionRequest};

use crate::{
    harness::{Service, with_server},
    judge::{detail, faulty, refused},
    make::{append, create, get, get_with_events, plain, rewind, setting_in},
    read::{HasState, instant, sequences},
};

with_server! {
    a_moment_has_its_own_last_sequence_and_events
    what_has_not_happened_yet_is_no_moment
    temporary_keys_are_of_the_present
}

async fn a_moment_has_its_own_last_sequence_and_events(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for seconds in [30, 10, 20] {
        let mut event = plain();
        event.event_time = Some(prost_types::Timestamp { seconds, nanos: 0 });
        service.append_event(append("s1", event)).await.unwrap();
    }
    service.rewind_session(rewind("s1", 1)).await.unwrap();
    for (at, events, last_event_time) in
        [(1, vec![1], 30), (2, vec![1, 2], 10), (3, vec![1, 2, 3], 20)]
    {
        let request = GetSessionRequest { as_of_sequence: Some(at), ..get_with_events("s1") };
        let read = service.get_session(request).await.unwrap();
        assert_eq!(sequences(&read.events), events, "before the marker all are there");
        assert!(read.events.iter().all(|event| !event.rewound));
        let session = read.session.unwrap();
        assert_eq!(session.last_sequence, at);
        assert_eq!(instant(&session.last_event_time), (last_event_time, 0));
    }
    let request = GetSessionRequest { as_of_sequence: Some(4), ..get_with_events("s1") };
    assert_eq!(sequences(&service.get_session(request).await.unwrap().events), [1]);
    let request = GetSessionRequest { as_of_sequence: Some(0), ..get_with_events("s1") };
    let read = service.get_session(request).await.unwrap();
    let session = read.session.unwrap();
    assert_eq!((read.events.len(), session.last_sequence), (0, 0));
    assert_eq!(session.last_event_time, session.create_time);
}

async fn what_has_not_happened_yet_is_no_moment(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    let request = |at| GetSessionRequest { as_of_sequence: Some(at), ..get("s1") };
    service.get_session(request(1)).await.unwrap();
    for beyond in [2, i64::MAX] {
        let result = service.get_session(request(beyond)).await;
        let status = refused(result, Reason::BeyondLastSequence);
        assert_eq!(detail(&status, "last_sequence"), "1");
    }
    let result = service.get_session(request(-1)).await;
    faulty(result, Reason::BadValue, "as_of_sequence");
}

async fn temporary_keys_are_of_the_present(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let event = setting_in("turn", r#"{"a":1,"temp:t":1}"#);
    service.append_event(append("s1", event)).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    let request =
        GetSessionRequest { as_of_sequence: Some(1), invocation_id: "turn".into(), ..get("s1") };
    // They were never stored, so the past shows those that the invocation has now.
    let state = service.get_session(request).await.unwrap().state();
    assert_eq!(state, json!({"a": 1, "temp:t": 1}));
}
