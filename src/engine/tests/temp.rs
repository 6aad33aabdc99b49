//! `temp:` state.

use futures_util::{
    FutureExt as _,
    future::{LocalBoxFuture, join_all},
};

use super::*;
use crate::domain::{delta::Operation, error::Bounded, field::FieldPath, json::Amount};
use crate::store::RequestContext;

fn add(name: &str) -> Delta {
    let operations = vec![(key(name), Operation::Increment(Amount::Whole(1)))];
    Delta { operations, ..Delta::default() }
}

#[tokio::test]
async fn temp_keys_are_seen_within_their_invocation_and_nowhere_else() {
    let world = world();
    let session = world.create("alice", "s").await;
    let delta = set(&[("a", "1"), ("temp:validation_needed", "true")]);
    let answer = world.append(&session, Some("turn"), delta).await.unwrap();
    let stored = &answer.events[0].event.changes;
    assert_eq!(stored.set.as_ref().unwrap().as_str(), r#"{"a":1}"#);
    assert_eq!(
        answer.state.unwrap().to_json().as_str(),
        r#"{"a":1,"temp:validation_needed":true}"#
    );
    assert_eq!(
        world.state(&session, Some("turn")).await,
        r#"{"a":1,"temp:validation_needed":true}"#
    );
    assert_eq!(world.state(&session, Some("other")).await, r#"{"a":1}"#);
    assert_eq!(world.state(&session, None).await, r#"{"a":1}"#);
    world
        .engine
        .end_invocation(&RequestContext::internal(), session.clone(), invocation("turn"))
        .await
        .unwrap();
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"a":1}"#);
}

#[tokio::test]
async fn without_an_invocation_temp_keys_are_dropped() {
    let world = world();
    let session = world.create("alice", "s").await;
    let answer = world.append(&session, None, set(&[("temp:x", "1")])).await.unwrap();
    assert!(answer.events[0].event.changes.is_empty());
    assert_eq!(world.state(&session, None).await, "{}");
}

#[tokio::test]
async fn operations_on_temp_keys_never_lose_an_update() {
    let world = world();
    let session = world.create("alice", "s").await;
    let appends = (0..50).map(|_| world.append(&session, Some("turn"), add("temp:n")));
    for append in futures(appends).await {
        append.unwrap();
    }
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"temp:n":50}"#);
}

/// Polls all at once.
async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        running.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

#[tokio::test]
async fn what_is_refused_changes_nothing_in_either_place() {
    let world = world();
    let session = world.create("alice", "s").await;
    world.append(&session, Some("turn"), set(&[("temp:x", "\"text\"")])).await.unwrap();
    // The temp part cannot be done: nothing of the stored part is.
    let mut both = add("temp:x");
    both.set.push((key("stored"), json("1")));
    let error = world.append(&session, Some("turn"), both).await.unwrap_err();
    assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
    // The stored part cannot be done: nothing of the temp part is.
    let mut both = add("temp:y");
    world.append(&session, None, set(&[("word", "\"text\"")])).await.unwrap();
    both.operations.push((key("word"), Operation::Increment(Amount::Whole(1))));
    world.append(&session, Some("turn"), both).await.unwrap_err();
    let state = world.state(&session, Some("turn")).await;
    assert_eq!(state, r#"{"word":"text","temp:x":"text"}"#);
}

#[tokio::test]
async fn a_replay_does_not_change_temp_keys_again() {
    let world = world();
    let session = world.create("alice", "s").await;
    let event = named("e", "turn", add("temp:n"));
    for replayed in [false, true, true] {
        let answer = world.append_all(&session, vec![event.clone()]).await.unwrap();
        assert_eq!(answer.events[0].replayed, replayed);
    }
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"temp:n":1}"#);
}

#[tokio::test]
async fn an_hour_without_use_ends_an_invocation_and_use_prolongs_it() {
    let world = world();
    let session = world.create("alice", "s").await;
    world.append(&session, Some("turn"), set(&[("temp:x", "1")])).await.unwrap();
    for _ in 0..3 {
        world.clock.forward(3599);
        assert_eq!(world.state(&session, Some("turn")).await, r#"{"temp:x":1}"#);
    }
    world.clock.forward(3600);
    assert_eq!(world.state(&session, Some("turn")).await, "{}");
    // An append finds nothing of it either.
    world.append(&session, Some("turn"), add("temp:n")).await.unwrap();
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"temp:n":1}"#);
}

#[tokio::test]
async fn a_session_created_anew_has_no_temp_keys_of_its_former_life() {
    let world = world();
    let session = world.create("alice", "s").await;
    world.append(&session, Some("turn"), set(&[("temp:x", "1")])).await.unwrap();
    world.engine.delete_session(&RequestContext::internal(), session.clone().into()).await.unwrap();
    world.create("alice", "s").await;
    assert_eq!(world.state(&session, Some("turn")).await, "{}");
}

#[tokio::test]
async fn bytes_and_number_of_invocations_are_bounded() {
    let options = EngineOptions { temp_bytes: 10, temp_invocations: 2, ..Default::default() };
    let world = world_with(options);
    let session = world.create("alice", "s").await;
    // A name of one byte and a value of nine.
    let full = set(&[("temp:x", "\"1234567\"")]);
    world.append(&session, Some("a"), full).await.unwrap();
    let more = set(&[("temp:x", "\"12345678\"")]);
    let error = world.append(&session, Some("a"), more).await.unwrap_err();
    assert_eq!(error, Error::InvocationTooLarge(10));
    world.append(&session, Some("b"), set(&[("temp:x", "1")])).await.unwrap();
    let error = world.append(&session, Some("c"), set(&[("temp:x", "1")])).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { .. }), "{error}");
    world.clock.forward(3600);
    world.append(&session, Some("c"), set(&[("temp:x", "1")])).await.unwrap();
}

