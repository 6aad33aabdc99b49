//! Doing something again, by event id and by request id.

use sessiond::{
    domain::{
        error::Error,
        event::NewEvent,
        id::{Author, EventId, RequestId},
    },
    store::{Append, RewindSession, StateUpdate},
};

use crate::{bench::*, build::*};

fn reused(id: &str) -> Error {
    Error::EventIdReused(EventId::new(id).unwrap())
}

pub async fn the_same_event_again_is_answered_as_stored(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let full = || NewEvent {
        body: Some(json(r#"{ "text": "hi" }"#)),
        ..event("1", add("n", 1).add("app:n", 1))
    };
    let stored = only_new(bench.append(append("a/u/s", [full()])).await.unwrap());
    bench.put("a/u/s", "2", nothing()).await;
    let before = bench.info("a/u/s").await;
    let again = Append { return_state: true, now: at(5_000), ..append("a/u/s", [full()]) };
    let appended = bench.append(again).await.unwrap();
    assert!(appended.events[0].replayed);
    assert_eq!(appended.events[0].event, stored);
    assert_eq!(appended.info, before);
    assert_eq!(text(&appended.state.unwrap()), r#"{"app:n":1,"n":1}"#);
    assert_eq!(bench.info("a/u/s").await, before);
    assert_eq!(bench.position("a").await.versions.application, 1);
}

pub async fn another_event_of_the_same_id_is_refused(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    bench.put("a/u/s", "1", add("n", 1)).await;
    let other_author =
        NewEvent { author: Author::new("other").unwrap(), ..event("1", add("n", 1)) };
    for other in [event("1", add("n", 2)), event("1", nothing()), other_author] {
        let batch = [event("0", add("n", 5)), other, event("2", nothing())];
        let refused = bench.append(append("a/u/s", batch)).await;
        assert_eq!(refused.unwrap_err(), reused("1"));
    }
    assert_eq!(bench.state("a/u/s").await, r#"{"n":1}"#);
    assert_eq!(bench.info("a/u/s").await.last_sequence, 1);
}

pub async fn an_event_may_come_twice_in_a_batch(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let twice = ["1", "2", "1", "2", "3"].map(|id| event(id, add("n", 1)));
    let appended = bench.append(append("a/u/s", twice)).await.unwrap();
    let answers: Vec<(u64, bool)> = appended
        .events
        .iter()
        .map(|appended| (appended.event.sequence, appended.replayed))
        .collect();
    let expected = [(1, false), (2, false), (1, true), (2, true), (3, false)];
    assert_eq!(answers, expected);
    assert_eq!(appended.events[0].event, appended.events[2].event);
    assert_eq!(bench.state("a/u/s").await, r#"{"n":3}"#);
    let other = [event("4", add("n", 1)), event("4", add("n", 2))];
    let refused = bench.append(append("a/u/s", other)).await;
    assert_eq!(refused.unwrap_err(), reused("4"));
    assert_eq!(bench.info("a/u/s").await.last_sequence, 3);
}

pub async fn replays_and_new_events_mix_in_a_batch(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    bench.put("a/u/s", "1", add("n", 1)).await;
    bench.put("a/u/s", "2", add("n", 1)).await;
    let mixed = ["3", "2", "4", "1"].map(|id| event(id, add("n", 1)));
    let appended = bench.append(append("a/u/s", mixed)).await.unwrap();
    let answers: Vec<(u64, bool)> = appended
        .events
        .iter()
        .map(|appended| (appended.event.sequence, appended.replayed))
        .collect();
    assert_eq!(answers, [(3, false), (2, true), (4, false), (1, true)]);
    assert_eq!(sequences(&bench.log("a/u/s").await), [1, 2, 3, 4]);
    assert_eq!(bench.state("a/u/s").await, r#"{"n":4}"#);
}

pub async fn a_replay_knows_what_a_rewind_hid_since(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    bench.put("a/u/s", "1", nothing()).await;
    bench.put("a/u/s", "2", add("n", 1)).await;
    bench.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    for at in 0..500 {
        bench.append(plain("a/u/s", &format!("later {at}"))).await.unwrap();
    }
    let both = [event("1", nothing()), event("2", add("n", 1))];
    let appended = bench.append(append("a/u/s", both)).await.unwrap();
    let hidden: Vec<(bool, bool)> = appended
        .events
        .iter()
        .map(|appended| (appended.replayed, appended.event.rewound))
        .collect();
    assert_eq!(hidden, [(true, false), (true, true)]);
    assert_eq!(bench.state("a/u/s").await, "{}");
}

pub async fn event_ids_belong_to_one_life_of_one_session(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    bench.new_session("a/u/t", &[]).await;
    bench.put("a/u/s", "1", add("n", 1)).await;
    bench.put("a/u/t", "1", add("n", 2)).await;
    bench.delete_session(address("a/u/s"), NOW).await.unwrap();
    bench.new_session("a/u/s", &[]).await;
    bench.put("a/u/s", "1", add("n", 3)).await;
    assert_eq!(bench.state("a/u/s").await, r#"{"n":3}"#);
}

pub async fn a_rewind_again_is_answered_with_its_marker(bench: &mut Bench) {
    bench.new_session("a/u/s", &[("n", "1")]).await;
    bench.put("a/u/s", "1", add("n", 1)).await;
    let marker = bench.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    assert!(!marker.events[0].replayed);
    bench.put("a/u/s", "2", add("n", 5)).await;
    let before = bench.info("a/u/s").await;
    let late = RewindSession { now: at(9_000), ..rewind("a/u/s", 0, "m") };
    let replay = bench.rewind_session(late).await.unwrap();
    assert!(replay.events[0].replayed);
    assert_eq!(replay.events[0].event, marker.events[0].event);
    assert_eq!(replay.info, before);
    assert_eq!(text(&replay.state.unwrap()), r#"{"n":6}"#);
    let refused = bench.rewind_session(rewind("a/u/s", 1, "m")).await;
    assert_eq!(refused.unwrap_err(), reused("m"));
    let refused = bench.rewind_session(rewind("a/u/s", 0, "1")).await;
    assert_eq!(refused.unwrap_err(), reused("1"));
    let refused = bench.append(plain("a/u/s", "m")).await;
    assert_eq!(refused.unwrap_err(), reused("m"));
    assert_eq!(bench.info("a/u/s").await, before);
}

pub async fn a_request_of_a_session_is_carried_out_once(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let ask = |event_id: &str, content| Append {
        request: request("r", content),
        return_state: true,
        ..append("a/u/s", [event(event_id, add("n", 1))])
    };
    let first = bench.append(ask("1", 1)).await.unwrap();
    assert!(!first.request_replayed);
    assert_eq!(first.events.len(), 1);
    for at in 0..300 {
        bench.append(plain("a/u/s", &format!("later {at}"))).await.unwrap();
    }
    let before = bench.info("a/u/s").await;
    // Its event has another id each time, for the caller did not name one.
    let again = bench.append(ask("2", 1)).await.unwrap();
    assert!(again.request_replayed);
    assert!(again.events.is_empty());
    assert_eq!(again.info, before);
    assert_eq!(text(&again.state.unwrap()), r#"{"n":1}"#);
    let refused = bench.append(ask("3", 2)).await.unwrap_err();
    let id = RequestId::new("r").unwrap();
    assert_eq!(refused, Error::RequestIdReused(id));
    assert_eq!(bench.info("a/u/s").await, before);
}

pub async fn a_request_belongs_to_its_scope(bench: &mut Bench) {
    for path in ["a/u/s", "a/u/t", "a/v/s"] {
        bench.new_session(path, &[]).await;
        let ask = Append { request: request("r", 1), ..append(path, [event("1", add("n", 1))]) };
        assert!(!bench.append(ask).await.unwrap().request_replayed);
    }
    for (path, content) in [("a", 2), ("a/u", 3), ("a/v", 4), ("b", 5), ("b/u", 6)] {
        let ask = |content| StateUpdate {
            request: request("r", content),
            ..update(path, add("app:n", 1))
        };
        assert!(!bench.update_state(ask(content)).await.unwrap().replayed);
        let replay = bench.update_state(ask(content)).await.unwrap();
        assert!(replay.replayed);
        assert_eq!(text(&replay.state), bench.state(path).await);
        let refused = bench.update_state(ask(1)).await.unwrap_err();
        let id = RequestId::new("r").unwrap();
        assert_eq!(refused, Error::RequestIdReused(id));
    }
    assert_eq!(bench.state("a").await, r#"{"app:n":3}"#);
    assert_eq!(bench.position("a").await.versions.application, 3);
}

pub async fn a_request_that_changes_nothing_is_remembered(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    for path in ["a", "a/u"] {
        let ask = || StateUpdate { request: request("r", 1), ..update(path, remove(&["app:k"])) };
        assert!(!bench.update_state(ask()).await.unwrap().replayed);
        let delta = set(&[("app:k", "1")]);
        bench.update_state(update("a", delta)).await.unwrap();
        assert!(bench.update_state(ask()).await.unwrap().replayed);
        assert_eq!(bench.state("a").await, r#"{"app:k":1}"#);
        let delta = remove(&["app:k"]);
        bench.update_state(update("a", delta)).await.unwrap();
    }
}

pub async fn what_was_refused_is_not_remembered(bench: &mut Bench) {
    bench.new_session("a/u/s", &[("s", "\"x\"")]).await;
    let refused = append("a/u/s", [event("1", nothing()), event("2", add("s", 1))]);
    bench.append(refused).await.unwrap_err();
    bench.put("a/u/s", "1", add("n", 1)).await;
    let ask =
        |precondition| Append { precondition, request: request("r", 1), ..plain("a/u/s", "2") };
    bench.append(ask(expect_sequence(9))).await.unwrap_err();
    let accepted = bench.append(ask(expect_sequence(1))).await.unwrap();
    assert!(!accepted.request_replayed);
    let ask = |delta| StateUpdate { request: request("r", 1), ..update("a/u", delta) };
    bench.update_state(update("a/u", set(&[("user:s", "{}")]))).await.unwrap();
    bench.update_state(ask(add("user:s", 1))).await.unwrap_err();
    let accepted = bench.update_state(ask(add("user:n", 1))).await.unwrap();
    assert!(!accepted.replayed);
}
