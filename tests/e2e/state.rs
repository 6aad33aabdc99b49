//! State without events: every field of reading it, changing it, its history, and the end of an invocation.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        EndInvocationRequest, GetStateRequest, GetStateResponse, ListKeyChangesRequest, Scope,
        StateDelta, UpdateStateRequest, get_state_response, update_state_response,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::{faulty, refused},
    make::{
        APP, STRUCT, TEXT, address, app_scope, append, create, get, get_state, get_with_events,
        increment, key, operations, remove, session_scope, set, set_struct, setting, setting_in,
        update, user_scope,
    },
    read::{HasState, changed_to, removed_by, set_by},
};

with_server! {
    state_is_read_from_every_scope_with_every_field
    state_changes_through_every_scope
    a_change_through_a_session_is_an_event
    a_scope_takes_its_own_keys_and_wider_ones
    keys_of_any_other_prefix_are_the_sessions
    the_history_of_a_key_is_listed_newest_first
    the_history_of_a_key_comes_page_by_page
    an_ended_invocation_has_no_keys
}

async fn state_is_read_from_every_scope_with_every_field(service: &Service) {
    let state = r#"{"own":1,"own2":2,"user:u":3,"app:a":4,"app:b":null}"#;
    service.create_session(create("s1", state)).await.unwrap();
    let event = setting_in("turn", r#"{"own2":[5],"user:u":6,"temp:t":7}"#);
    service.append_event(append("s1", event)).await.unwrap();
    let read = async |scope, keys: &[&str], invocation_id: &str| {
        let request = GetStateRequest {
            keys: keys.iter().map(|&key| key.into()).collect(),
            invocation_id: invocation_id.into(),
            ..get_state(scope)
        };
        service.get_state(request).await.unwrap().state()
    };
    let app = json!({"app:a": 4, "app:b": null});
    let user = json!({"app:a": 4, "app:b": null, "user:u": 6});
    let own = json!({"app:a": 4, "app:b": null, "user:u": 6, "own": 1, "own2": [5]});
    assert_eq!(read(app_scope(), &[], "").await, app);
    assert_eq!(read(user_scope(), &[], "").await, user);
    assert_eq!(read(session_scope("s1"), &[], "").await, own);
    let mut with_temp = own.clone();
    with_temp["temp:t"] = json!(7);
    assert_eq!(read(session_scope("s1"), &[], "turn").await, with_temp);
    assert_eq!(read(session_scope("s1"), &[], "another").await, own);

    // Some keys of it; what has no value, or cannot be seen from there, is not in the answer.
    let some = ["own", "app:b", "user:u", "temp:t", "missing", "app:missing"];
    let wanted = json!({"own": 1, "app:b": null, "user:u": 6, "temp:t": 7});
    assert_eq!(read(session_scope("s1"), &some, "turn").await, wanted);
    assert_eq!(read(session_scope("s1"), &["missing"], "").await, json!({}));
    assert_eq!(read(user_scope(), &["user:u"], "").await, json!({"user:u": 6}));

    // Keys of an invocation have no version: they are not stored.
    let invocation_id = "turn".to_owned();
    let request =
        GetStateRequest { include_versions: true, invocation_id, ..get_state(session_scope("s1")) };
    let GetStateResponse { versions, state_rounded, state_form, .. } =
        service.get_state(request.clone()).await.unwrap();
    assert!(matches!(state_form, Some(get_state_response::StateForm::StateJson(_))));
    assert!(!state_rounded);
    // Creation raised both shared scopes to 1, the event the user's to 2; own keys bear sequences.
    let mut versions: Vec<_> = versions.into_iter().collect();
    versions.sort();
    let wanted = [("app:a", 1), ("app:b", 1), ("own", 0), ("own2", 1), ("user:u", 2)];
    assert_eq!(versions, wanted.map(|(key, version)| (key.to_owned(), version)));
    let request = GetStateRequest {
        json_form: STRUCT,
        include_versions: false,
        invocation_id: String::new(),
        ..request
    };
    let answer = service.get_state(request).await.unwrap();
    assert!(matches!(answer.state_form, Some(get_state_response::StateForm::State(_))));
    assert_eq!((answer.state(), answer.versions.len()), (own, 0));

    refused(service.get_state(get_state(session_scope("none"))).await, Reason::SessionNotFound);
}

async fn state_changes_through_every_scope(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let through_app = update(app_scope(), set(r#"{"app:a":1}"#));
    let answer = service.update_state(through_app).await.unwrap();
    assert_eq!(answer.state(), json!({"app:a": 1}));
    let through_user = update(user_scope(), set(r#"{"app:a":2,"user:u":2}"#));
    let answer = service.update_state(through_user).await.unwrap();
    assert_eq!(answer.state(), json!({"app:a": 2, "user:u": 2}));
    let request = UpdateStateRequest {
        json_form: STRUCT,
        author: "tester".into(),
        request_id: "r1".into(),
        ..update(session_scope("s1"), set_struct(r#"{"app:a":3,"user:u":3,"own":3}"#))
    };
    let answer = service.update_state(request).await.unwrap();
    assert!(matches!(answer.state_form, Some(update_state_response::StateForm::State(_))));
    assert!(!answer.state_rounded && !answer.replayed);
    assert_eq!(answer.state(), json!({"app:a": 3, "user:u": 3, "own": 3}));
    let answer = service.update_state(update(user_scope(), remove(&["app:a"]))).await.unwrap();
    assert_eq!(answer.state(), json!({"user:u": 3}));
    let gone = update(session_scope("none"), set("{}"));
    refused(service.update_state(gone).await, Reason::SessionNotFound);
}

async fn a_change_through_a_session_is_an_event(service: &Service) {
    service.create_session(create("s1", r#"{"gone":1}"#)).await.unwrap();
    let delta = StateDelta { remove: vec!["gone".into()], ..set(r#"{"a":1,"app:b":2}"#) };
    let request =
        UpdateStateRequest { author: "operator".into(), ..update(session_scope("s1"), delta) };
    service.update_state(request).await.unwrap();
    service.update_state(update(session_scope("s1"), set(r#"{"a":2}"#))).await.unwrap();
    let read = service.get_session(get_with_events("s1")).await.unwrap();
    let [first, second] = &read.events[..] else { panic!("{:?}", read.events) };
    assert_eq!((&*first.author, &*second.author), ("operator", "system"));
    assert_eq!(set_by(first), json!({"a": 1, "app:b": 2}));
    assert_eq!(removed_by(first), ["gone"]);
    assert_eq!((first.sequence, second.sequence), (1, 2));
    assert_eq!(uuid::Uuid::parse_str(&first.event_id).unwrap().get_version_num(), 7);
}

async fn a_scope_takes_its_own_keys_and_wider_ones(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let refusal = async |scope, key: &str| {
        let delta = set(&json!({key: 1}).to_string());
        let result = service.update_state(update(scope, delta)).await;
        faulty(result, Reason::KeyOutsideScope, &format!("delta.set_json[\"{key}\"]"));
    };
    refusal(app_scope(), "user:x").await;
    refusal(app_scope(), "x").await;
    refusal(user_scope(), "x").await;
    for anywhere in [app_scope(), user_scope(), session_scope("s1")] {
        refusal(anywhere, "temp:x").await;
    }
    // Likewise in what is removed, operated on, and checked.
    let result = service.update_state(update(app_scope(), remove(&["app:x", "x"]))).await;
    faulty(result, Reason::KeyOutsideScope, "delta.remove[1]");
    let delta = operations([increment("app:n", 1), increment("user:n", 1)]);
    let result = service.update_state(update(app_scope(), delta)).await;
    faulty(result, Reason::KeyOutsideScope, "delta.operations[1].key");
    assert_eq!(service.get_state(get_state(app_scope())).await.unwrap().state(), json!({}));
    assert_eq!(service.get_session(get("s1")).await.unwrap().state(), json!({}));
}

async fn keys_of_any_other_prefix_are_the_sessions(service: &Service) {
    let state = json!({"session:x": 1, "_adk:y": 2, "App:z": 3, "app": 4, " user:a": 5, "käse": 6});
    service.create_session(create("s1", &state.to_string())).await.unwrap();
    assert_eq!(service.get_session(get("s1")).await.unwrap().state(), state);
    assert_eq!(service.get_state(get_state(user_scope())).await.unwrap().state(), json!({}));
    // A bare prefix is the empty key of its scope, and a bare `temp:` nothing at all.
    let bare = setting_in("turn", r#"{"app:":1,"user:":2}"#);
    service.append_event(append("s1", bare)).await.unwrap();
    let user = service.get_state(get_state(user_scope())).await.unwrap();
    assert_eq!(user.state(), json!({"app:": 1, "user:": 2}));
    let created = service.create_session(create("s2", r#"{"temp:":1}"#)).await.unwrap();
    assert_eq!(created.dropped_temp_keys, ["temp:"]);
    assert_eq!(created.state(), json!({"app:": 1, "user:": 2}));
    faulty(
        service.append_event(append("s1", setting(r#"{"":1}"#))).await,
        Reason::BadKey,
        "event.state_delta.set_json[\"\"]",
    );
}

fn changes_of(scope: Scope, key: &str) -> ListKeyChangesRequest {
    ListKeyChangesRequest {
        scope: Some(scope),
        key: key.into(),
        json_form: TEXT,
        ..Default::default()
    }
}

async fn the_history_of_a_key_is_listed_newest_first(service: &Service) {
    service.create_session(create("s1", r#"{"app:k":"created","own":0}"#)).await.unwrap();
    let event = service.append_event(append("s1", setting(r#"{"app:k":"event"}"#))).await.unwrap();
    let event = event.event.unwrap();
    let request = UpdateStateRequest {
        author: "operator".into(),
        ..update(app_scope(), remove(&["app:k", "app:other"]))
    };
    service.update_state(request).await.unwrap();
    service.update_state(update(app_scope(), set(r#"{"app:other":1}"#))).await.unwrap();
    service.update_state(update(app_scope(), set(r#"{"app:k":null}"#))).await.unwrap();

    for json_form in [TEXT, STRUCT] {
        for from in [app_scope(), user_scope(), session_scope("s1")] {
            let request = ListKeyChangesRequest { json_form, ..changes_of(from, "app:k") };
            let answer = service.list_key_changes(request).await.unwrap();
            assert_eq!(answer.next_page_token, "");
            let found: Vec<_> = answer
                .changes
                .iter()
                .map(|it| (it.version, changed_to(it), &*it.author, it.sequence))
                .collect();
            let wanted = [
                (5, Some(json!(null)), "system", 0),
                (3, None, "operator", 0),
                (2, Some(json!("event")), "agent", 1),
                (1, Some(json!("created")), "", 0),
            ];
            assert_eq!(found, wanted);
            let [update, removal, by_event, creation] = &answer.changes[..] else { panic!() };
            assert_eq!(by_event.session, Some(address(APP, "alice", "s1")));
            assert_eq!(by_event.commit_time, event.commit_time);
            for other in [update, removal, creation] {
                assert_eq!(other.session, None);
                assert!(other.commit_time.is_some());
            }
        }
    }
    // A session's own key: versions are sequences, and its creation is 0.
    service.append_event(append("s1", setting(r#"{"own":1}"#))).await.unwrap();
    let answer = service.list_key_changes(changes_of(session_scope("s1"), "own")).await.unwrap();
    let found: Vec<_> =
        answer.changes.iter().map(|it| (it.version, it.sequence, changed_to(it))).collect();
    assert_eq!(found, [(2, 2, Some(json!(1))), (0, 0, Some(json!(0)))]);
    let none = service.list_key_changes(changes_of(session_scope("s1"), "never")).await.unwrap();
    assert!(none.changes.is_empty() && none.next_page_token.is_empty());
    let outside = service.list_key_changes(changes_of(app_scope(), "own")).await;
    faulty(outside, Reason::KeyOutsideScope, "key");
    let gone = service.list_key_changes(changes_of(session_scope("none"), "own")).await;
    refused(gone, Reason::SessionNotFound);
}

async fn the_history_of_a_key_comes_page_by_page(service: &Service) {
    for at in 0..25 {
        let delta = set(&json!({"user:k": at}).to_string());
        service.update_state(update(user_scope(), delta)).await.unwrap();
    }
    let mut request = ListKeyChangesRequest { page_size: 10, ..changes_of(user_scope(), "user:k") };
    let (mut found, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let page = service.list_key_changes(request.clone()).await.unwrap();
        sizes.push(page.changes.len());
        found.extend(page.changes.iter().map(|change| changed_to(change).unwrap()));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
        // What is written meanwhile does not move the rest.
        service.update_state(update(user_scope(), set(r#"{"user:k":99}"#))).await.unwrap();
    }
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(found, (0..25).rev().map(|at| json!(at)).collect::<Vec<_>>());
    let other = ListKeyChangesRequest { key: "user:other".into(), ..request.clone() };
    faulty(service.list_key_changes(other).await, Reason::BadPageToken, "page_token");
    let other = ListKeyChangesRequest { page_token: "x".into(), ..request };
    faulty(service.list_key_changes(other).await, Reason::BadPageToken, "page_token");
}

async fn an_ended_invocation_has_no_keys(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    let read = async |id: &str, invocation_id: &str| {
        let request =
            GetStateRequest { invocation_id: invocation_id.into(), ..get_state(session_scope(id)) };
        service.get_state(request).await.unwrap().state()
    };
    for id in ["s1", "s2"] {
        let event = setting_in("turn", &json!({"temp:of": id}).to_string());
        service.append_event(append(id, event)).await.unwrap();
    }
    // Operations and removals work on them as on any other key.
    let mut event = setting_in("turn", "{}");
    event.state_delta = Some(operations([increment("temp:n", 2), increment("temp:n", 3)]));
    service.append_event(append("s1", event.clone())).await.unwrap();
    assert_eq!(read("s1", "turn").await, json!({"temp:of": "s1", "temp:n": 5}));
    event.state_delta = Some(remove(&["temp:of"]));
    service.append_event(append("s1", event)).await.unwrap();
    assert_eq!(read("s1", "turn").await, json!({"temp:n": 5}));

    let end = EndInvocationRequest { key: Some(key("s1")), invocation_id: "turn".into() };
    service.end_invocation(end.clone()).await.unwrap();
    service.end_invocation(end).await.unwrap();
    assert_eq!(read("s1", "turn").await, json!({}));
    assert_eq!(read("s2", "turn").await, json!({"temp:of": "s2"}), "another session's is its own");
    // Without an invocation they go nowhere.
    let answer = service.append_event(append("s1", setting(r#"{"temp:x":1}"#))).await.unwrap();
    assert_eq!(answer.state(), json!({}));
    assert_eq!(set_by(&answer.event.unwrap()), json!(null));
    let gone = EndInvocationRequest { key: Some(key("none")), invocation_id: "turn".into() };
    refused(service.end_invocation(gone).await, Reason::SessionNotFound);
}