#[tokio::test]
async fn a_partial_event_changes_nothing_and_keeps_its_place_in_a_batch() {
    let world = world();
    let session = world.create("alice", "s").await;
    let partial =
        NewEvent { partial: true, ..event(Some("turn"), set(&[("a", "1"), ("temp:b", "1")])) };
    let stored = event(Some("turn"), set(&[("c", "1")]));
    let answer =
        world.append_all(&session, vec![partial.clone(), stored, partial.clone()]).await.unwrap();
    let sequences: Vec<_> = answer.events.iter().map(|it| it.event.sequence).collect();
    assert_eq!(sequences, [0, 1, 0]);
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"c":1}"#);
    let wrong = Delta {
        operations: vec![(key("c"), Operation::Increment(Amount::Whole(i64::MAX)))],
        ..Delta::default()
    };
    let field = FieldPath::from("events[1].state_delta");
    let mut wrong = event(None, wrong);
    wrong.field = field;
    let error = world.append_all(&session, vec![partial, wrong]).await.unwrap_err();
    let Error::Invalid(violations) = error else { panic!("{error}") };
    assert!(violations[0].field.starts_with("events[1]."), "{violations:?}");
}

fn named(id: &str, turn: &str, delta: Delta) -> NewEvent {
    let mut event = event(Some(turn), delta);
    event.event_id = EventId::new(id).unwrap();
    event
}

#[tokio::test]
async fn a_retry_is_a_replay_also_where_its_temp_part_no_longer_works() {
    let world = world();
    let session = world.create("alice", "s").await;
    let event = named("e", "turn", add("temp:n"));
    world.append_all(&session, vec![event.clone()]).await.unwrap();
    world.append(&session, Some("turn"), set(&[("temp:n", "\"text\"")])).await.unwrap();
    let answer = world.append_all(&session, vec![event]).await.unwrap();
    assert!(answer.events[0].replayed);
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"temp:n":"text"}"#);
}

#[tokio::test]
async fn nothing_is_refused_that_is_committed() {
    let world = world();
    let session = world.create("alice", "s").await;
    let replay = named("e1", "turn", set(&[("temp:x", "1")]));
    world.append_all(&session, vec![replay.clone()]).await.unwrap();
    world.append(&session, Some("turn"), set(&[("temp:x", "\"text\"")])).await.unwrap();
    // Would work behind the first event, which turns out to be a replay and does not set the key again.
    let mut new = named("e2", "turn", add("temp:x"));
    new.delta.set.push((key("stored"), json("1")));
    let answer = world.append_all(&session, vec![replay, new]).await.unwrap();
    let replayed: Vec<_> = answer.events.iter().map(|event| event.replayed).collect();
    assert_eq!(replayed, [true, false]);
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"stored":1,"temp:x":"text"}"#);
}

