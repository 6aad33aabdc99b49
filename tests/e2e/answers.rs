//! The size of single answers: what does not fit is refused by a read, in words that tell what to do, and never fails a write.
//! (The harness measures each answer of every test, and the generated client refuses larger ones by itself.)

use serde_json::{Value, json};
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, Event, GetSessionRequest, GetStateRequest,
        ListEventsRequest, ListSessionsRequest, Scope, UpdateStateRequest, WatchRequest,
        WatchStart, event::BodyForm, session::StateForm, update_state_response,
        watch_response::Kind,
    },
};

use crate::{
    harness::{Service, on_each_store},
    judge::refused,
    make::{
        APP, STRUCT, TEXT, app_scope, append, append_all, create, event, get, get_state,
        get_with_events, list_append, list_events, operating, plain, render, saying, session_scope,
        set, setting, update, user_scope,
    },
    pages::{KIB, all_events, create_full, large, zeros},
    read::{HasState, body_text, sequences},
    watching::{Watching, watch},
};

on_each_store! {
    a_single_item_that_does_not_fit_is_refused_or_comes_as_text
    a_write_leaves_out_what_does_not_fit
    a_batch_is_answered_whatever_it_becomes
    state_whose_text_is_too_large_is_refused_to_readers_alone
    a_rendered_template_has_its_bound
}

async fn a_single_item_that_does_not_fit_is_refused_or_comes_as_text(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let body = zeros(1000 * KIB);
    let request = AppendEventRequest { json_form: STRUCT, ..append("s1", saying(&body)) };
    let answer = service.append_event(request).await.unwrap();
    assert_eq!(body_text(&answer.event.unwrap()), body, "a write answers with text instead");
    let request = ListEventsRequest { json_form: STRUCT, ..list_events("s1") };
    refused(service.list_events(request).await, Reason::AnswerTooLarge);
    let (events, _) = all_events(service, list_events("s1")).await;
    assert_eq!(body_text(&events[0]), body);
    let request =
        WatchRequest { json_form: STRUCT, ..watch(session_scope("s1"), WatchStart::Beginning) };
    let mut watching = Watching::open(service, request).await;
    assert_eq!(body_text(&watching.event().await), body);

    // State: four values that are five times as large as a Struct.
    for at in 0..4 {
        let value = zeros(250 * KIB);
        let delta = set(&format!("{{\"k{at}\":{value}}}"));
        let request =
            UpdateStateRequest { json_form: STRUCT, ..update(session_scope("s1"), delta) };
        let form = service.update_state(request).await.unwrap().state_form;
        let as_text = matches!(form, Some(update_state_response::StateForm::StateJson(_)));
        assert_eq!(as_text, at > 1, "as text once it does not fit");
    }
    let request = GetSessionRequest { json_form: STRUCT, ..get("s1") };
    refused(service.get_session(request).await, Reason::AnswerTooLarge);
    let request = GetStateRequest { json_form: STRUCT, ..get_state(session_scope("s1")) };
    refused(service.get_state(request.clone()).await, Reason::AnswerTooLarge);
    let some = GetStateRequest { keys: vec!["k1".into()], ..request };
    service.get_state(some).await.unwrap();
    let list = ListSessionsRequest {
        app_name: APP.into(),
        include_state: true,
        json_form: STRUCT,
        ..Default::default()
    };
    refused(service.list_sessions(list).await, Reason::AnswerTooLarge);
    let request = AppendEventRequest { json_form: STRUCT, ..append("s1", plain()) };
    let session = service.append_event(request).await.unwrap().session.unwrap();
    assert!(matches!(session.state_form, Some(StateForm::StateJson(_))));
    let request =
        WatchRequest { json_form: STRUCT, ..watch(session_scope("s1"), WatchStart::Snapshot) };
    let mut watching = Watching::open(service, request).await;
    let Kind::Snapshot(snapshot) = watching.next().await else { panic!() };
    assert_eq!(snapshot.state().as_object().unwrap().len(), 4);
}

async fn a_write_leaves_out_what_does_not_fit(service: &Service) {
    create_full(service, "s1").await;
    // Body and delta of nearly a mebibyte each beside three mebibytes of state.
    let event = Event {
        body_form: Some(BodyForm::BodyJson(zeros(1000 * KIB))),
        ..setting(&format!("{{\"k0\":{0},\"k1\":{0},\"k2\":{0}}}", large(250 * KIB)))
    };
    for json_form in [TEXT, STRUCT] {
        let request = AppendEventRequest { json_form, ..append("s1", event.clone()) };
        let answer = service.append_event(request).await.unwrap();
        let stored = answer.event.unwrap();
        assert_eq!(body_text(&stored), zeros(1000 * KIB), "the event is there");
        assert_eq!(answer.session.unwrap().state_form, None, "and the state is not");
    }
    let read = service.get_session(get("s1")).await.unwrap();
    assert_eq!(read.session.unwrap().last_sequence, 14);
}

