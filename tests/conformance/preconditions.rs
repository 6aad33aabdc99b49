//! What must hold at a commit.

use sessiond::{
    domain::{
        Version,
        error::{Error, SequenceConflict},
        precondition::{Condition, Precondition},
    },
    store::{Append, RewindSession, StateUpdate},
};

use crate::{fixture::*, requests::*};

fn conflict(sequence: Option<(Version, Version)>, keys: &[&str]) -> Error {
    let sequence = sequence.map(|(expected, actual)| SequenceConflict { expected, actual });
    Error::Conflict { sequence, keys: keys.iter().map(|name| key(name)).collect() }
}

fn guarded(path: &str, id: &str, precondition: Precondition) -> Append {
    Append { precondition, ..plain(path, id) }
}

pub async fn expected_sequence_is_the_last_sequence_of_a_session(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("app:k", "1")]).await;
    for sequence in 0..3u64 {
        let id = sequence.to_string();
        for wrong in [sequence + 1, 7, sequence.saturating_sub(1)] {
            if wrong != sequence {
                let refused = fixture.append(guarded("a/u/s", &id, expect_sequence(wrong)));
                let expected = conflict(Some((wrong, sequence)), &[]);
                assert_eq!(refused.await.unwrap_err(), expected);
            }
        }
        let accepted = fixture.append(guarded("a/u/s", &id, expect_sequence(sequence)));
        assert_eq!(accepted.await.unwrap().info.last_sequence, sequence + 1);
    }
}

pub async fn expected_sequence_is_the_version_of_a_wider_scope(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("app:k", "1"), ("user:k", "1")]).await;
    fixture.put("a/u/s", "1", set(&[("app:k", "2")])).await;
    let guarded = |path: &str, version| StateUpdate {
        precondition: expect_sequence(version),
        ..update(path, nothing())
    };
    let refused = fixture.update_state(guarded("a", 1)).await;
    assert_eq!(refused.unwrap_err(), conflict(Some((1, 2)), &[]));
    fixture.update_state(guarded("a", 2)).await.unwrap();
    let refused = fixture.update_state(guarded("a/u", 2)).await;
    assert_eq!(refused.unwrap_err(), conflict(Some((2, 1)), &[]));
    fixture.update_state(guarded("a/u", 1)).await.unwrap();
    fixture.update_state(guarded("a/other", 0)).await.unwrap();
    fixture.update_state(guarded("b", 0)).await.unwrap();
}

pub async fn every_key_condition_works_in_every_scope(fixture: &mut Fixture) {
    for (app, wide, name) in
        [("a", Some("a"), "app:k"), ("b", Some("b/u"), "user:k"), ("c", None, "k")]
    {
        let path = &*format!("{app}/u/s");
        fixture.new_session(path, &[]).await;
        fixture.put(path, "1", nothing()).await;
        let value = r#"{"a":[1],"b":null}"#;
        fixture.put(path, "2", set(&[(name, value)])).await;
        let missing = &*format!("{name}2");
        let version = if name == "k" { 2 } else { 1 };
        for condition in [
            (name, Condition::Exists(false)),
            (name, Condition::Version(version - 1)),
            (name, Condition::Version(version + 1)),
            (name, Condition::Value(json(r#"{"b":null,"a":1}"#))),
            (missing, Condition::Exists(true)),
            (missing, Condition::Version(0)),
            (missing, Condition::Value(json("null"))),
        ] {
            let expected = conflict(None, &[condition.0]);
            let precondition = expect_keys(&[condition]);
            let append = guarded(path, "never", precondition.clone());
            assert_eq!(fixture.append(append).await.unwrap_err(), expected);
            let rewind =
                RewindSession { precondition: precondition.clone(), ..rewind(path, 0, "never") };
            assert_eq!(fixture.rewind_session(rewind).await.unwrap_err(), expected);
            if let Some(wide) = wide {
                let update =
                    StateUpdate { precondition, ..update(wide, set(&[("app:never", "1")])) };
                assert_eq!(fixture.update_state(update).await.unwrap_err(), expected);
            }
        }
        assert_eq!(fixture.info(path).await.last_sequence, 2);
        assert!(!fixture.state(app).await.contains("never"));
        let holding = expect_keys(&[
            (name, Condition::Exists(true)),
            (name, Condition::Version(version)),
            (name, Condition::Value(json(r#"{"b":null, "a":[1.0]}"#))),
            (missing, Condition::Exists(false)),
        ]);
        if let Some(wide) = wide {
            let update = StateUpdate { precondition: holding.clone(), ..update(wide, nothing()) };
            fixture.update_state(update).await.unwrap();
        }
        let append = guarded(path, "3", holding.clone());
        only_new(fixture.append(append).await.unwrap());
        let rewind = RewindSession { precondition: holding, ..rewind(path, 1, "4") };
        fixture.rewind_session(rewind).await.unwrap();
    }
}

pub async fn a_key_set_at_creation_has_version_0(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "1")]).await;
    let precondition = expect_keys(&[("k", Condition::Version(0))]);
    let accepted = fixture.append(guarded("a/u/s", "1", precondition)).await;
    only_new(accepted.unwrap());
}

pub async fn all_failed_conditions_are_reported_and_nothing_is_written(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "1"), ("app:k", "1")]).await;
    let keys = [
        ("app:k", Condition::Value(json("2"))),
        ("k", Condition::Exists(true)),
        ("user:k", Condition::Exists(true)),
        ("k", Condition::Version(7)),
        ("user:k", Condition::Version(0)),
    ];
    let precondition = Precondition { expected_sequence: Some(4), ..expect_keys(&keys) };
    let delta = set(&[("k", "9"), ("app:k", "9"), ("user:k", "9")]);
    let refused =
        Append { precondition: precondition.clone(), ..append("a/u/s", [event("1", delta)]) };
    let expected = conflict(Some((4, 0)), &["app:k", "user:k", "k"]);
    assert_eq!(fixture.append(refused).await.unwrap_err(), expected);
    let refused = RewindSession { precondition, ..rewind("a/u/s", 0, "m") };
    assert_eq!(fixture.rewind_session(refused).await.unwrap_err(), expected);
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:k":1,"k":1}"#);
    assert_eq!(fixture.info("a/u/s").await.last_sequence, 0);
    assert_eq!(fixture.position("a/u").await.versions.application, 1);
    assert_eq!(fixture.position("a/u").await.versions.user, 0);
}

