//! Repeated writes, by event id and by request id.

use sessiond::{
    domain::{
        error::Error,
        event::NewEvent,
        id::{Author, EventId, RequestId},
    },
    store::{Append, StateUpdate},
};

use crate::{fixture::*, requests::*};

fn reused(id: &str) -> Error {
    Error::EventIdReused(EventId::new(id).unwrap())
}

pub async fn a_repeated_event_is_answered_as_stored(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let full = || NewEvent {
        body: Some(json(r#"{ "text": "hi" }"#)),
        ..event("1", add("n", 1).add("app:n", 1))
    };
    let stored = only_new(fixture.append(append("a/u/s", [full()])).await.unwrap());
    fixture.put("a/u/s", "2", nothing()).await;
    let before = fixture.info("a/u/s").await;
    let again = Append { return_state: true, ..append("a/u/s", [full()]) }.at(at(5_000));
    let appended = fixture.append(again).await.unwrap();
    assert!(appended.events[0].replayed);
    assert_eq!(*appended.events[0].event, stored);
    assert_eq!(appended.info, before);
    assert_eq!(text(&appended.state.unwrap()), r#"{"app:n":1,"n":1}"#);
    assert_eq!(fixture.info("a/u/s").await, before);
    assert_eq!(fixture.position("a").await.versions.application, 1);
}

pub async fn a_reused_event_id_is_refused(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", add("n", 1)).await;
    let other_author =
        NewEvent { author: Author::new("other").unwrap(), ..event("1", add("n", 1)) };
    for other in [event("1", add("n", 2)), event("1", nothing()), other_author] {
        let batch = [event("0", add("n", 5)), other, event("2", nothing())];
        let refused = fixture.append(append("a/u/s", batch)).await;
        assert_eq!(refused.unwrap_err(), reused("1"));
    }
    assert_eq!(fixture.state("a/u/s").await, r#"{"n":1}"#);
    assert_eq!(fixture.info("a/u/s").await.last_sequence, 1);
}

pub async fn an_event_may_come_twice_in_a_batch(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let twice = ["1", "2", "1", "2", "3"].map(|id| event(id, add("n", 1)));
    let appended = fixture.append(append("a/u/s", twice)).await.unwrap();
    let answers: Vec<(u64, bool)> = appended
        .events
        .iter()
        .map(|appended| (appended.event.sequence, appended.replayed))
        .collect();
    let expected = [(1, false), (2, false), (1, true), (2, true), (3, false)];
    assert_eq!(answers, expected);
    assert_eq!(appended.events[0].event, appended.events[2].event);
    assert_eq!(fixture.state("a/u/s").await, r#"{"n":3}"#);
    let other = [event("4", add("n", 1)), event("4", add("n", 2))];
    let refused = fixture.append(append("a/u/s", other)).await;
    assert_eq!(refused.unwrap_err(), reused("4"));
    assert_eq!(fixture.info("a/u/s").await.last_sequence, 3);
}

pub async fn replays_and_new_events_mix_in_a_batch(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", add("n", 1)).await;
    fixture.put("a/u/s", "2", add("n", 1)).await;
    let mixed = ["3", "2", "4", "1"].map(|id| event(id, add("n", 1)));
    let appended = fixture.append(append("a/u/s", mixed)).await.unwrap();
    let answers: Vec<(u64, bool)> = appended
        .events
        .iter()
        .map(|appended| (appended.event.sequence, appended.replayed))
        .collect();
    assert_eq!(answers, [(3, false), (2, true), (4, false), (1, true)]);
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1, 2, 3, 4]);
    assert_eq!(fixture.state("a/u/s").await, r#"{"n":4}"#);
}

pub async fn a_replay_tells_whether_the_event_was_rewound(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", nothing()).await;
    fixture.put("a/u/s", "2", add("n", 1)).await;
    fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    for at in 0..500 {
        fixture.append(plain("a/u/s", &format!("later {at}"))).await.unwrap();
    }
    let both = [event("1", nothing()), event("2", add("n", 1))];
    let appended = fixture.append(append("a/u/s", both)).await.unwrap();
    let hidden: Vec<(bool, bool)> = appended
        .events
        .iter()
        .map(|appended| (appended.replayed, appended.event.rewound))
        .collect();
    assert_eq!(hidden, [(true, false), (true, true)]);
    let other = append("a/u/s", [event("2", add("n", 2))]);
    assert_eq!(fixture.append(other).await.unwrap_err(), reused("2"));
    assert_eq!(fixture.state("a/u/s").await, "{}");
}

pub async fn event_ids_belong_to_one_incarnation(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/u/t", &[]).await;
    fixture.put("a/u/s", "1", add("n", 1)).await;
    fixture.put("a/u/t", "1", add("n", 2)).await;
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", add("n", 3)).await;
    assert_eq!(fixture.state("a/u/s").await, r#"{"n":3}"#);
}

pub async fn a_repeated_rewind_is_answered_with_its_marker(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("n", "1")]).await;
    fixture.put("a/u/s", "1", add("n", 1)).await;
    let marker = fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    assert!(!marker.events[0].replayed);
    fixture.put("a/u/s", "2", add("n", 5)).await;
    let before = fixture.info("a/u/s").await;
    let late = rewind("a/u/s", 0, "m").at(at(9_000));
    let replay = fixture.rewind_session(late).await.unwrap();
    assert!(replay.events[0].replayed);
    assert_eq!(replay.events[0].event, marker.events[0].event);
    assert_eq!(replay.info, before);
    assert_eq!(text(&replay.state.unwrap()), r#"{"n":6}"#);
    let refused = fixture.rewind_session(rewind("a/u/s", 1, "m")).await;
    assert_eq!(refused.unwrap_err(), reused("m"));
    let refused = fixture.rewind_session(rewind("a/u/s", 0, "1")).await;
    assert_eq!(refused.unwrap_err(), reused("1"));
    let refused = fixture.append(plain("a/u/s", "m")).await;
    assert_eq!(refused.unwrap_err(), reused("m"));
    assert_eq!(fixture.info("a/u/s").await, before);
}

pub async fn a_session_request_is_applied_once(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let ask = |event_id: &str, content| Append {
        request: request("r", content),
        return_state: true,
        ..append("a/u/s", [event(event_id, add("n", 1))])
    };
    let first = fixture.append(ask("1", 1)).await.unwrap();
    assert!(!first.request_replayed);
    assert_eq!(first.events.len(), 1);
    for at in 0..300 {
        fixture.append(plain("a/u/s", &format!("later {at}"))).await.unwrap();
    }
    let before = fixture.info("a/u/s").await;
    // Its event has another id each time, because the caller did not send one.
    let again = fixture.append(ask("2", 1)).await.unwrap();
    assert!(again.request_replayed);
    assert!(again.events.is_empty());
    assert_eq!(again.info, before);
    assert_eq!(text(&again.state.unwrap()), r#"{"n":1}"#);
    let refused = fixture.append(ask("3", 2)).await.unwrap_err();
    let id = RequestId::new("r").unwrap();
    assert_eq!(refused, Error::RequestIdReused(id));
    assert_eq!(fixture.info("a/u/s").await, before);
}

pub async fn request_ids_belong_to_one_scope(fixture: &mut Fixture) {
    for path in ["a/u/s", "a/u/t", "a/v/s"] {
        fixture.new_session(path, &[]).await;
        let ask = Append { request: request("r", 1), ..append(path, [event("1", add("n", 1))]) };
        assert!(!fixture.append(ask).await.unwrap().request_replayed);
    }
    for (path, content) in [("a", 2), ("a/u", 3), ("a/v", 4), ("b", 5), ("b/u", 6)] {
        let ask = |content| StateUpdate {
            request: request("r", content),
            ..update(path, add("app:n", 1))
        };
        assert!(!fixture.update_state(ask(content)).await.unwrap().replayed);
        let replay = fixture.update_state(ask(content)).await.unwrap();
        assert!(replay.replayed);
        assert_eq!(text(&replay.state), fixture.state(path).await);
        let refused = fixture.update_state(ask(1)).await.unwrap_err();
        let id = RequestId::new("r").unwrap();
        assert_eq!(refused, Error::RequestIdReused(id));
    }
    assert_eq!(fixture.state("a").await, r#"{"app:n":3}"#);
    assert_eq!(fixture.position("a").await.versions.application, 3);
}

pub async fn a_request_that_changes_nothing_is_remembered(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for path in ["a", "a/u"] {
        let ask = || StateUpdate { request: request("r", 1), ..update(path, remove(&["app:k"])) };
        assert!(!fixture.update_state(ask()).await.unwrap().replayed);
        let delta = set(&[("app:k", "1")]);
        fixture.update_state(update("a", delta)).await.unwrap();
        assert!(fixture.update_state(ask()).await.unwrap().replayed);
        assert_eq!(fixture.state("a").await, r#"{"app:k":1}"#);
        let delta = remove(&["app:k"]);
        fixture.update_state(update("a", delta)).await.unwrap();
    }
}

pub async fn a_refused_request_is_not_remembered(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("s", "\"x\"")]).await;
    let refused = append("a/u/s", [event("1", nothing()), event("2", add("s", 1))]);
    fixture.append(refused).await.unwrap_err();
    fixture.put("a/u/s", "1", add("n", 1)).await;
    let ask =
        |precondition| Append { precondition, request: request("r", 1), ..plain("a/u/s", "2") };
    fixture.append(ask(expect_sequence(9))).await.unwrap_err();
    let accepted = fixture.append(ask(expect_sequence(1))).await.unwrap();
    assert!(!accepted.request_replayed);
    let ask = |delta| StateUpdate { request: request("r", 1), ..update("a/u", delta) };
    fixture.update_state(update("a/u", set(&[("user:s", "{}")]))).await.unwrap();
    fixture.update_state(ask(add("user:s", 1))).await.unwrap_err();
    let accepted = fixture.update_state(ask(add("user:n", 1))).await.unwrap();
    assert!(!accepted.replayed);
}
