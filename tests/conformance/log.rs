//! What a log keeps, and how its commits follow each other.

use sessiond::{
    domain::{
        error::Error,
        event::{Changes, Event, NewEvent, ScopeVersions},
        id::{Author, Branch, EventId, InvocationId},
        limits::BATCH_EVENTS,
        time::Time,
    },
    store::{Append, CreateSession, RewindSession, SessionUpdate},
};

use crate::{bench::*, build::*};

pub async fn sequences_are_dense_and_begin_at_1(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    assert_eq!(bench.log("a/u/s").await, []);
    bench.put("a/u/s", "1", nothing()).await;
    let batch = ["2", "3", "4"].map(|id| event(id, nothing()));
    bench.append(append("a/u/s", batch)).await.unwrap();
    bench.rewind_session(rewind("a/u/s", 2, "5")).await.unwrap();
    bench.put("a/u/s", "6", nothing()).await;
    assert_eq!(sequences(&bench.whole_log("a/u/s").await), [1, 2, 3, 4, 5, 6]);
    assert_eq!(bench.info("a/u/s").await.last_sequence, 6);
}

pub async fn an_event_comes_back_as_it_went(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let event_time = Time::new(-7, 5).unwrap();
    let stored = NewEvent {
        invocation_id: Some(InvocationId::new("turn").unwrap()),
        author: Author::new("who").unwrap(),
        branch: Branch::new("root.leaf").unwrap(),
        event_time: Some(event_time),
        body: Some(json("{}")),
        ..event("1", set(&[("app:k", "1"), ("k", "2")]).remove(&["k"]))
    };
    let stored = only_new(bench.append(append("a/u/s", [stored])).await.unwrap());
    let expected = Event {
        event_id: EventId::new("1").unwrap(),
        sequence: 1,
        invocation_id: Some(InvocationId::new("turn").unwrap()),
        author: Author::new("who").unwrap(),
        branch: Branch::new("root.leaf").unwrap(),
        event_time,
        commit_time: NOW,
        changes: Changes { set: Some(json(r#"{"app:k":1}"#)), remove: Vec::new() },
        body: Some(json("{}")),
        rewind_to: None,
        rewound: false,
        versions: ScopeVersions { application: 1, user: 0 },
    };
    assert_eq!(stored, expected);
    assert_eq!(bench.log("a/u/s").await, [expected]);
    let empty = NewEvent { author: Author::new("").unwrap(), ..event("2", nothing()) };
    let stored = only_new(bench.append(append("a/u/s", [empty])).await.unwrap());
    assert_eq!(stored.body, None);
    assert_eq!(stored.invocation_id, None);
    assert!(stored.changes.is_empty());
    assert_eq!(bench.log("a/u/s").await[1], stored);
}

/// Bodies and values are text, to the byte.
pub async fn json_comes_back_byte_for_byte(bench: &mut Bench) {
    let values = [
        r#"{ "a" : [ 1 ,2 ] , "a":3,"" :{} }"#,
        r#"{"\u0061":"\u00e9\/\ud83d\ude00\b","é😀":"\u0000"}"#,
        r#"{"n":[0.10,1e2,1E+2,-0,-0.0,123456789012345678901234567890,1.7976931348623157e308,5e-324]}"#,
        "{\"\\t\":\n\r\t [ ] }",
        r#"{"'":"'; DROP TABLE events; --","%":"_"}"#,
        "{\"\u{202e}\u{10ffff}\u{ffff}\u{7f}\":\"\u{feff}\"}",
    ];
    let names = ["k0", "k1", "k2", "k3", "k4", "k5"];
    let state: Vec<(&str, &str)> = names.into_iter().zip(values).collect();
    bench.new_session("a/u/s", &state).await;
    for (at, value) in values.into_iter().enumerate() {
        let stored = NewEvent {
            body: Some(json(value)),
            ..event(&at.to_string(), set(&[("user:v", value), ("app:v", value), ("v", value)]))
        };
        let stored = only_new(bench.append(append("a/u/s", [stored])).await.unwrap());
        assert_eq!(stored.body.as_ref().unwrap().as_str(), value);
        let kept = format!(r#"{{"user:v":{value},"app:v":{value},"v":{value}}}"#);
        assert_eq!(became(&stored.changes), kept);
        assert_eq!(bench.log("a/u/s").await.last(), Some(&stored));
        let state = bench.read_state(read_state("a/u/s")).await.unwrap().state;
        for name in ["v", "user:v", "app:v", names[at]] {
            assert_eq!(state.get(name).unwrap().as_str(), value);
        }
        let listed = bench.list_key_changes(changes("a/u/s", "user:v")).await.unwrap();
        assert_eq!(listed.changes[0].value.as_ref().unwrap().as_str(), value);
    }
}

pub async fn names_come_back_byte_for_byte(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let odd = [" ", "%_", "'\"\\", "\u{1}\u{7f}\n", "é e\u{301}", "\u{10ffff}"];
    for name in odd {
        let stored = NewEvent {
            invocation_id: Some(InvocationId::new(name).unwrap()),
            author: Author::new(name).unwrap(),
            branch: Branch::new(name).unwrap(),
            ..event(name, set(&[(name, "1"), (&format!("app:{name}"), "2")]))
        };
        let stored = only_new(bench.append(append("a/u/s", [stored])).await.unwrap());
        assert_eq!(stored.event_id.as_str(), name);
        assert_eq!(stored.author.as_str(), name);
        assert_eq!(stored.branch.as_str(), name);
        assert_eq!(stored.invocation_id.as_ref().unwrap().as_str(), name);
        assert_eq!(bench.log("a/u/s").await.last(), Some(&stored));
        let view = bench.read_state(read_state("a/u/s")).await.unwrap();
        assert_eq!(view.state.get(name), Some(&json("1")));
        bench.put("a/u/s", &format!("no {name}"), remove(&[name])).await;
    }
}

pub async fn a_refused_event_leaves_nothing_of_its_batch(bench: &mut Bench) {
    let state = [("s", "\"x\""), ("app:n", "1")];
    let before = bench.new_session("a/u/s", &state).await;
    let delta = || set(&[("k", "1"), ("user:k", "1")]).add("app:n", 1);
    let batch =
        [event("1", delta()), event("2", delta()), event("3", add("s", 1)), event("4", delta())];
    let refused = bench.append(append("a/u/s", batch)).await.unwrap_err();
    assert!(matches!(refused, Error::TypeMismatch { .. }), "{refused}");
    assert_eq!(bench.info("a/u/s").await, before);
    assert_eq!(bench.log("a/u/s").await, []);
    assert_eq!(bench.state("a/u/s").await, r#"{"app:n":1,"s":"x"}"#);
    let versions = bench.position("a/u/s").await.versions;
    assert_eq!((versions.application, versions.user), (1, 0));
    for name in ["k", "user:k", "app:n"] {
        let listed = bench.list_key_changes(changes("a/u/s", name)).await.unwrap();
        let creations = usize::from(name == "app:n");
        assert_eq!(listed.changes.len(), creations, "{name}");
    }
    // Its ids are free, and the next event takes the first sequence.
    assert_eq!(bench.put("a/u/s", "1", nothing()).await.sequence, 1);
}

pub async fn commit_times_never_go_back_within_a_session(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let append_at = |id: &str, now| Append { now, ..plain("a/u/s", id) };
    let stored = only_new(bench.append(append_at("1", at(2_000))).await.unwrap());
    assert_eq!((stored.commit_time, stored.event_time), (at(2_000), at(2_000)));
    let stored = only_new(bench.append(append_at("2", at(1_500))).await.unwrap());
    assert_eq!((stored.commit_time, stored.event_time), (at(2_000), at(2_000)));
    let update = |now| SessionUpdate { now, ..touch("a/u/s") };
    let updated = bench.update_session(update(at(1_600))).await.unwrap();
    assert_eq!(updated.update_time, at(2_000));
    let updated = bench.update_session(update(at(3_000))).await.unwrap();
    assert_eq!(updated.update_time, at(3_000));
    assert_eq!(updated.last_event_time, at(2_000));
    let back = RewindSession { now: at(1_700), ..rewind("a/u/s", 1, "m") };
    let marker = bench.rewind_session(back).await.unwrap();
    assert_eq!(marker.events[0].event.commit_time, at(3_000));
    assert_eq!(marker.events[0].event.event_time, at(3_000));
    assert_eq!(marker.info.update_time, at(3_000));
    assert_eq!(marker.info.last_event_time, at(3_000));
    assert_eq!(marker.info.create_time, NOW);
}

pub async fn the_last_event_time_is_that_of_the_newest_event(bench: &mut Bench) {
    let created = bench.new_session("a/u/s", &[]).await;
    assert_eq!(created.last_event_time, NOW);
    let batch = [at(9_000), at(50), at(70)].map(|time| NewEvent {
        event_time: Some(time),
        ..event(&time.secs().to_string(), nothing())
    });
    let appended = bench.append(append("a/u/s", batch)).await.unwrap();
    assert_eq!(appended.info.last_event_time, at(70));
    assert_eq!(appended.info.update_time, NOW);
    assert_eq!(bench.info("a/u/s").await, appended.info);
}

pub async fn the_first_and_the_last_instant_are_kept(bench: &mut Bench) {
    let first = Time::new(-62_135_596_800, 1).unwrap();
    let odd = Time::new(-1, 999_999_999).unwrap();
    let created =
        CreateSession { now: first, expire_time: Some(Time::LAST), ..create("a/u/s", &[]) };
    let created = bench.create_session(created).await.unwrap().info;
    assert_eq!(created.create_time, first);
    for (id, time) in [("1", Time::LAST), ("2", first), ("3", odd)] {
        let stored = Append {
            now: odd,
            ..append("a/u/s", [NewEvent { event_time: Some(time), ..event(id, nothing()) }])
        };
        let stored = only_new(bench.append(stored).await.unwrap());
        assert_eq!((stored.event_time, stored.commit_time), (time, odd));
    }
    let log = bench.log("a/u/s").await;
    let times: Vec<Time> = log.iter().map(|event| event.event_time).collect();
    assert_eq!(times, [Time::LAST, first, odd]);
    let info = bench.info("a/u/s").await;
    assert_eq!(info.create_time, first);
    assert_eq!(info.expire_time, Some(Time::LAST));
    assert_eq!(info.last_event_time, odd);
    for (after, shown) in [(first, 3), (odd, 2), (Time::new(0, 0).unwrap(), 1)] {
        let mut query = events("a/u/s");
        query.selection.filter.after_time = Some(after);
        let page = bench.list_events(query).await.unwrap().1;
        assert_eq!(page.events.len(), shown);
    }
}

pub async fn a_batch_may_be_as_large_as_the_wire_lets_it(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let batch = (0..BATCH_EVENTS).map(|at| event(&at.to_string(), add("n", 1).add("app:n", 1)));
    let appended = bench.append(append("a/u/s", batch)).await.unwrap();
    assert_eq!(appended.info.last_sequence, BATCH_EVENTS as u64);
    let last = appended.events.last().unwrap();
    assert_eq!(last.event.versions.application, BATCH_EVENTS as u64);
    assert_eq!(bench.state("a/u/s").await, r#"{"app:n":1000,"n":1000}"#);
}

pub async fn an_append_answers_what_it_left(bench: &mut Bench) {
    bench.new_session("a/u/s", &[("app:a", "1")]).await;
    let delta = set(&[("user:b", "2"), ("c", "3")]);
    let without = append("a/u/s", [event("1", delta.clone())]);
    let appended = bench.append(without).await.unwrap();
    assert!(appended.state.is_none());
    assert!(!appended.request_replayed);
    let with = Append { return_state: true, ..append("a/u/s", [event("2", delta)]) };
    let appended = bench.append(with).await.unwrap();
    let state = r#"{"app:a":1,"user:b":2,"c":3}"#;
    assert_eq!(text(&appended.state.unwrap()), state);
    assert_eq!(appended.info, bench.info("a/u/s").await);
}
