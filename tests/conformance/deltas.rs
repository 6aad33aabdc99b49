//! What deltas change, and what events keep of them.

use sessiond::domain::{
    delta::Operation,
    error::{Error, Reason},
    event::NewEvent,
    json::{Amount, JsonType},
    limits::{BATCH_BYTES, DELTA_BYTES, VALUE_BYTES},
};

use crate::{fixture::*, requests::*};

fn list(values: &str, max_length: usize) -> Operation {
    Operation::ListAppend { values: json(values), max_length }
}

fn patch(text: &str) -> Operation {
    Operation::MergePatch(json(text))
}

/// The only violation: its field and its reason.
fn violation<T>(result: Result<T, Error>) -> (String, Reason) {
    match result {
        Err(Error::Invalid(violations)) => match &violations[..] {
            [violation] => (violation.field.to_string(), violation.reason),
            several => panic!("{several:?}"),
        },
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

pub async fn sets_come_before_removals_and_removals_before_operations(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("n", "1"), ("m", "1")]).await;
    let delta = set(&[("n", "10"), ("m", "10"), ("l", "10")])
        .remove(&["m", "l"])
        .add("n", 1)
        .add("m", 2)
        .add("m", 3);
    let stored = fixture.put("a/u/s", "e", delta).await;
    assert_eq!(fixture.state("a/u/s").await, r#"{"m":5,"n":11}"#);
    assert_eq!(became(&stored.changes), r#"{"n":11,"m":5}"#);
}

pub async fn every_operation_sees_what_is_there_in_every_scope(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for prefix in ["app:", "user:", ""] {
        let name = |name: &str| format!("{prefix}{name}");
        let [n, f, l, d, o] = ["n", "f", "l", "d", "o"].map(name);
        let delta = |id: i64| {
            add(&n, id)
                .operate(&f, Operation::Increment(Amount::Fraction(0.5)))
                .operate(&l, list(&format!("[{id}, \"x\"]"), 3))
                .operate(&d, Operation::SetIfAbsent(json(&id.to_string())))
                .operate(&o, patch(&format!(r#"{{"k{id}":{id},"k1":null}}"#)))
        };
        fixture.put("a/u/s", &name("1"), delta(1)).await;
        let stored = fixture.put("a/u/s", &name("2"), delta(2)).await;
        let expected = format!(r#"{{"{n}":3,"{f}":1.0,"{l}":["x",2,"x"],"{o}":{{"k2":2}}}}"#);
        assert_eq!(became(&stored.changes), expected);
        let state = fixture.read_state(read_state("a/u/s")).await.unwrap().state;
        assert_eq!(state.get(&d), Some(&json("1")));
        assert_eq!(state.get(&n), Some(&json("3")));
    }
}

pub async fn an_event_keeps_what_its_keys_became(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("n", "1"), ("gone", "1"), ("app:gone", "1")]).await;
    let delta = set(&[("app:s", "{ \"a\" : 1.0 }")])
        .remove(&["gone", "app:gone", "never"])
        .add("n", 5)
        .operate("n", Operation::SetIfAbsent(json("7")));
    let expected = r#"{"app:s":{ "a" : 1.0 },"n":6} -gone -app:gone"#;
    let stored = fixture.put("a/u/s", "e", delta).await;
    assert_eq!(became(&stored.changes), expected);
    assert_eq!(fixture.log("a/u/s").await, [stored]);
}

pub async fn a_wider_scope_takes_updates_without_a_session(fixture: &mut Fixture) {
    let delta = set(&[("app:l", "[1]")]).operate("app:l", list("[2]", 0));
    let updated = fixture.update_state(update("a", delta)).await.unwrap();
    assert_eq!(text(&updated.state), r#"{"app:l":[1,2]}"#);
    let delta = add("user:n", -2).add("app:n", 3).remove(&["app:l"]);
    let updated = fixture.update_state(update("a/u", delta)).await.unwrap();
    assert!(!updated.replayed);
    assert_eq!(text(&updated.state), r#"{"app:n":3,"user:n":-2}"#);
    assert_eq!(fixture.state("a").await, r#"{"app:n":3}"#);
    assert_eq!(fixture.state("a/v").await, r#"{"app:n":3}"#);
}

pub async fn events_of_a_batch_see_those_before_them(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "1")]).await;
    let mut batch = append(
        "a/u/s",
        [
            event("1", remove(&["k"]).add("app:n", 1)),
            event("2", remove(&["k"]).operate("k2", list("[1]", 0))),
            event("3", add("k", 7).add("app:n", 1)),
            event("4", nothing().operate("k2", list("[2]", 0))),
        ],
    );
    batch.return_state = true;
    let appended = fixture.append(batch).await.unwrap();
    let stored: Vec<String> =
        appended.events.iter().map(|appended| became(&appended.event.changes)).collect();
    assert_eq!(
        stored,
        [r#"{"app:n":1} -k"#, r#"{"k2":[1]}"#, r#"{"k":7,"app:n":2}"#, r#"{"k2":[1,2]}"#]
    );
    let state = text(&appended.state.unwrap());
    assert_eq!(state, r#"{"app:n":2,"k":7,"k2":[1,2]}"#);
    assert_eq!(fixture.state("a/u/s").await, state);
}

pub async fn null_is_a_value_and_values_are_replaced_whole(fixture: &mut Fixture) {
    let null = [("k", "null"), ("app:k", "null"), ("o", r#"{"a":1}"#)];
    fixture.new_session("a/u/s", &null).await;
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:k":null,"k":null,"o":{"a":1}}"#);
    let default = Operation::SetIfAbsent(json("1"));
    let delta = set(&[("o", r#"{"b":2}"#)]).operate("k", default);
    fixture.put("a/u/s", "e", delta).await;
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:k":null,"k":null,"o":{"b":2}}"#);
}

pub async fn an_operation_on_another_type_is_refused(fixture: &mut Fixture) {
    let state = [("user:s", "\"x\""), ("o", "{}")];
    fixture.new_session("a/u/s", &state).await;
    let found = |name: &str, wanted, found| Error::TypeMismatch { key: key(name), wanted, found };
    let refused = fixture.append(append("a/u/s", [event("1", add("user:s", 1))]));
    let mismatch = found("user:s", JsonType::Number, JsonType::String);
    assert_eq!(refused.await.unwrap_err(), mismatch);
    let refused = fixture.update_state(update("a/u", add("user:s", 1))).await;
    assert_eq!(refused.unwrap_err(), mismatch);
    let delta = nothing().operate("o", list("[1]", 0));
    let refused = fixture.append(append("a/u/s", [event("1", delta)])).await;
    let mismatch = found("o", JsonType::Array, JsonType::Object);
    assert_eq!(refused.unwrap_err(), mismatch);
    assert_eq!(fixture.info("a/u/s").await.last_sequence, 0);
}

pub async fn a_failed_operation_names_its_field(fixture: &mut Fixture) {
    let state = [("app:n", "9223372036854775807")];
    fixture.new_session("a/u/s", &state).await;
    let batch = [event("1", nothing()), event("2", add("x", 1).add("app:n", 1))];
    let refused = fixture.append(append("a/u/s", batch)).await;
    let field = "events[1].state_delta.operations[1]".to_owned();
    assert_eq!(violation(refused), (field, Reason::NumberOverflow));
    let refused = fixture.update_state(update("a/u", add("app:n", 1))).await;
    let field = "delta.operations[0]".to_owned();
    assert_eq!(violation(refused), (field, Reason::NumberOverflow));
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:n":9223372036854775807}"#);
}

pub async fn a_resolved_delta_has_a_limit(fixture: &mut Fixture) {
    let long = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 4));
    fixture.new_session("a/u/s", &[("l", &long(VALUE_BYTES - 1))]).await;
    let delta = nothing().operate("l", list("[1]", 0));
    let refused = fixture.append(append("a/u/s", [event("1", delta.clone())]));
    let field = "events[0].state_delta.operations[0]".to_owned();
    assert_eq!(violation(refused.await), (field, Reason::ValueTooLarge));
    let fits = set(&[("l", &long(VALUE_BYTES - 2))]).operate("l", list("[1]", 0));
    fixture.put("a/u/s", "1", fits).await;
    // Four lists of a quarter of what a delta may be, one in another scope, so that their scopes are not full.
    let quarter = long(DELTA_BYTES / 4 - 10);
    let state = [("a", &*quarter), ("b", &*quarter), ("c", &*quarter), ("app:d", &*quarter)];
    fixture.new_session("a/u/t", &state).await;
    let names = ["a", "b", "c", "app:d"];
    let grow = |values: &str| {
        let grown =
            names.into_iter().fold(nothing(), |delta, name| delta.operate(name, list(values, 0)));
        append("a/u/t", [event(values, grown)])
    };
    fixture.append(grow("[1]")).await.unwrap();
    // Eight bytes of keys, and four values that are one byte too long, then exactly long enough.
    let refused = fixture.append(grow("[11,222]")).await;
    let field = "events[0].state_delta".to_owned();
    assert_eq!(violation(refused), (field, Reason::ValueTooLarge));
    fixture.append(grow("[11,22]")).await.unwrap();
}

/// A small batch must not resolve to more than an answer can hold.
pub async fn a_resolved_batch_has_a_limit(fixture: &mut Fixture) {
    let member = format!(r#"{{"k":"{}"}}"#, "x".repeat(VALUE_BYTES - 100));
    fixture.new_session("a/u/s", &[("app:o", &member)]).await;
    let batch = |events: usize| {
        let events = (0..events).map(|at| {
            let delta = nothing().operate("app:o", patch(&format!(r#"{{"n":{at}}}"#)));
            event(&at.to_string(), delta)
        });
        append("a/u/s", events)
    };
    let fits = BATCH_BYTES / VALUE_BYTES;
    let refused = fixture.append(batch(fits + 1)).await;
    assert_eq!(violation(refused), ("events".to_owned(), Reason::BatchTooLarge));
    assert_eq!(fixture.info("a/u/s").await.last_sequence, 0);
    let appended = fixture.append(batch(fits)).await.unwrap();
    assert_eq!(appended.info.last_sequence, fits as u64);
    // Replays were within the limit before.
    let again = fixture.append(batch(fits)).await.unwrap();
    assert!(again.events.iter().all(|appended| appended.replayed));
}

/// The limit counts a repeated event as it counted the first: keys and values, without the rest of the stored JSON text.
pub async fn a_batch_that_was_accepted_is_accepted_again(fixture: &mut Fixture) {
    let names: Vec<String> = (0..200).map(|at| format!("{at}\u{1}")).collect();
    let filling = |id: &str, body: usize| {
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let body = json(&format!("{{\"x\":\"{}\"}}", "x".repeat(body - 8)));
        NewEvent { body: Some(body), ..event(id, set(&pairs).remove(&[&format!("gone\u{1}{id}")])) }
    };
    let delta = filling("1", 8).delta.bytes();
    let last = BATCH_BYTES - 4 * delta - 3 * 700_000;
    // The second is a repetition within the batch.
    let batch = |last: usize| {
        let sizes = [("1", 700_000), ("1", 700_000), ("2", 700_000), ("3", last)];
        append("a/u/s", sizes.map(|(id, body)| filling(id, body)))
    };
    let gone = ["1", "2", "3"].map(|id| format!("gone\u{1}{id}"));
    fixture.new_session("a/u/s", &gone.each_ref().map(|name| (name.as_str(), "0"))).await;
    let refused = fixture.append(batch(last + 1)).await;
    assert_eq!(violation(refused), ("events".to_owned(), Reason::BatchTooLarge));
    let appended = fixture.append(batch(last)).await.unwrap();
    assert_eq!(appended.info.last_sequence, 3);
    let again = fixture.append(batch(last)).await.unwrap();
    assert!(again.events.iter().all(|appended| appended.replayed));
    assert_eq!(again.info.last_sequence, 3);
}

/// Also if the value is spelled in another way than the operation would write it.
pub async fn an_operation_that_leaves_its_value_leaves_no_trace(fixture: &mut Fixture) {
    let values = [("n", "5"), ("x", "1.5"), ("l", "[1, 2]"), ("o", r#"{"a": 1, "b": [2]}"#)];
    for prefix in ["app:", "user:", ""] {
        let name = |name: &str| format!("{prefix}{name}");
        let state = values.map(|(key, value)| (name(key), value));
        let state = state.each_ref().map(|(key, value)| (key.as_str(), *value));
        let path = format!("a/u/of {prefix}");
        fixture.new_session(&path, &state).await;
        let before = (fixture.state(&path).await, fixture.versions(&path).await);
        let delta = add(&name("n"), 0)
            .operate(&name("x"), Operation::Increment(Amount::Fraction(0.0)))
            .operate(&name("l"), list("[]", 0))
            .operate(&name("l"), list("[]", 2))
            .operate(&name("o"), patch("{}"))
            .operate(&name("o"), patch(r#"{"a":1,"missing":null}"#));
        let stored = fixture.put(&path, "e1", delta).await;
        assert!(stored.changes.is_empty(), "{:?}", stored.changes);
        assert_eq!((fixture.state(&path).await, fixture.versions(&path).await), before);
        // An equal value in another spelling is a change, and so is a first value.
        let delta = nothing()
            .operate(&name("l"), list("[]", 1))
            .operate(&name("o"), patch(r#"{"a":1.0}"#))
            .operate(&name("none"), patch("{}"));
        let stored = fixture.put(&path, "e2", delta).await;
        let expected = format!(
            r#"{{"{}":[2],"{}":{{"a":1.0,"b":[2]}},"{}":{{}}}}"#,
            name("l"),
            name("o"),
            name("none")
        );
        assert_eq!(became(&stored.changes), expected);
    }
}