async fn a_batch_is_answered_whatever_it_becomes(service: &Service) {
    // Nearly three mebibytes of bodies that would be fifteen as Structs.
    service.create_session(create("s1", "")).await.unwrap();
    let events = (0..100).map(|_| saying(&zeros(29 * KIB))).collect();
    let request = AppendEventsRequest { json_form: STRUCT, ..append_all("s1", events) };
    let answer = service.append_events(request).await.unwrap();
    assert_eq!(sequences(&answer.events), (1..=100).collect::<Vec<_>>());

    // Long names on all thousand: the request is just below its limit, so the answer, which has times and numbers as well, is not.
    service.create_session(create("s2", "")).await.unwrap();
    let body = format!("{{\"k\":{}}}", large(2630));
    let events: Vec<Event> = (0..1000)
        .map(|at| Event {
            event_id: format!("{at:0128}"),
            invocation_id: "i".repeat(128),
            author: "a".repeat(256),
            branch: "b".repeat(1024),
            ..saying(&body)
        })
        .collect();
    let request = append_all("s2", events);
    let bytes = prost::Message::encoded_len(&request);
    assert!((4090 * KIB..4096 * KIB).contains(&bytes), "{bytes}");
    let answer = service.append_events(request).await.unwrap();
    assert_eq!(answer.events.len(), 1000);
    assert_eq!(answer.session.unwrap().last_sequence, 1000);
    assert_eq!(answer.events[999].event_id, format!("{:0128}", 999));
    let request = ListEventsRequest { page_size: 1000, ..list_events("s2") };
    let (stored, pages) = all_events(service, request).await;
    assert!(pages.len() > 1 && stored.iter().all(|event| body_text(event) == body));

    // Small requests that resolve to much.
    let state = format!("{{\"k\":[{}]}}", large(250 * KIB));
    service.create_session(create("s3", &state)).await.unwrap();
    let events = (0..12).map(|_| operating(list_append("k", "[1]", 0))).collect();
    let answer = service.append_events(append_all("s3", events)).await.unwrap();
    assert_eq!(answer.events.len(), 12);
}

/// Fills a scope: first with keys so small that the punctuation around them outweighs them, then with large values.
async fn fill(service: &Service, prefix: &str, scope: Scope, small: usize) {
    let members: Vec<_> = (0..small).map(|at| format!("\"{prefix}{at:04x}\":0")).collect();
    let delta = set(&format!("{{{}}}", members.join(",")));
    service.update_state(update(scope.clone(), delta)).await.unwrap();
    let mut room = KIB * KIB - 5 * small;
    while room > 100 {
        let bytes = room.min(256 * KIB);
        let delta = set(&format!("{{\"{prefix}large{room}\":{}}}", large(bytes - 50)));
        service.update_state(update(scope.clone(), delta)).await.unwrap();
        room -= bytes;
    }
}

/// Reading all of such state at once is refused, in words that tell what to do; writing never is.
async fn state_whose_text_is_too_large_is_refused_to_readers_alone(service: &Service) {
    service.create_session(create("s1", r#"{"own":1}"#)).await.unwrap();
    fill(service, "app:", app_scope(), 65_000).await;
    fill(service, "user:", user_scope(), 65_000).await;
    let user = get_state(user_scope());
    let count = service.get_state(user.clone()).await.unwrap().state().as_object().unwrap().len();
    assert!(count > 130_000, "{count} keys fit");
    let with_versions = GetStateRequest { include_versions: true, ..user };
    refused(service.get_state(with_versions).await, Reason::AnswerTooLarge);

    fill(service, "", session_scope("s1"), 1).await;
    let answer = service.update_state(update(session_scope("s1"), set("{}"))).await.unwrap();
    assert_eq!(answer.state_form, None, "left out where it does not fit");
    let answer = service.append_event(append("s1", event("e1"))).await.unwrap();
    assert_eq!(answer.session.unwrap().state_form, None);
    refused(service.get_state(get_state(session_scope("s1"))).await, Reason::AnswerTooLarge);
    refused(service.get_session(get("s1")).await, Reason::AnswerTooLarge);
    let some = GetStateRequest {
        keys: vec!["own".into(), "app:00ff".into(), "user:0000".into()],
        ..get_state(session_scope("s1"))
    };
    let some = service.get_state(some).await.unwrap().state();
    assert_eq!(some, json!({"own": 1, "app:00ff": 0, "user:0000": 0}));
    let read = GetSessionRequest { without_state: true, ..get_with_events("s1") };
    assert!(!service.get_session(read).await.unwrap().events.is_empty());

    // A watch that begins with the next change goes on; one that has to begin with all of it is told why it cannot.
    let mut watching = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    watching.caught_up().await;
    let request = watch(session_scope("s1"), WatchStart::Snapshot);
    let end = match Watching::try_open(service, request).await {
        Ok(mut watching) => watching.ends().await,
        Err(status) => Err(status),
    };
    refused(end, Reason::AnswerTooLarge);
}

async fn a_rendered_template_has_its_bound(service: &Service) {
    let state = format!("{{\"k\":{}}}", large(200 * KIB));
    service.create_session(create("s1", &state)).await.unwrap();
    let text = service.render_template(render("s1", &"{k}".repeat(20))).await.unwrap().text;
    assert_eq!(text.len(), 20 * (200 * KIB - 2));
    let result = service.render_template(render("s1", &"{k}".repeat(21))).await;
    refused(result, Reason::AnswerTooLarge);
    let Value::Object(members) = service.get_session(get("s1")).await.unwrap().state() else {
        panic!()
    };
    assert_eq!(members.len(), 1);
}
