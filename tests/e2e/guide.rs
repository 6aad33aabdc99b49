//! The state management guide of the agents' kit, told with this service: what it promises its readers holds here.

use prost_types::Timestamp;
use serde_json::json;
use sessiond::proto::v1::{
    EndInvocationRequest, Event, GetSessionRequest, GetStateRequest, RenderTemplateRequest,
};

use crate::{
    harness::{Service, on_each_store},
    judge::{list, refused},
    make::{
        app_scope, append, create, get, get_state, get_with_events, increment, key, operations,
        plain, render, saying, session_scope, set, setting_in, user_scope,
    },
    read::{HasState, body_text, instant, set_by},
};
use sessiond::domain::error::Reason;

on_each_store! {
    initial_state_is_sorted_by_prefix
    a_second_session_inherits_what_its_user_and_application_have
    an_event_changes_state_as_part_of_its_append
    a_login_counter_is_read_raised_and_written_with_a_temporary_flag
    the_greeting_is_filled_from_state
    an_output_key_becomes_state_with_the_answer_that_made_it
}

/// "`app:` is shared across all users and sessions, `user:` across all sessions of that user, no prefix belongs to this session."
async fn initial_state_is_sorted_by_prefix(service: &Service) {
    let state = r#"{"app:theme":"dark","user:language":"en","context":"billing","temp:draft":1}"#;
    let created = service.create_session(create("s1", state)).await.unwrap();
    assert!(created.created);
    let merged = json!({"app:theme": "dark", "user:language": "en", "context": "billing"});
    assert_eq!(created.state(), merged, "temp: keys go nowhere");
    assert_eq!(service.get_session(get("s1")).await.unwrap().state(), merged);

    let app = service.get_state(get_state(app_scope())).await.unwrap();
    assert_eq!(app.state(), json!({"app:theme": "dark"}));
    let user = service.get_state(get_state(user_scope())).await.unwrap();
    assert_eq!(user.state(), json!({"app:theme": "dark", "user:language": "en"}));
}

