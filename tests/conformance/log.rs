//! What a log keeps, and the order of its commits.

use sessiond::{
    commit::{Answer, Request},
    domain::{
        error::Error,
        event::{Changes, Event, NewEvent, ScopeVersions},
        id::{Author, Branch, EventId, InvocationId},
        limits::BATCH_EVENTS,
        time::Time,
        trace::TraceId,
    },
    store::{Append, CreateSession, RequestContext},
};

use crate::{fixture::*, requests::*};

pub async fn sequences_are_dense_and_begin_at_1(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    assert_eq!(fixture.log("a/u/s").await, []);
    fixture.put("a/u/s", "1", nothing()).await;
    let batch = ["2", "3", "4"].map(|id| event(id, nothing()));
    fixture.append(append("a/u/s", batch)).await.unwrap();
    fixture.rewind_session(rewind("a/u/s", 2, "5")).await.unwrap();
    fixture.put("a/u/s", "6", nothing()).await;
    assert_eq!(sequences(&fixture.whole_log("a/u/s").await), [1, 2, 3, 4, 5, 6]);
    assert_eq!(fixture.info("a/u/s").await.last_sequence, 6);
}

pub async fn an_event_is_read_as_it_was_written(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let event_time = Time::new(-7, 5).unwrap();
    let stored = NewEvent {
        invocation_id: Some(InvocationId::new("turn").unwrap()),
        author: Author::new("who").unwrap(),
        branch: Branch::new("root.leaf").unwrap(),
        event_time: Some(event_time),
        body: Some(json("{}")),
        ..event("1", set(&[("app:k", "1"), ("k", "2")]).remove(&["k"]))
    };
    let stored = only_new(fixture.append(append("a/u/s", [stored])).await.unwrap());
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
        trace_id: None,
    };
    assert_eq!(stored, expected);
    assert_eq!(fixture.log("a/u/s").await, [expected]);
    let empty = NewEvent { author: Author::new("").unwrap(), ..event("2", nothing()) };
    let stored = only_new(fixture.append(append("a/u/s", [empty])).await.unwrap());
    assert_eq!(stored.body, None);
    assert_eq!(stored.invocation_id, None);
    assert!(stored.changes.is_empty());
    assert_eq!(fixture.log("a/u/s").await[1], stored);
}

/// It is not part of the content: a repetition is answered as first stored.
pub async fn an_event_keeps_the_trace_of_its_call(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let [first, second] = [1, u128::MAX].map(TraceId::new);
    for (trace_id, ids, replayed, stored) in [
        (first, ["1", "2"], [false, false], [first, first]),
        (None, ["2", "3"], [true, false], [first, None]),
        (second, ["1", "3"], [true, true], [first, None]),
    ] {
        let call = RequestContext { trace_id, ..RequestContext::internal() };
        let batch = append("a/u/s", ids.map(|id| event(id, nothing())));
        let answer =
            fixture.commit(&call, Request::Append(batch.to(address("a/u/s")))).await.unwrap();
        let Answer::Appended(appended) = answer else { panic!("{answer:?}") };
        let events: Vec<_> = appended.events.iter().map(|it| it.event.trace_id).collect();
        assert_eq!(events, stored);
        assert_eq!(appended.events.iter().map(|it| it.replayed).collect::<Vec<_>>(), replayed);
    }
    let call = RequestContext { trace_id: second, ..RequestContext::internal() };
    let marker = Request::Rewind(rewind("a/u/s", 3, "m"));
    fixture.commit(&call, marker).await.unwrap();
    fixture.fork_session(fork("a/u/s", None, "fork")).await.unwrap();
    for path in ["a/u/s", "a/u/fork"] {
        let log = fixture.whole_log(path).await;
        let traces: Vec<_> = log.iter().map(|event| event.trace_id).collect();
        assert_eq!(traces, [first, first, None, second], "{path}");
    }
}

