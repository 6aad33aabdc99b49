//! Refusals of the server as errors of ADK.

use adk_core::{ErrorCategory, ErrorComponent, Event};
use adk_session::SessionService;
use serde_json::{Value, json};
use sessiond_adk_testing::{Server, Store, builder};

use crate::harness::{Fixture, assert_error, creation, named, on_each_store, refused, setting};

on_each_store! {
    limits_are_invalid_input_that_says_what_to_do
    a_message_too_large_to_be_received_is_invalid_input
    a_scope_that_is_full_is_invalid_input
    an_error_carries_what_the_server_said
}

fn long_of(change: impl FnOnce(&mut Event)) -> Event {
    let mut event = named("e1");
    change(&mut event);
    event
}

async fn limits_are_invalid_input_that_says_what_to_do(f: Fixture) {
    f.create("s1", json!({})).await;
    let long = |bytes: usize| "x".repeat(bytes);
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    for (event, code) in [
        (named(&long(129)), "session.bad_id"),
        (long_of(|event| event.invocation_id = long(129)), "session.bad_id"),
        (long_of(|event| event.author = long(257)), "session.field_too_long"),
        (long_of(|event| event.branch = long(1025)), "session.field_too_long"),
        (long_of(|event| event.llm_request = Some(long(1_100_000))), "session.event_too_large"),
        (setting(json!({long(513): 1})), "session.bad_key"),
        (setting(json!({"": 1})), "session.bad_key"),
        (setting(json!({"a\0b": 1})), "session.bad_key"),
        (setting(json!({"own": long(300_000)})), "session.value_too_large"),
        (setting(json!({"own": deep})), "session.bad_json"),
    ] {
        let error = refused(f.try_append("s1", event).await);
        assert_eq!((error.category, error.code), (ErrorCategory::InvalidInput, code), "{error:?}");
        assert!(!error.is_retryable() && !error.message.is_empty());
    }
    let outcome = f.service.create(creation("s2", json!({"": 1}))).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.bad_key");
    assert!(f.get("s1").await.events().is_empty(), "a refusal changes nothing");
}

/// More than the 4 MiB that the server receives.
async fn a_message_too_large_to_be_received_is_invalid_input(f: Fixture) {
    f.create("s1", json!({})).await;
    let huge = long_of(|event| event.llm_request = Some("x".repeat(6_000_000)));
    let outcome = f.try_append("s1", huge).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.message_too_large");
    let outcome = f.service.create(creation("s2", json!({"own": "x".repeat(6_000_000)}))).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.message_too_large");
    f.append("s1", named("e1")).await;
}

async fn a_scope_that_is_full_is_invalid_input(f: Fixture) {
    f.create("s1", json!({})).await;
    for n in 0..4 {
        f.append("s1", setting(json!({format!("app:{n}"): "x".repeat(250_000)}))).await;
    }
    let outcome = f.try_append("s1", setting(json!({"app:4": "x".repeat(250_000)}))).await;
    let error = refused(outcome);
    assert_eq!(
        (error.category, error.code),
        (ErrorCategory::InvalidInput, "session.state_too_large")
    );
    assert!(!error.is_retryable());
}

async fn an_error_carries_what_the_server_said(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("e1")).await;
    let error = refused(f.try_append("s1", setting_of("e1")).await);
    assert_eq!(error.component, ErrorComponent::Session);
    assert_eq!(error.details.provider.as_deref(), Some("sessiond"));
    assert_eq!(error.details.metadata["reason"], "EVENT_ID_REUSED");
    assert_eq!(error.details.metadata["event_id"], "e1");
    assert!(error.message.contains("e1"), "{}", error.message);
    let source = std::error::Error::source(&error).unwrap();
    let status = source.downcast_ref::<tonic::Status>().unwrap();
    assert_eq!(status.code(), tonic::Code::AlreadyExists);
    let problem: Value = error.to_problem_json();
    assert_eq!(problem["error"]["code"], "session.event_id_reused");
}

fn setting_of(id: &str) -> Event {
    Event { id: id.into(), ..setting(json!({"own": 1})) }
}

#[tokio::test]
async fn bare_ids_can_be_forbidden() {
    let server = Server::start_with(Store::Memory, &["--require-full-keys"]);
    let service = builder(server.address()).connect().await.unwrap();
    let f = Fixture { server, service };
    f.create("s1", json!({})).await;
    let error = refused(f.service.append_event("s1", named("e1")).await);
    assert_eq!(error.category, ErrorCategory::InvalidInput, "{error:?}");
    f.append("s1", named("e1")).await;
}

/// Every reason in the server's documentation has a row in `error.rs`.
#[test]
fn every_reason_is_known() {
    let page = include_str!("../../../../docs/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let mut reasons = 0;
    for row in rows {
        // The first cell in capitals. The second table has the code before it.
        let name = row.split(" | ").find_map(|cell| {
            let name = cell.strip_prefix('`')?.strip_suffix('`')?;
            name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_').then_some(name)
        });
        let Some(reason) = name else { continue };
        reasons += 1;
        assert!(
            include_str!("../../src/error.rs").contains(&format!("\"{reason}\"")),
            "{reason} has no row"
        );
    }
    assert!(reasons >= 30, "{reasons} reasons: has the table changed?");
}