async fn a_second_session_inherits_what_its_user_and_application_have(service: &Service) {
    let first = r#"{"app:theme":"dark","user:language":"en","context":"first"}"#;
    service.create_session(create("s1", first)).await.unwrap();
    let second = service.create_session(create("s2", r#"{"context":"second"}"#)).await.unwrap();
    assert_eq!(
        second.state(),
        json!({"app:theme": "dark", "user:language": "en", "context": "second"})
    );
    let first = service.get_session(get("s1")).await.unwrap();
    assert_eq!(first.state()["context"], "first");

    // Another user sees the application's keys alone, and another application's alice nothing.
    let mut other = create("s1", "");
    other.user_id = "bob".into();
    assert_eq!(service.create_session(other).await.unwrap().state(), json!({"app:theme": "dark"}));
    let mut other = create("s1", "");
    other.app_name = "other_app".into();
    assert_eq!(service.create_session(other).await.unwrap().state(), json!({}));
}

/// "State should always be updated as part of adding an Event to the session history using append_event()."
async fn an_event_changes_state_as_part_of_its_append(service: &Service) {
    service.create_session(create("s1", r#"{"counter":0}"#)).await.unwrap();
    let event = Event {
        invocation_id: "invocation_123".into(),
        author: "agent".into(),
        event_time: Some(Timestamp { seconds: 1_700_000_000, nanos: 5 }),
        ..setting_in("invocation_123", r#"{"counter":1,"user:last_seen":"2024-01-01T00:00:00Z"}"#)
    };
    let answer = service.append_event(append("s1", event)).await.unwrap();
    let wanted = json!({"counter": 1, "user:last_seen": "2024-01-01T00:00:00Z"});
    assert_eq!(answer.state(), wanted);
    let stored = answer.event.unwrap();
    assert_eq!((stored.sequence, &*stored.invocation_id), (1, "invocation_123"));
    assert_eq!(set_by(&stored), wanted);

    let read = service.get_session(get_with_events("s1")).await.unwrap();
    assert_eq!(read.state(), wanted);
    assert_eq!(read.events, [stored]);
    let session = read.session.unwrap();
    assert_eq!((session.last_sequence, instant(&session.last_event_time)), (1, (1_700_000_000, 5)));
    // The user's key is there for every other session of the user.
    let other = service.create_session(create("s2", "")).await.unwrap();
    assert_eq!(other.state(), json!({"user:last_seen": "2024-01-01T00:00:00Z"}));
}

/// "Read user:login_count, raise it, set task_status and user:last_login_ts, and temp:validation_needed beside them."
async fn a_login_counter_is_read_raised_and_written_with_a_temporary_flag(service: &Service) {
    let state = r#"{"user:login_count":0,"task_status":"idle"}"#;
    service.create_session(create("s1", state)).await.unwrap();
    let before = service.get_session(get("s1")).await.unwrap().state();
    let count = before["user:login_count"].as_i64().unwrap() + 1;
    let delta = json!({
        "task_status": "active",
        "user:login_count": count,
        "user:last_login_ts": 1_700_000_000,
        "temp:validation_needed": true,
    });
    let event = setting_in("inv_login_update", &delta.to_string());
    let answer = service.append_event(append("s1", event)).await.unwrap();

    // Seen by whoever names the invocation…
    let mut stored = delta.clone();
    stored.as_object_mut().unwrap().remove("temp:validation_needed");
    assert_eq!(answer.state(), delta);
    let within = GetSessionRequest { invocation_id: "inv_login_update".into(), ..get("s1") };
    assert_eq!(service.get_session(within.clone()).await.unwrap().state(), delta);
    let within_state = GetStateRequest {
        invocation_id: "inv_login_update".into(),
        ..get_state(session_scope("s1"))
    };
    assert_eq!(service.get_state(within_state).await.unwrap().state(), delta);

    // … but not in the stored event, nor by anybody else, nor afterwards.
    assert_eq!(set_by(&answer.event.unwrap()), stored);
    let events = service.get_session(get_with_events("s1")).await.unwrap().events;
    assert_eq!(set_by(&events[0]), stored);
    assert_eq!(service.get_session(get("s1")).await.unwrap().state(), stored);
    let other = GetSessionRequest { invocation_id: "inv_other".into(), ..get("s1") };
    assert_eq!(service.get_session(other).await.unwrap().state(), stored);
    let end =
        EndInvocationRequest { key: Some(key("s1")), invocation_id: "inv_login_update".into() };
    service.end_invocation(end).await.unwrap();
    assert_eq!(service.get_session(within).await.unwrap().state(), stored);
    assert_eq!(stored["user:login_count"], 1);

    // The same without reading first, as several devices at once would do it.
    let event =
        Event { state_delta: Some(operations([increment("user:login_count", 1)])), ..plain() };
    let answer = service.append_event(append("s1", event)).await.unwrap();
    assert_eq!(answer.state()["user:login_count"], 2);
}

async fn the_greeting_is_filled_from_state(service: &Service) {
    const GREETING: &str =
        "You are helping {user:name} with {topic}. Their preferred language is {user:language}.";
    let state = r#"{"user:name":"Alice","topic":"billing","user:language":"en"}"#;
    service.create_session(create("s1", state)).await.unwrap();
    let text = service.render_template(render("s1", GREETING)).await.unwrap().text;
    assert_eq!(text, "You are helping Alice with billing. Their preferred language is en.");

    // What is missing is named, all of it, and may be marked as optional.
    let mut bobs = create("s2", r#"{"user:name":"Bob"}"#);
    bobs.user_id = "bob".into();
    service.create_session(bobs).await.unwrap();
    let mut bobs = render("s2", GREETING);
    bobs.key.as_mut().unwrap().user_id = "bob".into();
    let status = refused(service.render_template(bobs.clone()).await, Reason::MissingStateKey);
    assert_eq!(list(&status, "keys"), ["topic", "user:language"]);
    bobs.template = "Hello {user:name}{topic?}!".into();
    assert_eq!(service.render_template(bobs).await.unwrap().text, "Hello Bob!");

    // A turn's own keys fill it as well, for that turn.
    let event = setting_in("turn", r#"{"temp:mood":"curious"}"#);
    service.append_event(append("s1", event)).await.unwrap();
    let mut request = render("s1", "{temp:mood?} {{topic}} {not a key}");
    assert_eq!(
        service.render_template(request.clone()).await.unwrap().text,
        " billing {not a key}"
    );
    request = RenderTemplateRequest { invocation_id: "turn".into(), ..request };
    let text = service.render_template(request).await.unwrap().text;
    assert_eq!(text, "curious billing {not a key}");
}

/// "output_key saves the agent's final response text into state."
async fn an_output_key_becomes_state_with_the_answer_that_made_it(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let body = r#"{"content": {"role": "model", "parts": [{"text": "Hello there!"}]}}"#;
    let event =
        Event { state_delta: Some(set(r#"{"last_greeting":"Hello there!"}"#)), ..saying(body) };
    service.append_event(append("s1", event)).await.unwrap();
    let read = service.get_session(get_with_events("s1")).await.unwrap();
    assert_eq!(read.state(), json!({"last_greeting": "Hello there!"}));
    assert_eq!(body_text(&read.events[0]), body);
}
