//! A session as it was at each of its events.

use sessiond::{
    domain::{error::Error, event::NewEvent},
    store::SessionQuery,
};

use crate::{fixture::*, requests::*};

fn as_of(path: &str, sequence: u64) -> SessionQuery {
    SessionQuery { as_of: Some(sequence), events: Some(everything()), ..read(path) }
}

pub async fn every_event_left_its_state_also_in_a_batch(fixture: &mut Fixture) {
    let state = [("app:k", "0"), ("user:k", "0"), ("k", "0"), ("gone", "0")];
    fixture.new_session("a/u/s", &state).await;
    let all = |value: &str| set(&[("app:k", value), ("user:k", value), ("k", value)]);
    let batch = [
        event("1", all("1")),
        event("2", set(&[("new", "2")]).remove(&["gone", "user:k"])),
        event("3", nothing()),
        event("4", all("4").remove(&["new"])),
    ];
    fixture.append(append("a/u/s", batch)).await.unwrap();
    fixture.put("a/u/s", "5", set(&[("gone", "5")])).await;
    let states = [
        r#"{"app:k":0,"user:k":0,"gone":0,"k":0}"#,
        r#"{"app:k":1,"user:k":1,"gone":0,"k":1}"#,
        r#"{"app:k":1,"k":1,"new":2}"#,
        r#"{"app:k":1,"k":1,"new":2}"#,
        r#"{"app:k":4,"user:k":4,"k":4}"#,
        r#"{"app:k":4,"user:k":4,"gone":5,"k":4}"#,
    ];
    for (sequence, expected) in states.iter().enumerate() {
        let state = fixture.state_as_of("a/u/s", sequence as u64).await;
        assert_eq!(state, *expected, "as of {sequence}");
    }
}

pub async fn wider_scopes_are_read_as_the_event_left_them(fixture: &mut Fixture) {
    fixture.update_state(update("a", set(&[("app:before", "0")]))).await.unwrap();
    fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/u/t", &[("user:k", "1")]).await;
    fixture.new_session("a/v/s", &[("app:k", "1")]).await;
    fixture.put("a/u/s", "1", nothing()).await;
    fixture.put("a/v/s", "1", set(&[("app:k", "2"), ("app:l", "2")])).await;
    fixture.update_state(update("a/u", add("user:k", 1))).await.unwrap();
    fixture.put("a/u/s", "2", set(&[("app:m", "3")])).await;
    fixture.update_state(update("a", remove(&["app:k"]))).await.unwrap();
    fixture.put("a/u/t", "1", remove(&["user:k"])).await;
    fixture.put("a/u/s", "3", nothing()).await;
    fixture.put("a/u/t", "2", set(&[("app:k", "9")])).await;
    let states = [
        r#"{"app:before":0}"#,
        r#"{"app:before":0,"app:k":1,"user:k":1}"#,
        r#"{"app:before":0,"app:k":2,"app:l":2,"app:m":3,"user:k":2}"#,
        r#"{"app:before":0,"app:l":2,"app:m":3}"#,
    ];
    for (sequence, expected) in states.iter().enumerate() {
        let state = fixture.state_as_of("a/u/s", sequence as u64).await;
        assert_eq!(state, *expected, "as of {sequence}");
    }
    let now = r#"{"app:before":0,"app:k":9,"app:l":2,"app:m":3}"#;
    assert_eq!(fixture.state("a/u/s").await, now);
}

pub async fn keys_have_the_versions_that_they_had(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "0"), ("app:k", "0")]).await;
    fixture.put("a/u/s", "1", set(&[("k", "1")])).await;
    fixture.put("a/u/s", "2", set(&[("app:k", "2")])).await;
    fixture.put("a/u/s", "3", remove(&["k"])).await;
    fixture.put("a/u/s", "4", set(&[("k", "4")])).await;
    for (sequence, expected) in [(0, [1, 0]), (1, [1, 1]), (2, [2, 1]), (4, [2, 4])] {
        let view = fixture.read_session(as_of("a/u/s", sequence)).await.unwrap();
        let found: Vec<u64> =
            versions(&view.state.unwrap()).into_iter().map(|(_, version)| version).collect();
        assert_eq!(found, expected, "as of {sequence}");
    }
}

