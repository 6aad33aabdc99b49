//! `temp:` keys: seen within their turn, never stored.

use serde_json::json;
use sessiond_adk::proto::v1::{
    EndInvocationRequest, GetSessionRequest, JsonForm, Session, session::StateForm,
    session_service_client::SessionServiceClient, state_service_client::StateServiceClient,
};
use sessiond_adk_testing::{Server, Store};

use crate::harness::{Fixture, body, builder, ids, key, object, on_each_store, setting};

on_each_store! {
    temporary_keys_are_seen_within_their_turn_only
    temporary_keys_are_not_in_what_is_read
    an_event_without_a_turn_drops_them
}

const SECRET: &str = "a-secret-that-nobody-else-writes";

/// The merged state as it shows to this turn.
async fn within(f: &Fixture, turn: &str) -> serde_json::Value {
    let request = GetSessionRequest {
        key: Some(key("s1")),
        invocation_id: turn.into(),
        json_form: JsonForm::Text.into(),
        ..GetSessionRequest::default()
    };
    let mut client = SessionServiceClient::new(f.service.channel());
    let answer = client.get_session(request).await.unwrap().into_inner();
    match answer.session {
        Some(Session { state_form: Some(StateForm::StateJson(text)), .. }) => {
            serde_json::from_str(&text).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

async fn temporary_keys_are_seen_within_their_turn_only(f: Fixture) {
    f.create("s1", json!({"temp:begin": 1, "own": 0})).await;
    f.append("s1", setting(json!({"temp:note": SECRET, "own": 1}))).await;
    assert_eq!(within(&f, "turn-1").await, json!({"temp:note": SECRET, "own": 1}));
    assert_eq!(within(&f, "turn-2").await, json!({"own": 1}));
    let request = EndInvocationRequest { key: Some(key("s1")), invocation_id: "turn-1".into() };
    StateServiceClient::new(f.service.channel()).end_invocation(request).await.unwrap();
    assert_eq!(within(&f, "turn-1").await, json!({"own": 1}));
}

async fn temporary_keys_are_not_in_what_is_read(f: Fixture) {
    f.create("s1", json!({})).await;
    let event = setting(json!({"temp:note": SECRET, "temp:": 1, "temperature": 2}));
    f.append("s1", event).await;
    let session = f.get("s1").await;
    assert_eq!(session.state().all(), object(json!({"temperature": 2})));
    let wanted = object(json!({"temperature": 2}));
    assert_eq!(session.events().at(0).unwrap().actions.state_delta, wanted);
    let stored = f.stored("s1").await;
    assert!(!body(&stored.events[0]).contains("temp:"), "{}", body(&stored.events[0]));
}

async fn an_event_without_a_turn_drops_them(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut event = setting(json!({"temp:note": 1, "own": 2}));
    event.invocation_id = String::new();
    f.append("s1", event).await;
    assert_eq!(f.get("s1").await.state().all(), object(json!({"own": 2})));
}

#[tokio::test]
async fn temporary_keys_never_reach_the_disk() {
    let mut f = Fixture::start(Store::Sqlite).await;
    f.create("s1", json!({"temp:begin": SECRET})).await;
    f.append("s1", setting(json!({"temp:note": SECRET, "own": "kept-on-the-disk"}))).await;
    f.server.kill();
    let bytes = f.server.stored_bytes();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("kept-on-the-disk"));
    assert!(!holds(SECRET));
}

/// The server holds the temporary keys of so many turns; an event is not lost for that.
#[tokio::test]
async fn an_event_is_stored_without_them_where_the_server_has_no_room() {
    let server = Server::start_with(Store::Memory, &["--max-invocations", "1"]);
    let service = builder(server.address()).connect().await.unwrap();
    let f = Fixture { server, service };
    f.create("s1", json!({})).await;
    for turn in ["turn-1", "turn-2"] {
        let mut event = setting(json!({"temp:note": turn, "own": turn}));
        event.id = format!("event-of-{turn}");
        event.invocation_id = turn.into();
        f.append("s1", event).await;
    }
    assert_eq!(ids(&*f.get("s1").await), ["event-of-turn-1", "event-of-turn-2"]);
    assert_eq!(within(&f, "turn-1").await, json!({"temp:note": "turn-1", "own": "turn-2"}));
    assert_eq!(within(&f, "turn-2").await, json!({"own": "turn-2"}));
}
