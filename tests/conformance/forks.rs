//! Sessions made from another's past.

use sessiond::{
    domain::{
        error::Error,
        event::{Event, NewEvent},
        id::DisplayName,
        session::ForkOrigin,
    },
    store::{Append, CreateSession, ForkSession},
};

use crate::{bench::*, build::*};

/// A session with a rewind in the middle of its log: 1, 2, 3, back to 1, 5, 6.
async fn source(bench: &Bench) -> Vec<Event> {
    let create = CreateSession {
        labels: labels(&[("team", "red")]),
        display_name: DisplayName::new("name").unwrap(),
        expire_time: Some(at(100_000)),
        ..create("a/u/s", &[("k", "0"), ("app:k", "0"), ("gone", "0")])
    };
    bench.create_session(create).await.unwrap();
    for id in ["1", "2", "3"] {
        let timed = Append {
            now: at(1_000 + id.parse::<i64>().unwrap()),
            ..append(
                "a/u/s",
                [NewEvent {
                    event_time: Some(at(5)),
                    ..event(id, add("k", 1).add("app:k", 1).remove(&["gone"]))
                }],
            )
        };
        bench.append(timed).await.unwrap();
    }
    bench.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    bench.put("a/u/s", "5", add("k", 10)).await;
    bench.put("a/u/s", "6", add("user:k", 1).add("k", 100)).await;
    bench.whole_log("a/u/s").await
}

