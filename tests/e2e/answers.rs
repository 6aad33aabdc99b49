//! The size of answers: every one fits into what a client receives, pages are complete by their tokens, and no write fails for it.
//! (The harness measures each answer of every test, and the generated client refuses larger ones by itself.)

use serde_json::{Value, json};
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, CreateSessionRequest, Event, EventSelection,
        GetSessionRequest, GetStateRequest, ListEventsRequest, ListKeyChangesRequest,
        ListSessionsRequest, Session, UpdateStateRequest, WatchRequest, WatchStart,
        event::BodyForm, session::StateForm, update_state_response, watch_response::Kind,
    },
};
use tokio::task::JoinSet;

use crate::{
    harness::{Service, on_each_store, owning_each_store},
    judge::refused,
    make::{
        APP, STRUCT, TEXT, app_scope, append, append_all, create, event, get, get_state,
        get_with_events, list_append, list_events, operating, plain, render, saying, session_scope,
        set, setting, update, user_scope,
    },
    read::{HasState, body_text, ids, sequences},
    watching::{Watching, watch},
};

on_each_store! {
    pages_of_large_events_are_cut_and_complete
    the_events_beside_a_session_go_on_in_a_list_of_the_same_moment
    events_take_what_the_state_leaves
    a_single_item_that_does_not_fit_is_refused_or_comes_as_text
    pages_of_sessions_are_cut_and_complete
    pages_of_changes_are_cut_and_complete
    a_write_leaves_out_what_does_not_fit
    a_batch_is_answered_whatever_it_becomes
    state_of_very_many_keys_is_answered_or_refused
    a_rendered_template_has_its_bound
}

owning_each_store! { pages_of_much_labelled_sessions_are_cut_and_complete }

const KIB: usize = 1024;

/// A body that takes five times as much as a Struct as it does as text.
fn zeros(bytes: usize) -> String {
    format!("{{\"zeros\":[0{}]}}", ",0".repeat((bytes - 13) / 2))
}

/// A value of so many bytes.
fn large(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

async fn append_bodies(service: &Service, id: &str, bodies: &[String]) {
    for (at, body) in bodies.iter().enumerate() {
        let event = Event { event_id: format!("e{at:03}"), ..saying(body) };
        let request = AppendEventRequest { return_state: false, ..append(id, event) };
        service.append_event(request).await.unwrap();
    }
}

/// All pages of a list; each but the last is full, but for the item that did not fit.
async fn all_events(service: &Service, mut request: ListEventsRequest) -> (Vec<Event>, usize) {
    let (mut events, mut pages) = (Vec::new(), 0);
    loop {
        let page = service.list_events(request.clone()).await.unwrap();
        assert!(!page.events.is_empty());
        pages += 1;
        events.extend(page.events);
        if page.next_page_token.is_empty() {
            return (events, pages);
        }
        request.page_token = page.next_page_token;
    }
}

async fn pages_of_large_events_are_cut_and_complete(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let bodies: Vec<String> =
        (0..12).map(|at| zeros([700 * KIB, 10 * KIB, 300 * KIB][at % 3])).collect();
    append_bodies(service, "s1", &bodies).await;
    let wanted: Vec<String> = (0..12).map(|at| format!("e{at:03}")).collect();
    for (json_form, least) in [(TEXT, 2), (STRUCT, 5)] {
        for descending in [false, true] {
            let request =
                ListEventsRequest { page_size: 1000, json_form, descending, ..list_events("s1") };
            let (mut events, pages) = all_events(service, request).await;
            if descending {
                events.reverse();
            }
            assert_eq!(ids(&events), wanted);
            assert!(pages >= least, "{pages} pages");
            if json_form == TEXT {
                assert!(events.iter().zip(&bodies).all(|(event, body)| body_text(event) == body));
                assert_eq!(pages, 2, "no page is cut that had room");
            }
        }
    }
}

async fn the_events_beside_a_session_go_on_in_a_list_of_the_same_moment(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let bodies: Vec<String> = (0..9).map(|_| zeros(900 * KIB)).collect();
    append_bodies(service, "s1", &bodies).await;
    for include_rewound in [false, true] {
        let selection = EventSelection { include_rewound, after_sequence: 1, ..Default::default() };
        let request = GetSessionRequest { events: Some(selection), ..get("s1") };
        let read = service.get_session(request).await.unwrap();
        let last_sequence = read.session.unwrap().last_sequence;
        let mut events = read.events;
        let mut page_token = read.next_page_token;
        assert!(!events.is_empty() && !page_token.is_empty());
        while !page_token.is_empty() {
            // Meanwhile others append, and rewind what is being read.
            service.append_event(append("s1", plain())).await.unwrap();
            service.rewind_session(crate::make::rewind("s1", 1)).await.unwrap();
            let request = ListEventsRequest { page_token, page_size: 2, ..list_events("s1") };
            let page = service.list_events(request).await.unwrap();
            events.extend(page.events);
            page_token = page.next_page_token;
        }
        if !include_rewound {
            assert_eq!(sequences(&events), (2..=9).collect::<Vec<_>>());
            assert!(events.iter().all(|event| !event.rewound), "as it was at that moment");
        }
        assert_eq!(events.last().unwrap().sequence, last_sequence);
        let dense = events.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence);
        assert!(dense, "{:?}", sequences(&events));
        let moment = GetSessionRequest {
            events: Some(EventSelection { recent: Some(1), include_rewound, ..Default::default() }),
            as_of_sequence: Some(last_sequence),
            ..get("s1")
        };
        let moment = service.get_session(moment).await.unwrap().events;
        assert_eq!(moment.last(), events.last());
    }
}

