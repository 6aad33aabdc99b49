//! The life of sessions: every field of their creation, reading, changing and deletion.

use std::collections::HashMap;

use prost_types::{Duration, FieldMask, Timestamp};
use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        CreateSessionRequest, CreateSessionResponse, GetSessionRequest, Session,
        UpdateSessionRequest,
        create_session_request::StateForm,
        session::{self, Expiration},
    },
};

use crate::{
    harness::{Service, with_server},
    judge::refused,
    make::{
        STRUCT, TEXT, USER, append, create, get, get_with_events, key, plain, setting, structure,
    },
    read::{HasState, instant, sequences, state_text},
};

with_server! {
    creation_takes_every_field
    creation_makes_an_id_where_none_is_given
    creation_is_refused_or_answered_where_the_address_is_taken
    a_session_tells_its_times
    a_read_takes_every_field
    an_update_changes_what_its_mask_names
}

pub fn labels(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

async fn creation_takes_every_field(service: &Service) {
    let expire_time = Timestamp { seconds: 4_000_000_000, nanos: 999_999_999 };
    let request = CreateSessionRequest {
        app_name: "my_app".into(),
        user_id: USER.into(),
        session_id: "s1".into(),
        session: Some(Session {
            // What is not read is ignored, whatever it says.
            key: Some(key("another")),
            last_sequence: 7,
            display_name: "Bills of May".into(),
            labels: labels(&[("team", "billing"), ("empty", "")]),
            expiration: Some(Expiration::ExpireTime(expire_time)),
            state_form: Some(session::StateForm::StateJson("{\"ignored\":1}".into())),
            ..Default::default()
        }),
        state_form: Some(StateForm::State(structure(r#"{"a":1,"b":[null,true,"x",1.5,{}]}"#))),
        allow_existing: false,
        json_form: TEXT,
        include_versions: true,
    };
    let CreateSessionResponse { session, created, dropped_temp_keys } =
        service.create_session(request).await.unwrap();
    assert!(dropped_temp_keys.is_empty(), "{dropped_temp_keys:?}");
    let session = session.unwrap();
    assert!(created);
    assert_eq!(session.key, Some(key("s1")));
    assert_eq!(session.display_name, "Bills of May");
    assert_eq!(session.labels, labels(&[("team", "billing"), ("empty", "")]));
    assert_eq!(session.expiration, Some(Expiration::ExpireTime(expire_time)));
    assert_eq!((session.last_sequence, session.forked_from.clone()), (0, None));
    assert_eq!(session.state(), json!({"a": 1, "b": [null, true, "x", 1.5, {}]}));
    assert!(state_text(&session).contains("1") && !session.state_rounded);
    // As created, it is read; the other form says the same.
    assert_eq!(session.versions, [("a".to_owned(), 0), ("b".to_owned(), 0)].into());
    let with_versions = GetSessionRequest { include_versions: true, ..get("s1") };
    let read = service.get_session(with_versions).await.unwrap().session;
    assert_eq!(read, Some(session.clone()));
    let request = GetSessionRequest { json_form: STRUCT, ..get("s1") };
    let read = service.get_session(request).await.unwrap().session.unwrap();
    assert!(matches!(read.state_form, Some(session::StateForm::State(_))));
    assert_eq!(read.state(), session.state());
    // No form at all is Struct.
    let request = GetSessionRequest { json_form: 0, ..get("s1") };
    assert_eq!(service.get_session(request).await.unwrap().session, Some(read));
}

async fn creation_makes_an_id_where_none_is_given(service: &Service) {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let created = service.create_session(create("", "")).await.unwrap();
        let session = created.session.unwrap();
        assert_eq!(session.state(), json!({}));
        ids.push(session.key.unwrap().session_id);
    }
    for id in &ids {
        assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 7);
        service.get_session(get(id)).await.unwrap();
    }
    assert!(ids[0] < ids[1], "ids sort by time");
}

async fn creation_is_refused_or_answered_where_the_address_is_taken(service: &Service) {
    let first = service.create_session(create("s1", r#"{"a":1}"#)).await.unwrap().session;
    let again = create("s1", r#"{"a":2,"b":2,"app:c":2,"user:d":2}"#);
    refused(service.create_session(again.clone()).await, Reason::SessionExists);

    let allowed = CreateSessionRequest {
        session: Some(Session { display_name: "New".into(), ..Default::default() }),
        allow_existing: true,
        ..again
    };
    let found = service.create_session(allowed.clone()).await.unwrap();
    assert!(!found.created);
    assert_eq!(found.session, first, "what is there is answered and nothing is changed");
    assert_eq!(service.get_session(get("s1")).await.unwrap().session, first);
    // A session that does not exist is created.
    let created = service
        .create_session(CreateSessionRequest { session_id: "s2".into(), ..allowed })
        .await
        .unwrap();
    assert!(created.created);
    assert_eq!(created.state(), json!({"a": 2, "b": 2, "app:c": 2, "user:d": 2}));
}

async fn a_session_tells_its_times(service: &Service) {
    let created = service.create_session(create("s1", "")).await.unwrap().session.unwrap();
    let birth = instant(&created.create_time);
    assert_eq!(instant(&created.update_time), birth);
    assert_eq!(instant(&created.last_event_time), birth);

    let answer = service.append_event(append("s1", plain())).await.unwrap();
    let (session, stored) = (answer.session.unwrap(), answer.event.unwrap());
    assert_eq!(instant(&session.create_time), birth);
    assert_eq!(session.update_time, stored.commit_time);
    assert_eq!(stored.event_time, stored.commit_time, "without a client's clock, the server's");
    assert_eq!(session.last_event_time, stored.event_time);
    assert!(instant(&stored.commit_time) >= birth);

    // Clients decide the time of their event, so it may go back; the server's own never does.
    let mut early = plain();
    early.event_time = Some(Timestamp { seconds: -62_135_596_800, nanos: 0 });
    let answer = service.append_event(append("s1", early)).await.unwrap();
    let session = answer.session.unwrap();
    assert_eq!(instant(&session.last_event_time), (-62_135_596_800, 0));
    assert!(instant(&session.update_time) >= instant(&stored.commit_time));
    assert_eq!(service.get_session(get("s1")).await.unwrap().session, Some(session));
}

async fn a_read_takes_every_field(service: &Service) {
    service.create_session(create("s1", r#"{"a":0}"#)).await.unwrap();
    for at in 1..=5 {
        let mut event = setting(&json!({"a": at}).to_string());
        event.event_time = Some(Timestamp { seconds: 100 - at, nanos: 0 });
        service.append_event(append("s1", event)).await.unwrap();
    }
    let none = service.get_session(get("s1")).await.unwrap();
    assert!(none.events.is_empty() && none.next_page_token.is_empty());
    let all = service.get_session(get_with_events("s1")).await.unwrap();
    assert_eq!(sequences(&all.events), [1, 2, 3, 4, 5]);

    let select = async |change: fn(&mut sessiond::proto::v1::EventSelection)| {
        let mut request = get_with_events("s1");
        change(request.events.as_mut().unwrap());
        sequences(&service.get_session(request).await.unwrap().events)
    };
    assert_eq!(select(|it| it.recent = Some(2)).await, [4, 5]);
    assert_eq!(select(|it| it.recent = Some(0)).await, [0; 0]);
    assert_eq!(select(|it| it.recent = Some(9)).await, [1, 2, 3, 4, 5]);
    assert_eq!(select(|it| it.after_sequence = 3).await, [4, 5]);
    assert_eq!(select(|it| it.after_sequence = 9).await, [0; 0]);
    // At or after; the client's clocks go backwards here.
    let time = |seconds| Some(Timestamp { seconds, nanos: 0 });
    assert_eq!(
        select(|it| it.after_time = Some(Timestamp { seconds: 97, nanos: 0 })).await,
        [1, 2, 3]
    );
    assert_eq!(
        select(|it| it.after_time = Some(Timestamp { seconds: 97, nanos: 1 })).await,
        [1, 2]
    );
    // Of those that pass the other filters, the newest.
    let both = select(|it| {
        it.after_time = Some(Timestamp { seconds: 97, nanos: 0 });
        it.after_sequence = 1;
        it.recent = Some(1);
    });
    assert_eq!(both.await, [3]);
    let mut past = get_with_events("s1");
    past.as_of_sequence = Some(3);
    past.events.as_mut().unwrap().recent = Some(2);
    let past = service.get_session(past).await.unwrap();
    assert_eq!((past.state(), sequences(&past.events)), (json!({"a": 3}), vec![2, 3]));
    let session = past.session.unwrap();
    assert_eq!((session.last_sequence, session.last_event_time), (3, time(97)));

    let bare = GetSessionRequest { without_state: true, ..get_with_events("s1") };
    let bare = service.get_session(bare).await.unwrap();
    assert_eq!(bare.state_if_any(), None);
    assert_eq!(bare.events, all.events);
}

async fn an_update_changes_what_its_mask_names(service: &Service) {
    let created = service.create_session(create("s1", r#"{"a":1}"#)).await.unwrap().session;
    let change = async |paths: &[&str], session: Session| {
        let update_mask =
            Some(FieldMask { paths: paths.iter().map(|&path| path.into()).collect() });
        let request = UpdateSessionRequest {
            key: Some(key("s1")),
            session: Some(session),
            update_mask,
            ..Default::default()
        };
        let answer = service.update_session(request).await.unwrap().session.unwrap();
        assert_eq!(answer.state_form, None, "the answer has no state");
        let read = GetSessionRequest { without_state: true, ..get("s1") };
        assert_eq!(service.get_session(read).await.unwrap().session, Some(answer.clone()));
        answer
    };
    let new = Session {
        display_name: "Name".into(),
        labels: labels(&[("a", "1"), ("b", "2")]),
        expiration: Some(Expiration::Ttl(Duration { seconds: 3600, nanos: 500_000_000 })),
        ..Default::default()
    };
    let named = change(&["display_name"], new.clone()).await;
    assert_eq!((&*named.display_name, named.labels.len(), named.expiration), ("Name", 0, None));
    assert!(instant(&named.update_time) >= instant(&created.unwrap().update_time));

    let all = change(&["labels", "ttl"], new.clone()).await;
    assert_eq!((&*all.display_name, &all.labels), ("Name", &new.labels));
    let Some(Expiration::ExpireTime(expires)) = all.expiration else {
        panic!("always absolute in an answer: {:?}", all.expiration);
    };
    let update = instant(&all.update_time);
    let span = i128::from(expires.seconds - update.0) * 1_000_000_000
        + i128::from(expires.nanos - update.1);
    assert_eq!(span, 3_600_500_000_000, "from now");

    // An absolute time, beside an unmasked name; then nothing any more.
    let absolute = Expiration::ExpireTime(Timestamp { seconds: 4_000_000_000, nanos: 1 });
    let mut only = Session { display_name: "Not this".into(), ..Default::default() };
    only.expiration = Some(absolute);
    let later = change(&["expire_time"], only).await;
    assert_eq!((&*later.display_name, later.expiration), ("Name", Some(absolute)));
    let cleared = change(&["expire_time", "labels", "display_name"], Session::default()).await;
    assert_eq!((&*cleared.display_name, cleared.labels.len(), cleared.expiration), ("", 0, None));

    // State and log are as they were.
    let read = service.get_session(get_with_events("s1")).await.unwrap();
    assert_eq!((read.state(), read.events.len()), (json!({"a": 1}), 0));
    assert_eq!(read.session.unwrap().last_event_time, cleared.create_time);
}