/// Bodies and values are kept as text.
pub async fn json_is_kept_byte_for_byte(fixture: &mut Fixture) {
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
    fixture.new_session("a/u/s", &state).await;
    for (at, value) in values.into_iter().enumerate() {
        let stored = NewEvent {
            body: Some(json(value)),
            ..event(&at.to_string(), set(&[("user:v", value), ("app:v", value), ("v", value)]))
        };
        let stored = only_new(fixture.append(append("a/u/s", [stored])).await.unwrap());
        assert_eq!(stored.body.as_ref().unwrap().as_str(), value);
        let kept = format!(r#"{{"user:v":{value},"app:v":{value},"v":{value}}}"#);
        assert_eq!(became(&stored.changes), kept);
        assert_eq!(fixture.log("a/u/s").await.last(), Some(&stored));
        let state = fixture.read_state(read_state("a/u/s")).await.unwrap().state;
        for name in ["v", "user:v", "app:v", names[at]] {
            assert_eq!(state.get(name).unwrap().as_str(), value);
        }
        let listed = fixture.list_key_changes(changes("a/u/s", "user:v")).await.unwrap();
        assert_eq!(listed.changes[0].value.as_ref().unwrap().as_str(), value);
    }
}

pub async fn names_are_kept_byte_for_byte(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let odd = [" ", "%_", "'\"\\", "\u{1}\u{7f}\n", "é e\u{301}", "\u{10ffff}"];
    for name in odd {
        let stored = NewEvent {
            invocation_id: Some(InvocationId::new(name).unwrap()),
            author: Author::new(name).unwrap(),
            branch: Branch::new(name).unwrap(),
            ..event(name, set(&[(name, "1"), (&format!("app:{name}"), "2")]))
        };
        let stored = only_new(fixture.append(append("a/u/s", [stored])).await.unwrap());
        assert_eq!(stored.event_id.as_str(), name);
        assert_eq!(stored.author.as_str(), name);
        assert_eq!(stored.branch.as_str(), name);
        assert_eq!(stored.invocation_id.as_ref().unwrap().as_str(), name);
        assert_eq!(fixture.log("a/u/s").await.last(), Some(&stored));
        let view = fixture.read_state(read_state("a/u/s")).await.unwrap();
        assert_eq!(view.state.get(name), Some(&json("1")));
        fixture.put("a/u/s", &format!("no {name}"), remove(&[name])).await;
    }
}

pub async fn a_refused_event_leaves_nothing_of_its_batch(fixture: &mut Fixture) {
    let state = [("s", "\"x\""), ("app:n", "1")];
    let before = fixture.new_session("a/u/s", &state).await;
    let delta = || set(&[("k", "1"), ("user:k", "1")]).add("app:n", 1);
    let batch =
        [event("1", delta()), event("2", delta()), event("3", add("s", 1)), event("4", delta())];
    let refused = fixture.append(append("a/u/s", batch)).await.unwrap_err();
    assert!(matches!(refused, Error::TypeMismatch { .. }), "{refused}");
    assert_eq!(fixture.info("a/u/s").await, before);
    assert_eq!(fixture.log("a/u/s").await, []);
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:n":1,"s":"x"}"#);
    let versions = fixture.position("a/u/s").await.versions;
    assert_eq!((versions.application, versions.user), (1, 0));
    for name in ["k", "user:k", "app:n"] {
        let listed = fixture.list_key_changes(changes("a/u/s", name)).await.unwrap();
        let creations = usize::from(name == "app:n");
        assert_eq!(listed.changes.len(), creations, "{name}");
    }
    // Its ids are free, and the next event takes the first sequence.
    assert_eq!(fixture.put("a/u/s", "1", nothing()).await.sequence, 1);
}

pub async fn commit_times_never_go_back_within_a_session(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let append_at = |id: &str, now| plain("a/u/s", id).at(now);
    let stored = only_new(fixture.append(append_at("1", at(2_000))).await.unwrap());
    assert_eq!((stored.commit_time, stored.event_time), (at(2_000), at(2_000)));
    let stored = only_new(fixture.append(append_at("2", at(1_500))).await.unwrap());
    assert_eq!((stored.commit_time, stored.event_time), (at(2_000), at(2_000)));
    let update = |now| touch("a/u/s").at(now);
    let updated = fixture.update_session(update(at(1_600))).await.unwrap();
    assert_eq!(updated.update_time, at(2_000));
    let updated = fixture.update_session(update(at(3_000))).await.unwrap();
    assert_eq!(updated.update_time, at(3_000));
    assert_eq!(updated.last_event_time, at(2_000));
    let back = rewind("a/u/s", 1, "m").at(at(1_700));
    let marker = fixture.rewind_session(back).await.unwrap();
    assert_eq!(marker.events[0].event.commit_time, at(3_000));
    assert_eq!(marker.events[0].event.event_time, at(3_000));
    assert_eq!(marker.info.update_time, at(3_000));
    assert_eq!(marker.info.last_event_time, at(3_000));
    assert_eq!(marker.info.create_time, NOW);
}

pub async fn the_last_event_time_is_that_of_the_newest_event(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[]).await;
    assert_eq!(created.last_event_time, NOW);
    let batch = [at(9_000), at(50), at(70)].map(|time| NewEvent {
        event_time: Some(time),
        ..event(&time.secs().to_string(), nothing())
    });
    let appended = fixture.append(append("a/u/s", batch)).await.unwrap();
    assert_eq!(appended.info.last_event_time, at(70));
    assert_eq!(appended.info.update_time, NOW);
    assert_eq!(fixture.info("a/u/s").await, appended.info);
}