/// A session that sees three scopes, each as full as it may be.
async fn create_full(service: &Service, id: &str) {
    service.create_session(create(id, "")).await.unwrap();
    for prefix in ["app:", "user:", ""] {
        for at in 0..4 {
            let key = format!("{prefix}k{at}");
            let value = large(256 * KIB - 2);
            let delta = set(&format!("{{\"{key}\":{value}}}"));
            service.update_state(update(session_scope(id), delta)).await.unwrap();
        }
    }
}

async fn events_take_what_the_state_leaves(service: &Service) {
    create_full(service, "s1").await;
    append_bodies(service, "s1", &[zeros(900 * KIB), zeros(900 * KIB)]).await;
    let selection = EventSelection { recent: Some(2), ..Default::default() };
    let request = GetSessionRequest { events: Some(selection), ..get("s1") };
    let read = service.get_session(request).await.unwrap();
    assert_eq!(read.state().as_object().unwrap().len(), 12);
    assert_eq!(ids(&read.events), ["e000"], "one fits beside three mebibytes");
    let request = ListEventsRequest { page_token: read.next_page_token, ..list_events("s1") };
    let (rest, _) = all_events(service, request).await;
    assert_eq!(ids(&rest), ["e001"]);

    // None may fit, and then all are in the list.
    append_bodies(service, "s2", &[]).await;
    let state = format!("{{\"k\":{}}}", large(200 * KIB));
    service.create_session(create("s2", &state)).await.unwrap();
    append_bodies(service, "s2", &[zeros(1000 * KIB), zeros(1000 * KIB)]).await;
    let read = service.get_session(get_with_events("s2")).await.unwrap();
    assert_eq!((read.events.len(), read.next_page_token.is_empty()), (0, false));
    let request = ListEventsRequest { page_token: read.next_page_token, ..list_events("s2") };
    assert_eq!(sequences(&all_events(service, request).await.0), [1, 2]);
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
        assert_eq!(as_text, at > 2, "as text once it does not fit");
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

async fn pages_of_sessions_are_cut_and_complete(service: &Service) {
    for at in 0..8 {
        let state = format!("{{\"k\":{0},\"l\":{0},\"m\":{0}}}", large(250 * KIB));
        service.create_session(create(&format!("s{at}"), &state)).await.unwrap();
    }
    for json_form in [TEXT, STRUCT] {
        let mut request = ListSessionsRequest {
            app_name: APP.into(),
            include_state: true,
            page_size: 1000,
            json_form,
            ..Default::default()
        };
        let (mut found, mut pages) = (0, 0);
        loop {
            let page = service.list_sessions(request.clone()).await.unwrap();
            assert!(page.sessions.iter().all(|session| session.state()["m"].is_string()));
            (found, pages) = (found + page.sessions.len(), pages + 1);
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        assert_eq!((found, pages), (8, 2));
    }
}

/// Labels alone can fill an answer.
async fn pages_of_much_labelled_sessions_are_cut_and_complete(service: Service) {
    const SESSIONS: usize = 600;
    let service = std::sync::Arc::new(service);
    let labels: Vec<(String, String)> =
        (0..64).map(|at| (format!("{at:063}"), "v".repeat(63))).collect();
    let mut tasks = JoinSet::new();
    for task in 0..20 {
        let (service, labels) = (std::sync::Arc::clone(&service), labels.clone());
        tasks.spawn(async move {
            for at in 0..SESSIONS / 20 {
                let request = CreateSessionRequest {
                    session: Some(Session {
                        labels: labels.iter().cloned().collect(),
                        ..Default::default()
                    }),
                    ..create(&format!("s{task}-{at}"), "")
                };
                service.create_session(request).await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let mut request =
        ListSessionsRequest { app_name: APP.into(), page_size: 1000, ..Default::default() };
    let mut sizes = Vec::new();
    loop {
        let page = service.list_sessions(request.clone()).await.unwrap();
        sizes.push(page.sessions.len());
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, SESSIONS));
    std::sync::Arc::into_inner(service).unwrap().stop().await;
}

async fn pages_of_changes_are_cut_and_complete(service: &Service) {
    for at in 0..20 {
        let delta = set(&format!("{{\"user:k\":[{at},{}]}}", large(250 * KIB)));
        service.update_state(update(user_scope(), delta)).await.unwrap();
    }
    for json_form in [TEXT, STRUCT] {
        let mut request = ListKeyChangesRequest {
            scope: Some(user_scope()),
            key: "user:k".into(),
            page_size: 1000,
            json_form,
            ..Default::default()
        };
        let mut versions = Vec::new();
        let mut pages = 0;
        loop {
            let page = service.list_key_changes(request.clone()).await.unwrap();
            versions.extend(page.changes.iter().map(|change| change.version));
            pages += 1;
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        assert_eq!((versions, pages), ((1..=20).rev().collect(), 2));
    }
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
    let body = format!("{{\"k\":{}}}", large(2540));
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
    assert!(pages > 1 && stored.iter().all(|event| body_text(event) == body));

    // Small requests that resolve to much.
    let state = format!("{{\"k\":[{}]}}", large(250 * KIB));
    service.create_session(create("s3", &state)).await.unwrap();
    let events = (0..12).map(|_| operating(list_append("k", "[1]", 0))).collect();
    let answer = service.append_events(append_all("s3", events)).await.unwrap();
    assert_eq!(answer.events.len(), 12);
}

/// Tiny keys: what counts towards a scope is a fraction of what its text takes. Reading all of it at once may be refused, in words
/// that tell what to do; writing never is.
async fn state_of_very_many_keys_is_answered_or_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for prefix in ["app:", "user:", ""] {
        for part in 0..4 {
            let members: Vec<String> =
                (0..40_000).map(|at| format!("\"{prefix}{:x}\":0", part * 40_000 + at)).collect();
            let delta = set(&format!("{{{}}}", members.join(",")));
            let answer = service.update_state(update(session_scope("s1"), delta)).await.unwrap();
            assert!(!answer.replayed);
        }
    }
    let whole = service.get_state(get_state(session_scope("s1"))).await;
    refused(whole, Reason::AnswerTooLarge);
    refused(service.get_session(get("s1")).await, Reason::AnswerTooLarge);
    let some = GetStateRequest {
        keys: vec!["app:9c3f".into(), "user:0".into(), "27".into()],
        ..get_state(session_scope("s1"))
    };
    let some = service.get_state(some).await.unwrap().state();
    assert_eq!(some, json!({"app:9c3f": 0, "user:0": 0, "27": 0}));
    let app = service.get_state(get_state(app_scope())).await.unwrap();
    assert_eq!(app.state().as_object().unwrap().len(), 160_000);
    // Versions take as much again.
    let request = GetStateRequest { include_versions: true, ..get_state(app_scope()) };
    refused(service.get_state(request).await, Reason::AnswerTooLarge);
    let answer = service.append_event(append("s1", event("e1"))).await.unwrap();
    assert_eq!(answer.session.unwrap().state_form, None);
    // A watch that began before goes on; one that has to begin with all of it is told why it cannot.
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