#[tokio::test]
async fn refused_appends_take_no_place_among_the_invocations() {
    let world = world_with(EngineOptions { temp_invocations: 1, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    for turn in ["a", "b", "c"] {
        let mut refused = set(&[("temp:x", "1"), ("word", "\"text\"")]);
        refused.operations.push((key("word"), Operation::Increment(Amount::Whole(1))));
        let error = world.append(&session, Some(turn), refused).await.unwrap_err();
        assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
    }
    world.append(&session, Some("d"), set(&[("temp:x", "1")])).await.unwrap();
}

#[tokio::test]
async fn a_retry_is_a_replay_also_where_there_is_no_room_for_its_temp_part() {
    let world = world_with(EngineOptions { temp_invocations: 1, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    let first = named("e1", "a", set(&[("temp:x", "1")]));
    world.append_all(&session, vec![first.clone()]).await.unwrap();
    world
        .engine
        .end_invocation(&RequestContext::internal(), session.clone(), invocation("a"))
        .await
        .unwrap();
    world.append(&session, Some("b"), set(&[("temp:x", "1")])).await.unwrap();
    let answer = world.append_all(&session, vec![first.clone()]).await.unwrap();
    assert!(answer.events[0].replayed);
    // Beside something new it is no reason to refuse, and something new without room is.
    let second = named("e2", "b", add("temp:x"));
    let third = named("e3", "c", add("temp:x"));
    let all = vec![first, second, third];
    let error = world.append_all(&session, all.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { what: Bounded::TempInvocations, .. }), "{error}");
    let answer = world.append_all(&session, all[..2].to_vec()).await.unwrap();
    let replayed: Vec<_> = answer.events.iter().map(|event| event.replayed).collect();
    assert_eq!(replayed, [true, false]);
    assert_eq!(world.state(&session, Some("b")).await, r#"{"temp:x":2}"#);
    assert_eq!(world.state(&session, Some("a")).await, "{}");
}

#[tokio::test]
async fn every_event_of_a_batch_needs_a_place_for_its_temp_keys() {
    let world = world_with(EngineOptions { temp_invocations: 1, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    let replay = named("e1", "a", set(&[("temp:x", "1")]));
    world.append_all(&session, vec![replay.clone()]).await.unwrap();
    let end = invocation("a");
    world.engine.end_invocation(&RequestContext::internal(), session.clone(), end).await.unwrap();
    world.append(&session, Some("b"), set(&[("temp:x", "1")])).await.unwrap();
    let new = named("e2", "a", set(&[("temp:y", "1")]));
    let error = world.append_all(&session, vec![replay, new]).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { what: Bounded::TempInvocations, .. }), "{error}");
}

#[tokio::test]
async fn a_deleted_session_gives_back_the_places_of_its_invocations() {
    let world = world_with(EngineOptions { temp_invocations: 2, ..EngineOptions::default() });
    let (gone, kept) = (world.create("alice", "gone").await, world.create("alice", "kept").await);
    for session in [&gone, &kept] {
        world.append(session, Some("a"), set(&[("temp:x", "1")])).await.unwrap();
    }
    let error = world.append(&kept, Some("b"), set(&[("temp:x", "1")])).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { .. }), "{error}");
    world.engine.delete_session(&RequestContext::internal(), gone.into()).await.unwrap();
    world.append(&kept, Some("b"), set(&[("temp:x", "1")])).await.unwrap();
    assert_eq!(world.state(&kept, Some("a")).await, r#"{"temp:x":1}"#);
}

#[tokio::test]
async fn the_bytes_of_all_invocations_are_bounded() {
    let world = world_with(EngineOptions { temp_bytes: 10, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    // A name of one byte and a value of nine.
    let full = set(&[("temp:x", "\"1234567\"")]);
    for turn in 0..256 {
        world.append(&session, Some(&turn.to_string()), full.clone()).await.unwrap();
    }
    let error = world.append(&session, Some("more"), full.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { what: Bounded::TempInvocations, .. }), "{error}");
    let smaller = set(&[("temp:x", "1")]);
    world.append(&session, Some("0"), smaller).await.unwrap();
    let error = world.append(&session, Some("more"), full.clone()).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { .. }), "{error}");
    let end = invocation("1");
    world.engine.end_invocation(&RequestContext::internal(), session.clone(), end).await.unwrap();
    world.append(&session, Some("more"), full).await.unwrap();
}

impl World {
    /// Polls a call once. It holds a lock then, or waits for one: what it has spawned runs when the test waits.
    fn begun<'a, T>(&self, call: impl Future<Output = T> + 'a) -> LocalBoxFuture<'a, T> {
        let mut call = call.boxed_local();
        assert!(call.as_mut().now_or_never().is_none(), "it waits");
        call
    }

    async fn end(&self, session: &SessionKey, turn: &str) {
        let (context, turn) = (RequestContext::internal(), invocation(turn));
        self.engine.end_invocation(&context, session.clone(), turn).await.unwrap();
    }

    fn invocations(&self) -> i64 {
        self.engine.metrics.watches.temp_invocations.get()
    }
}