pub async fn the_session_is_read_up_to_that_event(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[]).await;
    for (id, time) in [("1", 70), ("2", 9_000), ("3", 50)] {
        let timed = NewEvent { event_time: Some(at(time)), ..event(id, nothing()) };
        fixture.append(append("a/u/s", [timed])).await.unwrap();
    }
    for (sequence, last_event_time) in [(0, NOW), (1, at(70)), (2, at(9_000)), (3, at(50))] {
        let view = fixture.read_session(as_of("a/u/s", sequence)).await.unwrap();
        assert_eq!(view.info.last_sequence, sequence);
        assert_eq!(view.info.last_event_time, last_event_time);
        assert_eq!(view.info.incarnation, created.incarnation);
        let page = view.events.unwrap();
        assert_eq!(sequences(&page.events), (1..=sequence).collect::<Vec<_>>());
        assert_eq!(page.rest, None);
        let mut query = events("a/u/s");
        query.as_of = Some(sequence);
        let (info, page) = fixture.list_events(query).await.unwrap();
        assert_eq!(info, view.info);
        assert_eq!(page.events.len() as u64, sequence);
    }
}

pub async fn reads_beyond_the_last_sequence_are_refused(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", nothing()).await;
    for asked in [2, u64::from(u32::MAX), i64::MAX as u64] {
        let beyond = Error::BeyondLastSequence { asked, last_sequence: 1 };
        let refused = fixture.read_session(as_of("a/u/s", asked)).await;
        assert_eq!(refused.unwrap_err(), beyond);
        let mut query = events("a/u/s");
        query.as_of = Some(asked);
        assert_eq!(fixture.list_events(query).await.unwrap_err(), beyond);
        let refused = fixture.fork_session(fork("a/u/s", Some(asked), "t")).await;
        assert_eq!(refused.unwrap_err(), beyond);
        let refused = fixture.rewind_session(rewind("a/u/s", asked, "m")).await;
        assert_eq!(refused.unwrap_err(), beyond);
    }
}

pub async fn rewound_events_are_visible_before_the_marker(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "0")]).await;
    for id in ["1", "2", "3"] {
        fixture.put("a/u/s", id, set(&[("k", id), (id, id)])).await;
    }
    fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    fixture.put("a/u/s", "5", set(&[("k", "5")])).await;
    let shown: [(&[u64], &str); 6] = [
        (&[], r#"{"k":0}"#),
        (&[1], r#"{"1":1,"k":1}"#),
        (&[1, 2], r#"{"1":1,"2":2,"k":2}"#),
        (&[1, 2, 3], r#"{"1":1,"2":2,"3":3,"k":3}"#),
        (&[1], r#"{"1":1,"k":1}"#),
        (&[1, 5], r#"{"1":1,"k":5}"#),
    ];
    for (sequence, (events, state)) in shown.iter().enumerate() {
        let view = fixture.read_session(as_of("a/u/s", sequence as u64)).await.unwrap();
        let page = view.events.unwrap();
        assert_eq!(sequences(&page.events), *events, "as of {sequence}");
        assert!(page.events.iter().all(|event| !event.rewound));
        assert_eq!(text(&view.state.unwrap()), *state, "as of {sequence}");
    }
    // As of 3 nothing was hidden yet; as of 4 the marker and two events are.
    for (sequence, hidden) in [(3, vec![]), (4, vec![2, 3, 4]), (5, vec![2, 3, 4])] {
        let mut query = as_of("a/u/s", sequence);
        let mut selection = everything();
        selection.filter.include_rewound = true;
        query.events = Some(selection);
        let page = fixture.read_session(query).await.unwrap().events.unwrap();
        assert_eq!(page.events.len() as u64, sequence);
        let rewound = page.events.iter().filter(|event| event.rewound);
        let rewound: Vec<u64> = rewound.map(|event| event.sequence).collect();
        assert_eq!(rewound, hidden, "as of {sequence}");
    }
}

pub async fn as_of_the_newest_event_is_now(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("app:k", "0")]).await;
    fixture.put("a/u/s", "1", add("app:k", 1).add("k", 1)).await;
    let now = fixture.read_session(read("a/u/s")).await.unwrap();
    let then = fixture.read_session(as_of("a/u/s", 1)).await.unwrap();
    assert_eq!(then.state, now.state);
    assert_eq!(then.info, now.info);
    let without = SessionQuery { with_state: false, ..read("a/u/s") };
    let view = fixture.read_session(without).await.unwrap();
    assert!(view.state.is_none() && view.events.is_none());
}
