//! Rewinding to an earlier event, by its id, by steps and by its sequence.

use adk_core::ErrorCategory;
use adk_session::{CreateRequest, GetRequest, SessionService};
use serde_json::json;
use sessiond_adk_testing::Cut;

use crate::harness::{
    APP, Fixture, NO_RETRY, USER, assert_error, behind, creation, getting, identity, ids, named,
    object, on_each_store, refused, setting,
};

on_each_store! {
    rewind_keeps_the_target_and_what_was_before_it
    rewind_restores_the_sessions_own_state_only
    rewind_keeps_the_initial_state
    rewind_to_a_missing_event_is_refused
    rewind_of_a_missing_session_is_not_found
    rewind_deletes_nothing
    rewind_to_an_event_that_was_rewound_is_refused
    rewind_by_no_steps_changes_nothing
    rewind_by_steps_hides_the_newest_events
    rewind_by_all_steps_leaves_the_session_as_created
    rewind_by_more_steps_than_there_are_is_refused
    rewind_by_steps_counts_visible_events
    rewind_in_a_log_of_more_than_a_page
    rewind_of_an_ambiguous_id_is_refused
    appends_go_on_after_a_rewind
    steps_count_from_the_newest_event_despite_concurrent_appends
    a_session_is_rewound_to_a_sequence
}

/// Events `e1` to `e4`, which count in `own`, `app:shared` and `user:shared`.
async fn four_events(f: &Fixture) {
    f.create("s1", json!({"initial": true, "own": 0})).await;
    for n in 1..=4 {
        let mut event = setting(json!({
            "own": n, "app:shared": n, "user:shared": n, format!("only{n}"): n,
        }));
        event.id = format!("e{n}");
        f.append("s1", event).await;
    }
}

async fn rewind_keeps_the_target_and_what_was_before_it(f: Fixture) {
    four_events(&f).await;
    let session = f.service.rewind("s1", "e2").await.unwrap();
    assert_eq!(ids(&*session), ["e1", "e2"]);
    assert_eq!((session.app_name(), session.user_id(), session.id()), ("my_app", "alice", "s1"));
    let read = f.get("s1").await;
    assert_eq!(ids(&*read), ["e1", "e2"]);
    assert_eq!(read.state().all(), session.state().all());
    let newest = GetRequest { num_recent_events: Some(1), ..getting("s1") };
    assert_eq!(ids(&*f.service.get(newest).await.unwrap()), ["e2"]);
}

async fn rewind_restores_the_sessions_own_state_only(f: Fixture) {
    four_events(&f).await;
    let session = f.service.rewind("s1", "e2").await.unwrap();
    let wanted = json!({
        "initial": true, "own": 2, "only1": 1, "only2": 2, "app:shared": 4, "user:shared": 4,
    });
    assert_eq!(session.state().all(), object(wanted));
}

/// ADK's own stores rebuild the state from the events and lose the initial state.
async fn rewind_keeps_the_initial_state(f: Fixture) {
    four_events(&f).await;
    let session = f.service.rewind_steps("s1", 4).await.unwrap();
    let wanted = json!({"initial": true, "own": 0, "app:shared": 4, "user:shared": 4});
    assert_eq!(session.state().all(), object(wanted));
}

async fn rewind_to_a_missing_event_is_refused(f: Fixture) {
    four_events(&f).await;
    for id in ["e5", "", "E1"] {
        let outcome = f.service.rewind("s1", id).await;
        assert_error(outcome, ErrorCategory::NotFound, "session.event_not_found");
    }
    assert_eq!(ids(&*f.get("s1").await), ["e1", "e2", "e3", "e4"]);
}

async fn rewind_of_a_missing_session_is_not_found(f: Fixture) {
    for steps in [0, 1] {
        let outcome = f.service.rewind_steps("nowhere", steps).await;
        assert_error(outcome, ErrorCategory::NotFound, "session.not_found");
    }
    let outcome = f.service.rewind("nowhere", "e1").await;
    assert_error(outcome, ErrorCategory::NotFound, "session.not_found");
}

async fn rewind_deletes_nothing(f: Fixture) {
    four_events(&f).await;
    f.service.rewind("s1", "e2").await.unwrap();
    let stored = f.stored("s1").await;
    let hidden: Vec<_> = stored.events.iter().map(|event| event.rewound).collect();
    assert_eq!(hidden, [false, false, true, true, true], "two events and the marker");
    assert_eq!(stored.events[4].rewind_to_sequence, Some(2));
}

async fn rewind_to_an_event_that_was_rewound_is_refused(f: Fixture) {
    four_events(&f).await;
    f.service.rewind("s1", "e2").await.unwrap();
    let outcome = f.service.rewind("s1", "e3").await;
    assert_error(outcome, ErrorCategory::NotFound, "session.event_not_found");
    let again = f.service.rewind("s1", "e2").await.unwrap();
    assert_eq!(ids(&*again), ["e1", "e2"]);
    assert_eq!(ids(&*f.service.rewind("s1", "e1").await.unwrap()), ["e1"]);
}

async fn rewind_by_no_steps_changes_nothing(f: Fixture) {
    four_events(&f).await;
    let before = f.stored("s1").await;
    let session = f.service.rewind_steps("s1", 0).await.unwrap();
    assert_eq!(ids(&*session), ["e1", "e2", "e3", "e4"]);
    assert_eq!(session.state().get("own"), Some(json!(4)));
    assert_eq!(f.stored("s1").await, before);
}