pub async fn a_fork_takes_over_all_or_a_part(bench: &mut Bench) {
    let log = source(bench).await;
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
        let asked = ForkSession { now: at(7_000), ..fork("a/u/s", up_to, &id) };
        let view = bench.fork_session(asked).await.unwrap();
        // Shared state is what it is now.
        let state = format!(r#"{{"app:k":3,"user:k":1,{own}}}"#);
        assert_eq!(text(&view.state.unwrap()), state);
        assert_eq!(bench.state(&path).await, state);
        let info = bench.info(&path).await;
        assert_eq!(view.info, info);
        assert_eq!(info.key, address(&path));
        assert_eq!(info.last_sequence, taken);
        assert_eq!(info.create_time, at(7_000));
        assert_eq!(info.update_time, at(7_000));
        assert_eq!(info.labels, labels(&[("team", "red")]));
        assert_eq!(info.display_name.as_str(), "");
        assert_eq!(info.expire_time, None);
        let origin = ForkOrigin { key: address("a/u/s"), sequence: taken };
        assert_eq!(info.forked_from, Some(origin));
        let newest = log[..taken as usize].last();
        let last_event_time = newest.map_or(at(7_000), |event| event.event_time);
        assert_eq!(info.last_event_time, last_event_time);
        let copied = bench.whole_log(&path).await;
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
    assert_eq!(hidden(bench.whole_log("a/u/None").await), [2, 3, 4]);
    assert_eq!(hidden(bench.whole_log("a/u/Some(3)").await), [0; 0]);
    let incarnations = bench.list_sessions(sessions("a")).await.unwrap().sessions;
    let incarnations: std::collections::BTreeSet<_> =
        incarnations.iter().map(|(info, _)| info.incarnation).collect();
    assert_eq!(incarnations.len(), 8);
}

pub async fn a_fork_has_its_sources_past(bench: &mut Bench) {
    source(bench).await;
    bench.fork_session(fork("a/u/s", Some(5), "t")).await.unwrap();
    bench.put("a/u/t", "own", add("k", 1000).add("app:k", 1)).await;
    for sequence in 0..=5 {
        let there = bench.state_as_of("a/u/s", sequence).await;
        let here = bench.state_as_of("a/u/t", sequence).await;
        assert_eq!(here, there, "as of {sequence}");
    }
    assert_eq!(bench.state_as_of("a/u/t", 6).await, r#"{"app:k":4,"user:k":1,"k":1011}"#);
    assert_eq!(sequences(&bench.log("a/u/t").await), [1, 5, 6]);
    assert_eq!(sequences(&bench.log("a/u/s").await), [1, 5, 6]);
    let info = bench.info("a/u/s").await;
    assert_eq!(info.last_sequence, 6);
    assert_eq!(bench.state("a/u/s").await, r#"{"app:k":4,"user:k":1,"k":111}"#);
}

pub async fn a_fork_knows_the_ids_that_it_took_over_and_no_others(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3"] {
        bench.put("a/u/s", id, add("k", 1)).await;
    }
    let asked = Append { request: request("r", 1), ..plain("a/u/s", "4") };
    bench.append(asked).await.unwrap();
    bench.rewind_session(rewind("a/u/s", 3, "m")).await.unwrap();
    bench.fork_session(fork("a/u/s", Some(2), "t")).await.unwrap();
    let again = append("a/u/t", [event("2", add("k", 1))]);
    let replay = bench.append(again).await.unwrap();
    assert!(replay.events[0].replayed);
    assert_eq!(replay.events[0].event.sequence, 2);
    let other = append("a/u/t", [event("2", add("k", 5))]);
    let refused = bench.append(other).await.unwrap_err();
    assert!(matches!(refused, Error::EventIdReused(_)), "{refused}");
    assert_eq!(bench.put("a/u/t", "3", add("k", 9)).await.sequence, 3);
    // A request is its own scope's.
    let asked = Append { request: request("r", 2), ..plain("a/u/t", "4") };
    assert!(!bench.append(asked).await.unwrap().request_replayed);
    bench.fork_session(fork("a/u/s", None, "all")).await.unwrap();
    let replay = bench.rewind_session(rewind("a/u/all", 3, "m")).await.unwrap();
    assert!(replay.events[0].replayed);
    assert_eq!(bench.info("a/u/all").await.last_sequence, 5);
}

pub async fn a_fork_can_be_rewound_and_forked(bench: &mut Bench) {
    source(bench).await;
    bench.fork_session(fork("a/u/s", None, "t")).await.unwrap();
    bench.rewind_session(rewind("a/u/t", 3, "back")).await.unwrap();
    assert_eq!(sequences(&bench.log("a/u/t").await), [1, 2, 3]);
    assert_eq!(bench.state("a/u/t").await, r#"{"app:k":3,"user:k":1,"k":3}"#);
    bench.rewind_session(rewind("a/u/t", 0, "start")).await.unwrap();
    let start = r#"{"app:k":3,"user:k":1,"gone":0,"k":0}"#;
    assert_eq!(bench.state("a/u/t").await, start);
    let view = bench.fork_session(fork("a/u/t", Some(7), "tt")).await.unwrap();
    let origin = view.info.forked_from.unwrap();
    assert_eq!((origin.key, origin.sequence), (address("a/u/t"), 7));
    assert_eq!(sequences(&bench.log("a/u/tt").await), [1, 2, 3]);
}

/// The source went back later, at sequences that the fork uses for other things.
pub async fn what_the_source_hid_later_shows_in_the_fork(bench: &mut Bench) {
    source(bench).await;
    bench.fork_session(fork("a/u/s", Some(3), "t")).await.unwrap();
    for id in ["4", "5", "6"] {
        bench.put("a/u/t", id, add("k", 1)).await;
    }
    assert_eq!(sequences(&bench.log("a/u/t").await), [1, 2, 3, 4, 5, 6]);
    assert!(bench.whole_log("a/u/t").await.iter().all(|event| !event.rewound));
    assert_eq!(bench.state_as_of("a/u/t", 4).await, r#"{"app:k":3,"user:k":1,"k":4}"#);
}

pub async fn a_fork_outlives_its_source(bench: &mut Bench) {
    source(bench).await;
    bench.fork_session(fork("a/u/s", Some(3), "t")).await.unwrap();
    let before = bench.whole_log("a/u/t").await;
    bench.delete_session(address("a/u/s"), NOW).await.unwrap();
    bench.sweep_all(NOW).await;
    assert_eq!(bench.whole_log("a/u/t").await, before);
    assert_eq!(bench.state_as_of("a/u/t", 2).await, r#"{"app:k":2,"k":2}"#);
    assert!(bench.info("a/u/t").await.forked_from.is_some());
    let listed = bench.list_key_changes(changes("a/u/t", "k")).await.unwrap();
    assert_eq!(listed.changes.len(), 4);
    bench.new_session("a/u/s", &[]).await;
    assert_eq!(bench.whole_log("a/u/t").await, before);
}

pub async fn a_fork_needs_a_source_and_a_free_address(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    bench.new_session("a/u/t", &[]).await;
    let refused = bench.fork_session(fork("a/u/missing", None, "x")).await;
    assert_eq!(refused.unwrap_err(), Error::not_found(&address("a/u/missing")));
    for taken in ["s", "t"] {
        let refused = bench.fork_session(fork("a/u/s", None, taken)).await;
        let path = format!("a/u/{taken}");
        assert_eq!(refused.unwrap_err(), Error::SessionExists(address(&path)));
    }
    // An expired session does not hold its address.
    let short = CreateSession { expire_time: Some(at(1_001)), ..create("a/u/x", &[("old", "1")]) };
    bench.create_session(short).await.unwrap();
    let late = ForkSession { now: at(1_001), ..fork("a/u/s", None, "x") };
    bench.fork_session(late).await.unwrap();
    assert_eq!(bench.state("a/u/x").await, "{}");
}

/// Also where the clock went back between the two, times within a session do not.
pub async fn a_fork_is_not_older_than_its_events(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let late = Append { now: at(5_000), ..plain("a/u/s", "1") };
    bench.append(late).await.unwrap();
    let view = bench.fork_session(fork("a/u/s", None, "t")).await.unwrap();
    assert_eq!(view.info.update_time, at(5_000));
    let next = only_new(bench.append(plain("a/u/t", "2")).await.unwrap());
    assert_eq!(next.commit_time, at(5_000));
}
