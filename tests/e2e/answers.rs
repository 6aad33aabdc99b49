//! The size of single answers: what does not fit in the form asked for comes as text, and what does not fit as text is left out and says so.
//! (The harness measures each answer of every test, and the generated client refuses larger ones by itself.)

use serde_json::{Value, json};
use sessiond::{
    domain::{error::Reason, json::Json},
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, DeleteSessionRequest, Event, ForkSessionRequest,
        GetSessionRequest, GetStateRequest, ListEventsRequest, ListSessionsRequest, Scope, Session,
        StateDelta, UpdateStateRequest, WatchRequest, WatchStart, event::BodyForm,
        get_state_response, session::StateForm, update_state_response, watch_response::Kind,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::refused,
    make::{
        APP, STRUCT, TEXT, app_scope, append, append_all, create, event, get, get_state,
        get_with_events, key, list_append, list_events, operating, plain, render, rewind, saying,
        session_scope, set, setting, setting_in, update, user_scope,
    },
    pages::{KIB, all_events, create_full, large, zeros},
    read::{HasState, body_text, sequences},
    watching::{Watching, watch},
};

with_server! {
    a_single_item_that_does_not_fit_comes_as_text
    a_write_leaves_out_what_does_not_fit
    a_batch_is_answered_whatever_it_becomes
    state_whose_text_is_too_large_is_read_page_by_page
    a_page_of_state_continues_behind_its_last_key
    a_token_of_state_belongs_to_its_request
    a_rendered_template_has_its_bound
}