async fn rewind_by_steps_hides_the_newest_events(f: Fixture) {
    four_events(&f).await;
    let session = f.service.rewind_steps("s1", 1).await.unwrap();
    assert_eq!(ids(&*session), ["e1", "e2", "e3"]);
    assert_eq!(session.state().get("own"), Some(json!(3)));
}

async fn rewind_by_all_steps_leaves_the_session_as_created(f: Fixture) {
    four_events(&f).await;
    let session = f.service.rewind_steps("s1", 4).await.unwrap();
    assert!(session.events().is_empty());
    assert_eq!(session.state().get("own"), Some(json!(0)));
    assert_eq!(session.state().get("only1"), None);
}

async fn rewind_by_more_steps_than_there_are_is_refused(f: Fixture) {
    four_events(&f).await;
    for steps in [5, 2000, usize::MAX] {
        let outcome = f.service.rewind_steps("s1", steps).await;
        assert_error(outcome, ErrorCategory::InvalidInput, "session.rewind_too_far");
    }
    assert_eq!(f.get("s1").await.events().len(), 4);
    f.create("s2", json!({})).await;
    let outcome = f.service.rewind_steps("s2", 1).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.rewind_too_far");
}

async fn rewind_by_steps_counts_visible_events(f: Fixture) {
    four_events(&f).await;
    f.service.rewind_steps("s1", 1).await.unwrap();
    f.append("s1", named("e5")).await;
    let session = f.service.rewind_steps("s1", 2).await.unwrap();
    assert_eq!(ids(&*session), ["e1", "e2"], "e5 and e3 go; e4 has gone before");
    let outcome = f.service.rewind_steps("s1", 3).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.rewind_too_far");
}

async fn rewind_in_a_log_of_more_than_a_page(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut events = Vec::new();
    for n in 0..1100 {
        events.push(sessiond_adk::proto::v1::Event {
            event_id: format!("e{n}"),
            ..Default::default()
        });
    }
    for batch in events.chunks(1000) {
        let request = sessiond_adk::proto::v1::AppendEventsRequest {
            key: Some(crate::harness::key("s1")),
            events: batch.to_vec(),
            ..Default::default()
        };
        let channel = f.service.channel();
        sessiond_adk::proto::v1::event_service_client::EventServiceClient::new(channel)
            .append_events(request)
            .await
            .unwrap();
    }
    assert_eq!(f.service.rewind("s1", "e50").await.unwrap().events().len(), 51);
    // Sequence 1101 is the hidden rewind event.
    f.append("s1", named("late")).await;
    assert_eq!(f.service.rewind_steps("s1", 51).await.unwrap().events().len(), 1);
}

async fn rewind_of_an_ambiguous_id_is_refused(f: Fixture) {
    four_events(&f).await;
    let bobs = CreateRequest { user_id: "bob".into(), ..creation("s1", json!({})) };
    f.service.create(bobs).await.unwrap();
    for outcome in [f.service.rewind("s1", "e1").await, f.service.rewind_steps("s1", 1).await] {
        assert_eq!(refused(outcome).code, "session.ambiguous_id");
    }
}

async fn appends_go_on_after_a_rewind(f: Fixture) {
    four_events(&f).await;
    f.service.rewind("s1", "e2").await.unwrap();
    f.append("s1", setting(json!({"own": 10}))).await;
    let session = f.get("s1").await;
    assert_eq!(session.events().len(), 3);
    assert_eq!(session.state().get("own"), Some(json!(10)));
    assert_eq!(session.state().get("only3"), None);
}

async fn steps_count_from_the_newest_event_despite_concurrent_appends(f: Fixture) {
    four_events(&f).await;
    let (proxy, service) = behind(&f.server, Cut::Close, NO_RETRY).await;
    // Another writer appends after the rewind has listed the newest events.
    proxy.hold_after(1);
    let rewinding = tokio::spawn(async move { service.rewind_steps("s1", 1).await });
    proxy.held().await;
    f.append("s1", named("e5")).await;
    proxy.release();
    let session = rewinding.await.unwrap().unwrap();
    assert_eq!(ids(&*session), ["e1", "e2", "e3", "e4"]);
}

async fn a_session_is_rewound_to_a_sequence(f: Fixture) {
    let s1 = identity(APP, USER, "s1");
    f.create("s1", json!({"own": 0})).await;
    // ADK's own rewind would not know which of the two.
    let others = CreateRequest { user_id: "other".into(), ..creation("s1", json!({})) };
    f.service.create(others).await.unwrap();
    for n in 1..=3 {
        f.append("s1", setting(json!({"own": n}))).await;
    }
    let then = f.service.rewind_to(&s1, 2).await.unwrap();
    assert_eq!((then.events().len(), then.state().get("own")), (2, Some(json!(2))));
    let then = f.service.rewind_to(&s1, 0).await.unwrap();
    assert_eq!((then.events().len(), then.state().get("own")), (0, Some(json!(0))));
    let outcome = f.service.rewind_to(&s1, 9).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.beyond_last_sequence");
    let missing = f.service.rewind_to(&identity(APP, USER, "missing"), 0).await;
    assert_error(missing, ErrorCategory::NotFound, "session.not_found");
}
