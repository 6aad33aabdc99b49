//! Sessions made from another's past.

use sessiond::{
    domain::{
        error::Error,
        event::{Event, NewEvent},
        id::DisplayName,
        session::ForkOrigin,
    },
    store::{Append, CreateSession},
};

use crate::{fixture::*, requests::*};

/// A session with a rewind in the middle of its log: 1, 2, 3, back to 1, 5, 6.
async fn source(fixture: &Fixture) -> Vec<Event> {
    let create = CreateSession {
        labels: labels(&[("team", "red")]),
        display_name: DisplayName::new("name").unwrap(),
        expiration: ends(at(100_000)),
        ..create("a/u/s", &[("k", "0"), ("app:k", "0"), ("gone", "0")])
    };
    fixture.create_session(create).await.unwrap();
    for id in ["1", "2", "3"] {
        let event = NewEvent {
            event_time: Some(at(5)),
            ..event(id, add("k", 1).add("app:k", 1).remove(&["gone"]))
        };
        let now = at(1_000 + id.parse::<i64>().unwrap());
        fixture.append(append("a/u/s", [event]).at(now)).await.unwrap();
    }
    fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    fixture.put("a/u/s", "5", add("k", 10)).await;
    fixture.put("a/u/s", "6", add("user:k", 1).add("k", 100)).await;
    fixture.whole_log("a/u/s").await
}