pub async fn a_batch_is_checked_once_before_its_first_event(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "1")]).await;
    let keys = [("k", Condition::Value(json("1")))];
    let precondition = Precondition { expected_sequence: Some(0), ..expect_keys(&keys) };
    let events = [event("1", add("k", 1)), event("2", add("k", 1))];
    let batch = Append { precondition, ..append("a/u/s", events) };
    assert_eq!(fixture.append(batch).await.unwrap().info.last_sequence, 2);
}

pub async fn replays_are_not_checked(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", nothing()).await;
    fixture.put("a/u/s", "2", nothing()).await;
    let marker = fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    let impossible = || Precondition {
        expected_sequence: Some(99),
        ..expect_keys(&[("k", Condition::Exists(true))])
    };
    let replay = fixture.append(guarded("a/u/s", "1", impossible())).await;
    assert!(replay.unwrap().events[0].replayed);
    let both = Append {
        precondition: impossible(),
        ..append("a/u/s", ["2", "1", "2"].map(|id| event(id, nothing())))
    };
    let replays = fixture.append(both).await.unwrap().events;
    assert!(replays.iter().all(|appended| appended.replayed));
    let replay = RewindSession { precondition: impossible(), ..rewind("a/u/s", 1, "m") };
    let replay = fixture.rewind_session(replay).await.unwrap();
    assert_eq!(replay.events[0].event, marker.events[0].event);
    // With one new event among replays, everything is checked.
    let mixed = Append {
        precondition: impossible(),
        ..append("a/u/s", ["1", "3"].map(|id| event(id, nothing())))
    };
    let expected = conflict(Some((99, 3)), &["k"]);
    assert_eq!(fixture.append(mixed).await.unwrap_err(), expected);
    for path in ["a", "a/u"] {
        let request =
            || StateUpdate { request: request("r", 1), ..update(path, set(&[("app:x", "1")])) };
        fixture.update_state(request()).await.unwrap();
        let replay = StateUpdate { precondition: impossible(), ..request() };
        assert!(fixture.update_state(replay).await.unwrap().replayed);
    }
    let request = || Append { request: request("r", 1), ..plain("a/u/s", "4") };
    fixture.append(request()).await.unwrap();
    let replay = Append { precondition: impossible(), ..request() };
    assert!(fixture.append(replay).await.unwrap().request_replayed);
}

/// A reused id is no replay: the precondition comes first.
pub async fn a_precondition_comes_before_a_reused_id(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", nothing()).await;
    let reused =
        Append { precondition: expect_sequence(7), ..append("a/u/s", [event("1", add("k", 1))]) };
    let expected = conflict(Some((7, 1)), &[]);
    assert_eq!(fixture.append(reused).await.unwrap_err(), expected);
}