async fn a_single_item_that_does_not_fit_comes_as_text(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let body = zeros(1000 * KIB);
    let request = AppendEventRequest { json_form: STRUCT, ..append("s1", saying(&body)) };
    let answer = service.append_event(request).await.unwrap();
    assert_eq!(body_text(&answer.event.unwrap()), body, "a write answers with text instead");
    let request = ListEventsRequest { json_form: STRUCT, ..list_events("s1") };
    let (events, _) = all_events(service, request).await;
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
    let state = service.get_session(request).await.unwrap().session.unwrap().state_form;
    assert!(matches!(state, Some(StateForm::StateJson(_))));
    let request = GetStateRequest { json_form: STRUCT, ..get_state(session_scope("s1")) };
    let all = service.get_state(request.clone()).await.unwrap();
    assert!(matches!(all.state_form, Some(get_state_response::StateForm::StateJson(_))));
    assert_eq!(all.next_page_token, "");
    let some = GetStateRequest { keys: vec!["k1".into()], ..request };
    let some = service.get_state(some).await.unwrap();
    assert!(matches!(some.state_form, Some(get_state_response::StateForm::State(_))));
    service.create_session(create("s2", r#"{"small":1}"#)).await.unwrap();
    let list = ListSessionsRequest {
        app_name: APP.into(),
        include_state: true,
        json_form: STRUCT,
        ..Default::default()
    };
    let sessions = service.list_sessions(list).await.unwrap().sessions;
    assert!(matches!(sessions[0].state_form, Some(StateForm::StateJson(_))));
    assert!(matches!(sessions[1].state_form, Some(StateForm::State(_))), "and those behind it");
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
        let session = answer.session.unwrap();
        assert_eq!(
            (session.state_form, session.state_omitted),
            (None, true),
            "and its state is not"
        );
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

/// All pages of a state: its keys in their order, and how many each page has.
async fn all_pages(service: &Service, request: GetStateRequest) -> (Vec<String>, Vec<usize>) {
    let (mut request, mut state, mut pages) = (request, Vec::new(), Vec::new());
    loop {
        let answer = service.get_state(request.clone()).await.unwrap();
        assert!(!answer.state_omitted);
        let Some(get_state_response::StateForm::StateJson(page)) = answer.state_form else {
            panic!()
        };
        let page: Vec<_> =
            Json::parse(page).unwrap().members().into_iter().map(|it| it.0).collect();
        assert_eq!(answer.versions.len(), if request.include_versions { page.len() } else { 0 });
        pages.push(page.len());
        state.extend(page);
        request.page_token = answer.next_page_token;
        if request.page_token.is_empty() {
            return (state, pages);
        }
    }
}

/// Every read says that the state is left out, none ends, and pages have all of it.
async fn state_whose_text_is_too_large_is_read_page_by_page(service: &Service) {
    service.create_session(create("s1", r#"{"own":1}"#)).await.unwrap();
    fill(service, "app:", app_scope(), 65_000).await;
    fill(service, "user:", user_scope(), 65_000).await;
    let user = get_state(user_scope());
    let (state, pages) = all_pages(service, user.clone()).await;
    assert!(state.len() > 130_000 && pages.len() == 1, "{pages:?}");
    let with_versions = GetStateRequest { include_versions: true, ..user };
    let (again, pages) = all_pages(service, with_versions).await;
    assert!(again == state && pages.len() == 2, "{pages:?}");

    fill(service, "", session_scope("s1"), 1).await;
    let answer = service.update_state(update(session_scope("s1"), set("{}"))).await.unwrap();
    assert_eq!((answer.state_form, answer.state_omitted), (None, true));
    let answer = service.append_event(append("s1", event("e1"))).await.unwrap();
    let is_omitted = |it: &Session| (it.state_form.is_some(), it.state_omitted) == (false, true);
    let session = answer.session.unwrap();
    let last = session.last_sequence;
    assert!(is_omitted(&session));
    let fork =
        ForkSessionRequest { key: Some(key("s1")), session_id: "s0".into(), ..Default::default() };
    assert!(is_omitted(&service.fork_session(fork).await.unwrap().session.unwrap()));
    let rewound = service.rewind_session(rewind("s1", last)).await.unwrap();
    assert!(is_omitted(&rewound.session.unwrap()));
    for json_form in [TEXT, STRUCT] {
        let read = GetSessionRequest { json_form, ..get_with_events("s1") };
        let read = service.get_session(read).await.unwrap();
        assert!(is_omitted(&read.session.unwrap()));
        assert!(!read.events.is_empty() || !read.next_page_token.is_empty());
        let list = ListSessionsRequest {
            app_name: APP.into(),
            include_state: true,
            page_size: 1,
            json_form,
            ..Default::default()
        };
        let (mut list, mut listed) = (list, Vec::new());
        loop {
            let page = service.list_sessions(list.clone()).await.unwrap();
            listed.extend(page.sessions);
            list.page_token = page.next_page_token;
            if list.page_token.is_empty() {
                break;
            }
        }
        assert_eq!(listed.iter().map(is_omitted).collect::<Vec<_>>(), [true, true]);
    }
    let (state, pages) = all_pages(service, get_state(session_scope("s1"))).await;
    assert!(
        state.len() > 130_000 && state.iter().any(|key| key == "own") && pages.len() > 1,
        "{pages:?}"
    );
    let some = GetStateRequest {
        keys: vec!["own".into(), "app:00ff".into(), "user:0000".into()],
        ..get_state(session_scope("s1"))
    };
    let some = service.get_state(some).await.unwrap().state();
    assert_eq!(some, json!({"own": 1, "app:00ff": 0, "user:0000": 0}));
    let read = GetSessionRequest { without_state: true, ..get_with_events("s1") };
    assert!(!service.get_session(read).await.unwrap().events.is_empty());

    for json_form in [TEXT, STRUCT] {
        let request =
            WatchRequest { json_form, ..watch(session_scope("s1"), WatchStart::Snapshot) };
        let mut watching = Watching::open(service, request).await;
        let Kind::Snapshot(snapshot) = watching.next().await else { panic!() };
        assert_eq!((snapshot.state_form, snapshot.state_omitted), (None, true));
        watching.caught_up().await;
    }
}

async fn a_page_of_state_continues_behind_its_last_key(service: &Service) {
    let own = r#"{"é":1,"a":2,"app:b":3,"app:a":4,"user:z":5,"user:":6,"b":7}"#;
    service.create_session(create("s1", own)).await.unwrap();
    service
        .append_event(append("s1", setting_in("turn", r#"{"temp:b":8,"temp:a":9}"#)))
        .await
        .unwrap();
    let keys = ["app:a", "app:b", "user:", "user:z", "a", "b", "é", "temp:a", "temp:b"];
    let request = |page_size| GetStateRequest {
        page_size,
        invocation_id: "turn".into(),
        ..get_state(session_scope("s1"))
    };
    for page_size in [1, 2, 3, 9, 10, 1000, 1001] {
        let (state, pages) = all_pages(service, request(page_size)).await;
        assert_eq!(state, keys, "{page_size}");
        let size = page_size as usize;
        assert_eq!(pages, keys.chunks(size).map(<[_]>::len).collect::<Vec<_>>());
    }
    let some = GetStateRequest {
        keys: ["temp:a", "b", "nothing", "app:b"].map(Into::into).into(),
        ..request(2)
    };
    let (state, pages) = all_pages(service, some).await;
    assert_eq!((state.join(" "), pages), ("app:b b temp:a".to_owned(), vec![2, 1]));
    // What is written meanwhile behind the last key comes, and what is removed does not.
    let first = service.get_state(request(5)).await.unwrap();
    let delta =
        StateDelta { remove: vec!["b".into(), "app:a".into()], ..set(r#"{"aa":0,"app:":0}"#) };
    service.update_state(update(session_scope("s1"), delta)).await.unwrap();
    let next = GetStateRequest { page_token: first.next_page_token, ..request(1000) };
    let (state, _) = all_pages(service, next).await;
    assert_eq!(state, ["aa", "é", "temp:a", "temp:b"]);
    let scope = Scope { user_id: "another".into(), ..app_scope() };
    let request = GetStateRequest { keys: vec!["user:".into()], page_size: 3, ..get_state(scope) };
    assert_eq!(all_pages(service, request).await, (vec![], vec![0]));
}

async fn a_token_of_state_belongs_to_its_request(service: &Service) {
    service.create_session(create("s1", r#"{"a":1,"b":2,"app:x":1,"app:y":1}"#)).await.unwrap();
    service.create_session(create("s2", r#"{"a":1,"b":2}"#)).await.unwrap();
    let request = GetStateRequest { page_size: 1, ..get_state(session_scope("s1")) };
    let token = service.get_state(request.clone()).await.unwrap().next_page_token;
    let request = GetStateRequest { page_token: token.clone(), ..request };
    service.get_state(request.clone()).await.unwrap();
    let others = [
        GetStateRequest { scope: Some(session_scope("s2")), ..request.clone() },
        GetStateRequest { scope: Some(user_scope()), ..request.clone() },
        GetStateRequest { scope: Some(app_scope()), ..request.clone() },
        GetStateRequest { keys: vec!["a".into()], ..request.clone() },
        GetStateRequest { invocation_id: "turn".into(), ..request.clone() },
        GetStateRequest { page_token: format!("{token}A"), ..request.clone() },
    ];
    for other in others {
        refused(service.get_state(other).await, Reason::BadPageToken);
    }
    // The form, versions and the size may change from page to page.
    let other = GetStateRequest {
        page_size: 0,
        include_versions: true,
        json_form: STRUCT,
        ..request.clone()
    };
    service.get_state(other).await.unwrap();
    service
        .delete_session(DeleteSessionRequest { key: Some(key("s1")), ..Default::default() })
        .await
        .unwrap();
    service.create_session(create("s1", r#"{"a":1,"b":2}"#)).await.unwrap();
    refused(service.get_state(request).await, Reason::BadPageToken);
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