#[tokio::test]
async fn a_batch_that_is_cancelled_while_it_waits_leaves_nothing_in_the_table() {
    let world = world_with(EngineOptions { temp_invocations: 11, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    let first = world.begun(world.append(&session, Some("z"), add("temp:n")));
    // It has nine invocations, and waits for the tenth.
    let turns = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "z"];
    let batch = turns.map(|turn| event(Some(turn), add("temp:n"))).to_vec();
    let batch = world.begun(world.append_all(&session, batch));
    assert_eq!(world.invocations(), 10);
    drop(batch);
    assert_eq!(world.invocations(), 1);
    // A caller that leaves does not end what it has begun.
    drop(first);
    world.append(&session, Some("z"), add("temp:n")).await.unwrap();
    assert_eq!(world.state(&session, Some("z")).await, r#"{"temp:n":2}"#);
    assert_eq!(world.invocations(), 1);
}

#[tokio::test]
async fn an_invocation_ends_after_the_appends_before_it_and_before_those_that_follow() {
    let world = world();
    let session = world.create("alice", "s").await;
    let first = world.begun(world.append(&session, Some("turn"), add("temp:n")));
    let second = world.begun(world.append(&session, Some("turn"), add("temp:n")));
    let end = world.begun(world.end(&session, "turn"));
    let third = world.begun(world.append(&session, Some("turn"), add("temp:n")));
    let (appended, ()) = tokio::join!(join_all([first, second, third]), end);
    assert!(appended.iter().all(Result::is_ok));
    assert_eq!(world.state(&session, Some("turn")).await, r#"{"temp:n":1}"#);
    assert_eq!(world.invocations(), 1);
    world.end(&session, "turn").await;
    assert_eq!(world.invocations(), 0);
}

#[tokio::test]
async fn appends_at_the_same_time_do_not_exceed_the_bytes_of_all() {
    let world = world_with(EngineOptions { temp_bytes: 10, ..EngineOptions::default() });
    let session = world.create("alice", "s").await;
    let full = set(&[("temp:x", "\"1234567\"")]);
    let turns: Vec<_> = (0..300).map(|turn| turn.to_string()).collect();
    let append = |turn| world.begun(world.append(&session, Some(turn), full.clone()));
    let appended = join_all(turns.iter().map(|turn| append(turn.as_str()))).await;
    assert_eq!(appended.iter().filter(|it| it.is_ok()).count(), 256);
    assert_eq!(world.engine.metrics.watches.temp_bytes.get(), 2560);
    assert_eq!(world.invocations(), 256);
    world.end(&session, "0").await;
    // What the store refuses gives its bytes back.
    let mut refused = full.clone();
    refused.set.push((key("word"), json("\"text\"")));
    refused.operations.push((key("word"), Operation::Increment(Amount::Whole(1))));
    world.append(&session, Some("more"), refused).await.unwrap_err();
    world.append(&session, Some("more"), full.clone()).await.unwrap();
    world.append(&session, Some("one more"), full).await.unwrap_err();
    // So does a smaller value.
    let smaller = set(&[("temp:x", "1")]);
    world.append(&session, Some("one more"), smaller.clone()).await.unwrap_err();
    world.append(&session, Some("1"), smaller.clone()).await.unwrap();
    world.append(&session, Some("one more"), smaller).await.unwrap();
}
