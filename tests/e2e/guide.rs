//! The state management guide of ADK, told with this service: its promises hold here.

use serde_json::json;
use sessiond::proto::v1::{
    EndInvocationRequest, Event, GetSessionRequest, GetStateRequest, RenderTemplateRequest,
};

use crate::{
    harness::{Service, with_server},
    judge::{list, refused},
    make::{
        append, create, get, get_state, get_with_events, increment, key, operations, plain, render,
        session_scope, setting_in,
    },
    read::{HasState, set_by},
};
use sessiond::domain::error::Reason;

with_server! {
    a_login_counter_is_read_raised_and_written_with_a_temporary_flag
    the_greeting_is_filled_from_state
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

    // Visible to reads that name the invocation…
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