pub async fn the_first_and_the_last_instant_are_kept(fixture: &mut Fixture) {
    let first = Time::new(-62_135_596_800, 1).unwrap();
    let odd = Time::new(-1, 999_999_999).unwrap();
    let created = CreateSession { expiration: ends(Time::LAST), ..create("a/u/s", &[]) };
    let created = fixture.create_session(created.at(first)).await.unwrap().info;
    assert_eq!(created.create_time, first);
    for (id, time) in [("1", Time::LAST), ("2", first), ("3", odd)] {
        let event = NewEvent { event_time: Some(time), ..event(id, nothing()) };
        let stored = append("a/u/s", [event]).at(odd);
        let stored = only_new(fixture.append(stored).await.unwrap());
        assert_eq!((stored.event_time, stored.commit_time), (time, odd));
    }
    let log = fixture.log("a/u/s").await;
    let times: Vec<Time> = log.iter().map(|event| event.event_time).collect();
    assert_eq!(times, [Time::LAST, first, odd]);
    let info = fixture.info("a/u/s").await;
    assert_eq!(info.create_time, first);
    assert_eq!(info.expire_time, Some(Time::LAST));
    assert_eq!(info.last_event_time, odd);
    for (after, shown) in [(first, 3), (odd, 2), (Time::new(0, 0).unwrap(), 1)] {
        let mut query = events("a/u/s");
        query.selection.filter.after_time = Some(after);
        let page = fixture.list_events(query).await.unwrap().1;
        assert_eq!(page.events.len(), shown);
    }
}

pub async fn a_batch_may_have_the_maximum_of_events(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let batch = (0..BATCH_EVENTS).map(|at| event(&at.to_string(), add("n", 1).add("app:n", 1)));
    let appended = fixture.append(append("a/u/s", batch)).await.unwrap();
    assert_eq!(appended.info.last_sequence, BATCH_EVENTS as u64);
    let last = appended.events.last().unwrap();
    assert_eq!(last.event.versions.application, BATCH_EVENTS as u64);
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:n":1000,"n":1000}"#);
}

pub async fn an_append_answers_the_state_after_it(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("app:a", "1")]).await;
    let delta = set(&[("user:b", "2"), ("c", "3")]);
    let without = append("a/u/s", [event("1", delta.clone())]);
    let appended = fixture.append(without).await.unwrap();
    assert!(appended.state.is_none());
    assert!(!appended.request_replayed);
    let with = Append { return_state: true, ..append("a/u/s", [event("2", delta)]) };
    let appended = fixture.append(with).await.unwrap();
    let state = r#"{"app:a":1,"user:b":2,"c":3}"#;
    assert_eq!(text(&appended.state.unwrap()), state);
    assert_eq!(appended.info, fixture.info("a/u/s").await);
}
