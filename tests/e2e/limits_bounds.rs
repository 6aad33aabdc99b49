//! Limits of what the server holds at the same time: temp: state, invocations, watches.

use sessiond::{
    domain::error::Reason,
    proto::v1::{EndInvocationRequest, Event, GetStateRequest, WatchStart},
};
use tonic_types::StatusExt;

use crate::{
    harness::{Service, eventually, with_server},
    judge::{detail, refused},
    make::{
        app_scope, append, append_all, create, get_state, increment, key, operations, plain,
        session_scope, setting_in, user_scope,
    },
    read::HasState,
    watching::{Watching, watch},
};

with_server! { an_invocation_holds_at_most_one_mib }

with_server! { ["--max-temp-bytes", "20"] the_size_of_an_invocation_is_a_flag }

with_server! { ["--max-watches", "2"] watches_have_a_bound }

with_server! { ["--max-invocations", "2"] invocations_have_a_bound }

with_server! { ["--temp-idle", "1", "--max-invocations", "1"] an_unused_invocation_ends_by_itself }

async fn temp(service: &Service, invocation_id: &str) -> serde_json::Value {
    let request =
        GetStateRequest { invocation_id: invocation_id.into(), ..get_state(session_scope("s1")) };
    service.get_state(request).await.unwrap().state()
}

async fn an_invocation_holds_at_most_one_mib(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let of = |key: &str, bytes: usize| {
        let value = "x".repeat(bytes - 2);
        setting_in("turn", &format!("{{\"temp:{key}\":\"{value}\",\"own\":1}}"))
    };
    // Keys count without their prefix.
    for key in ["a", "b", "c", "d"] {
        service.append_event(append("s1", of(key, 256 * 1024 - 1))).await.unwrap();
    }
    let result =
        service.append_event(append("s1", setting_in("turn", r#"{"temp:":1,"own":2}"#))).await;
    let status = refused(result, Reason::StateTooLarge);
    assert_eq!((&*detail(&status, "scope"), &*detail(&status, "limit")), ("invocation", "1048576"));
    let state = temp(service, "turn").await;
    assert_eq!((&state["own"], &state["temp:"]), (&1.into(), &serde_json::Value::Null));
    // Another turn has room of its own, and ending this one makes room.
    service.append_event(append("s1", setting_in("other", r#"{"temp:e":1}"#))).await.unwrap();
    let end = EndInvocationRequest { key: Some(key("s1")), invocation_id: "turn".into() };
    service.end_invocation(end).await.unwrap();
    service.append_event(append("s1", of("e", 256 * 1024))).await.unwrap();
}

async fn the_size_of_an_invocation_is_a_flag(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let fits = setting_in("turn", r#"{"temp:k":"1234567890123456 "}"#);
    service.append_event(append("s1", fits)).await.unwrap();
    let result = service.append_event(append("s1", setting_in("turn", r#"{"temp:":1}"#))).await;
    assert_eq!(detail(&refused(result, Reason::StateTooLarge), "limit"), "20");
    // A batch counts with what its earlier events left.
    let batch = vec![
        Event { event_id: "b1".into(), ..setting_in("next", r#"{"temp:k":"12345678901234567"}"#) },
        setting_in("next", r#"{"temp:l":1}"#),
    ];
    refused(service.append_events(append_all("s1", batch)).await, Reason::StateTooLarge);
    assert_eq!(temp(service, "next").await, serde_json::json!({}));
}

async fn watches_have_a_bound(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut first = Watching::open(service, watch(app_scope(), WatchStart::Now)).await;
    let mut second = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    first.caught_up().await;
    second.caught_up().await;
    let third = Watching::try_open(service, watch(user_scope(), WatchStart::Now)).await;
    let status = refused(third.map(|_| ()), Reason::Overloaded);
    let retry = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(retry.as_millis().to_string(), detail(&status, "retry_after_millis"));
    // One that is refused for another reason takes no place, and one that ends leaves its own.
    service.append_event(append("s1", plain())).await.unwrap();
    assert_eq!(second.event().await.sequence, 1);
    drop(first);
    let mut third = eventually("the end of a watch", async || {
        Watching::try_open(service, watch(user_scope(), WatchStart::Now)).await.ok()
    })
    .await;
    third.caught_up().await;
    drop(second);
    for _ in 0..5 {
        eventually("a refusal for what it is", async || {
            let gone = watch(session_scope("none"), WatchStart::Now);
            let status = Watching::try_open(service, gone).await.err().unwrap();
            (crate::judge::reason(&status) == "SESSION_NOT_FOUND").then_some(())
        })
        .await;
    }
}

async fn invocations_have_a_bound(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let held = |turn: &str| setting_in(turn, r#"{"temp:k":1}"#);
    for turn in ["one", "two"] {
        service.append_event(append("s1", held(turn))).await.unwrap();
    }
    let result = service.append_event(append("s1", held("three"))).await;
    let status = refused(result, Reason::Overloaded);
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    // Those that are held go on, and a turn without temp: keys needs no place.
    let raised = Event {
        invocation_id: "two".into(),
        state_delta: Some(operations([increment("temp:k", 1)])),
        ..plain()
    };
    assert_eq!(service.append_event(append("s1", raised)).await.unwrap().state()["temp:k"], 2);
    let without = setting_in("three", r#"{"own":1}"#);
    service.append_event(append("s1", without)).await.unwrap();
    let end = EndInvocationRequest { key: Some(key("s1")), invocation_id: "one".into() };
    service.end_invocation(end).await.unwrap();
    service.append_event(append("s1", held("three"))).await.unwrap();
    refused(service.append_event(append("s1", held("one"))).await, Reason::Overloaded);
}

async fn an_unused_invocation_ends_by_itself(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let held = |turn: &str| append("s1", setting_in(turn, r#"{"temp:k":1}"#));
    assert_eq!(service.append_event(held("one")).await.unwrap().state()["temp:k"], 1);
    // Asking for it would keep it; another one takes its place once it counts as ended.
    let answer = eventually("the end of an invocation", async || {
        service.append_event(held("two")).await.ok()
    })
    .await;
    assert_eq!(answer.state()["temp:k"], 1);
    assert_eq!(temp(service, "one").await.get("temp:k"), None);
}