pub async fn a_fork_copies_all_or_a_part(fixture: &mut Fixture) {
    let log = source(fixture).await;
    for (up_to, taken, own) in [
        (None, 6, r#""k":111"#),
        (Some(6), 6, r#""k":111"#),
        (Some(5), 5, r#""k":11"#),
        (Some(4), 4, r#""k":1"#),
        (Some(3), 3, r#""k":3"#),
        (Some(1), 1, r#""k":1"#),
        (Some(0), 0, r#""gone":0,"k":0"#),
    ] {
        let id = format!("{up_to:?}");
        let path = format!("a/u/{id}");
        let asked = fork("a/u/s", up_to, &id).at(at(7_000));
        let (forked, merged) = fixture.fork_session(asked).await.unwrap();
        // Shared state is what it is now.
        let state = format!(r#"{{"app:k":3,"user:k":1,{own}}}"#);
        assert_eq!(text(&merged), state);
        assert_eq!(fixture.state(&path).await, state);
        let info = fixture.info(&path).await;
        assert_eq!(forked, info);
        assert_eq!(info.key, address(&path));
        assert_eq!(info.last_sequence, taken);
        assert_eq!(info.create_time, at(7_000));
        assert_eq!(info.update_time, at(7_000));
        assert_eq!(info.labels, labels(&[("team", "red")]));
        assert_eq!(info.display_name.as_str(), "name");
        assert_eq!(info.expire_time, Some(at(100_000)));
        let origin = ForkOrigin { key: address("a/u/s"), sequence: taken };
        assert_eq!(info.forked_from, Some(origin));
        let newest = log[..taken as usize].last();
        let last_event_time = newest.map_or(at(7_000), |event| event.event_time);
        assert_eq!(info.last_event_time, last_event_time);
        let copied = fixture.whole_log(&path).await;
        assert_eq!(copied.len() as u64, taken);
        for (copy, original) in copied.iter().zip(&log) {
            let original = Event { rewound: copy.rewound, ..original.clone() };
            assert_eq!(*copy, original);
        }
    }
    let hidden = |log: Vec<Event>| -> Vec<u64> {
        let hidden = log.into_iter().filter(|event| event.rewound);
        hidden.map(|event| event.sequence).collect()
    };
    assert_eq!(hidden(fixture.whole_log("a/u/None").await), [2, 3, 4]);
    assert_eq!(hidden(fixture.whole_log("a/u/Some(3)").await), [0; 0]);
    let incarnations = fixture.list_sessions(sessions("a")).await.unwrap().sessions;
    let incarnations: std::collections::BTreeSet<_> =
        incarnations.iter().map(|(info, _)| info.incarnation).collect();
    assert_eq!(incarnations.len(), 8);
}

pub async fn a_fork_has_its_sources_past(fixture: &mut Fixture) {
    source(fixture).await;
    fixture.fork_session(fork("a/u/s", Some(5), "t")).await.unwrap();
    fixture.put("a/u/t", "own", add("k", 1000).add("app:k", 1)).await;
    for sequence in 0..=5 {
        let there = fixture.state_as_of("a/u/s", sequence).await;
        let here = fixture.state_as_of("a/u/t", sequence).await;
        assert_eq!(here, there, "as of {sequence}");
    }
    assert_eq!(fixture.state_as_of("a/u/t", 6).await, r#"{"app:k":4,"user:k":1,"k":1011}"#);
    assert_eq!(sequences(&fixture.log("a/u/t").await), [1, 5, 6]);
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1, 5, 6]);
    let info = fixture.info("a/u/s").await;
    assert_eq!(info.last_sequence, 6);
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:k":4,"user:k":1,"k":111}"#);
}

pub async fn a_fork_has_only_the_ids_of_copied_events(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3"] {
        fixture.put("a/u/s", id, add("k", 1)).await;
    }
    let asked = Append { request: request("r", 1), ..plain("a/u/s", "4") };
    fixture.append(asked).await.unwrap();
    fixture.rewind_session(rewind("a/u/s", 3, "m")).await.unwrap();
    fixture.fork_session(fork("a/u/s", Some(2), "t")).await.unwrap();
    let again = append("a/u/t", [event("2", add("k", 1))]);
    let replay = fixture.append(again).await.unwrap();
    assert!(replay.events[0].replayed);
    assert_eq!(replay.events[0].event.sequence, 2);
    let other = append("a/u/t", [event("2", add("k", 5))]);
    let refused = fixture.append(other).await.unwrap_err();
    assert!(matches!(refused, Error::EventIdReused(_)), "{refused}");
    assert_eq!(fixture.put("a/u/t", "3", add("k", 9)).await.sequence, 3);
    // A request is its own scope's.
    let asked = Append { request: request("r", 2), ..plain("a/u/t", "4") };
    assert!(!fixture.append(asked).await.unwrap().request_replayed);
    fixture.fork_session(fork("a/u/s", None, "all")).await.unwrap();
    let replay = fixture.rewind_session(rewind("a/u/all", 3, "m")).await.unwrap();
    assert!(replay.events[0].replayed);
    assert_eq!(fixture.info("a/u/all").await.last_sequence, 5);
}

pub async fn a_fork_can_be_rewound_and_forked(fixture: &mut Fixture) {
    source(fixture).await;
    fixture.fork_session(fork("a/u/s", None, "t")).await.unwrap();
    fixture.rewind_session(rewind("a/u/t", 3, "back")).await.unwrap();
    assert_eq!(sequences(&fixture.log("a/u/t").await), [1, 2, 3]);
    assert_eq!(fixture.state("a/u/t").await, r#"{"app:k":3,"user:k":1,"k":3}"#);
    fixture.rewind_session(rewind("a/u/t", 0, "start")).await.unwrap();
    let start = r#"{"app:k":3,"user:k":1,"gone":0,"k":0}"#;
    assert_eq!(fixture.state("a/u/t").await, start);
    let (forked, _) = fixture.fork_session(fork("a/u/t", Some(7), "tt")).await.unwrap();
    let origin = forked.forked_from.unwrap();
    assert_eq!((origin.key, origin.sequence), (address("a/u/t"), 7));
    assert_eq!(sequences(&fixture.log("a/u/tt").await), [1, 2, 3]);
}

/// The source is rewound at sequences that the fork uses for other events.
pub async fn later_rewinds_of_the_source_do_not_affect_a_fork(fixture: &mut Fixture) {
    source(fixture).await;
    fixture.fork_session(fork("a/u/s", Some(3), "t")).await.unwrap();
    for id in ["4", "5", "6"] {
        fixture.put("a/u/t", id, add("k", 1)).await;
    }
    assert_eq!(sequences(&fixture.log("a/u/t").await), [1, 2, 3, 4, 5, 6]);
    assert!(fixture.whole_log("a/u/t").await.iter().all(|event| !event.rewound));
    assert_eq!(fixture.state_as_of("a/u/t", 4).await, r#"{"app:k":3,"user:k":1,"k":4}"#);
}

pub async fn a_fork_outlives_its_source(fixture: &mut Fixture) {
    source(fixture).await;
    fixture.fork_session(fork("a/u/s", Some(3), "t")).await.unwrap();
    let before = fixture.whole_log("a/u/t").await;
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    fixture.sweep_all(NOW).await;
    assert_eq!(fixture.whole_log("a/u/t").await, before);
    assert_eq!(fixture.state_as_of("a/u/t", 2).await, r#"{"app:k":2,"k":2}"#);
    assert!(fixture.info("a/u/t").await.forked_from.is_some());
    let listed = fixture.list_key_changes(changes("a/u/t", "k")).await.unwrap();
    assert_eq!(listed.changes.len(), 4);
    fixture.new_session("a/u/s", &[]).await;
    assert_eq!(fixture.whole_log("a/u/t").await, before);
}

pub async fn a_fork_needs_a_source_and_a_free_address(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/u/t", &[]).await;
    let refused = fixture.fork_session(fork("a/u/missing", None, "x")).await;
    assert_eq!(refused.unwrap_err(), Error::not_found(&address("a/u/missing")));
    for taken in ["s", "t"] {
        let refused = fixture.fork_session(fork("a/u/s", None, taken)).await;
        let path = format!("a/u/{taken}");
        assert_eq!(refused.unwrap_err(), Error::SessionExists(address(&path)));
    }
    // An expired session does not hold its address.
    let short = CreateSession { expiration: ends(at(1_001)), ..create("a/u/x", &[("old", "1")]) };
    fixture.create_session(short).await.unwrap();
    let late = fork("a/u/s", None, "x").at(at(1_001));
    fixture.fork_session(late).await.unwrap();
    assert_eq!(fixture.state("a/u/x").await, "{}");
}

/// The times of a session never go back, also if the clock does.
pub async fn a_fork_is_not_older_than_its_events(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let late = plain("a/u/s", "1").at(at(5_000));
    fixture.append(late).await.unwrap();
    let (forked, _) = fixture.fork_session(fork("a/u/s", None, "t")).await.unwrap();
    assert_eq!(forked.update_time, at(5_000));
    let next = only_new(fixture.append(plain("a/u/t", "2")).await.unwrap());
    assert_eq!(next.commit_time, at(5_000));
}
