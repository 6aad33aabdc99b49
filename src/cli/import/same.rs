//! Whether a session has an event of a file already.

use std::collections::BTreeMap;

use prost_types::Timestamp;

use super::plan::is_shared;
use crate::{
    cli::adk_file::{Losses, adk_entry, body_of, set_members},
    domain::json::{Json, same_value},
    proto::v1,
};

/// Seconds of our time as a double are exact to a quarter of a microsecond.
const DOUBLE_NANOS: i128 = 1000;

/// Whether appending `event` made the `existing` one, however its JSON is written. The removal of a missing key leaves no
/// trace, an event without a time has the server's, and shared keys may have stayed as they were.
///
/// Unless the comparison is `exact`, what ADK would write of both has to be equal: it adds empty members, and its times
/// are doubles.
pub fn is_same(existing: &v1::Event, event: &v1::Event, exact: bool) -> bool {
    let v1::Event {
        author,
        invocation_id,
        branch,
        event_time,
        rewind_to_sequence,
        // Read by `body_of`, `set` and `removed`.
        body_form: _,
        state_delta: _,
        // The caller has found `existing` by its id, and compared the sequence of an export.
        event_id: _,
        sequence: _,
        // The trace is that of the call which appended the event first.
        trace_id: _,
        // The server's, and without meaning in a request.
        commit_time: _,
        rounded: _,
        rewound: _,
        // No file has events with it.
        partial: _,
    } = event;
    if existing.rewind_to_sequence.is_some() || rewind_to_sequence.is_some() {
        return existing.rewind_to_sequence == *rewind_to_sequence;
    }
    let json = |text: &str| Json::from_stored(text.to_owned());
    let same_json = |one: Option<&str>, other: Option<&str>| match (one, other) {
        (Some(one), Some(other)) => same_value(&json(one), &json(other)),
        (one, other) => one == other,
    };
    let removed = |event: &v1::Event| event.state_delta.clone().unwrap_or_default().remove;
    let removed_here = removed(event);
    let set = |event: &v1::Event| {
        event.state_delta.iter().flat_map(set_members).collect::<BTreeMap<_, _>>()
    };
    let (existing_set, mut event_set) = (set(existing), set(event));
    // ADK has no removals. Its objects have null for them.
    event_set
        .retain(|key, value| exact || value.as_str() != "null" || !removed(existing).contains(key));
    let is_set = |(key, value): (&String, &Json)| {
        event_set.get(key).is_some_and(|other| same_value(value, other))
    };
    let may_lack = |key: &String| existing_set.contains_key(key) || is_shared(key);
    existing.author == *author
        && existing.invocation_id == *invocation_id
        && existing.branch == *branch
        && existing_set.iter().all(is_set)
        && event_set.keys().all(may_lack)
        && match exact {
            true => same_json(body_of(existing), body_of(event)),
            false => same_value(&adk_body(existing), &adk_body(event)),
        }
        && same_time(existing.event_time, *event_time, exact)
        && (!exact || removed(existing).iter().all(|key| removed_here.contains(key)))
}

fn same_time(existing: Option<Timestamp>, event: Option<Timestamp>, exact: bool) -> bool {
    let (Some(a), Some(b)) = (existing, event) else { return event.is_none() };
    let nanos = |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let difference = (nanos(a) - nanos(b)).abs();
    difference == 0 || (!exact && difference <= DOUBLE_NANOS)
}

/// The event as ADK would write it, without its envelope and its delta.
fn adk_body(event: &v1::Event) -> Json {
    let body = v1::Event { body_form: event.body_form.clone(), ..Default::default() };
    adk_entry(&body, &mut Losses::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{event::BodyForm, state_delta::SetForm};

    fn event(set: &str, body: &str) -> v1::Event {
        v1::Event {
            event_id: "e".to_owned(),
            sequence: 3,
            author: "a".to_owned(),
            event_time: Some(Timestamp { seconds: 1, nanos: 2 }),
            state_delta: Some(v1::StateDelta {
                set_form: Some(SetForm::SetJson(set.to_owned())),
                remove: vec!["gone".to_owned()],
                operations: Vec::new(),
            }),
            body_form: Some(BodyForm::BodyJson(body.to_owned())),
            ..Default::default()
        }
    }

    #[test]
    fn an_event_is_recognized_however_it_is_written() {
        let existing = event(r#"{"k":1,"l":[2]}"#, r#"{"x":1.0}"#);
        let same = event(r#"{ "l":[ 2 ],"k":1}"#, r#"{ "x": 1.0 }"#);
        assert!(is_same(&existing, &same, true));
        assert!(is_same(&existing, &v1::Event { event_time: None, ..same.clone() }, true));
        let mut removes_more = same;
        let delta = removes_more.state_delta.as_mut().unwrap();
        delta.remove = vec!["never there".to_owned(), "gone".to_owned()];
        assert!(is_same(&existing, &removes_more, true));
    }

    #[test]
    fn what_adk_adds_to_an_event_is_no_difference() {
        let existing =
            event(r#"{"k":1}"#, r#"{"content":{"parts":[{"function_call":{"name":"f"}}]}}"#);
        let mut saved = event(
            r#"{"k":1,"gone":null}"#,
            r#"{"id":"e","author":"a","timestamp":1.0,"content":{"parts":[{"functionCall":{"name":"f"}}]},
            "actions":{"artifactDelta":{},"requestedAuthConfigs":{}}}"#,
        );
        saved.state_delta.as_mut().unwrap().remove.clear();
        saved.event_time = Some(Timestamp { seconds: 1, nanos: 300 });
        assert!(is_same(&existing, &saved, false));
        assert!(!is_same(&existing, &saved, true));
        let more = [
            event(r#"{"k":1}"#, r#"{"content":{"parts":[{"functionCall":{"name":"g"}}]}}"#),
            event(r#"{"k":2}"#, body_of(&saved).unwrap()),
            event(r#"{"k":1,"l":1}"#, body_of(&saved).unwrap()),
            v1::Event { event_time: Some(Timestamp { seconds: 2, nanos: 0 }), ..saved.clone() },
        ];
        for other in more {
            assert!(!is_same(&existing, &other, false), "{other:?}");
        }
    }

    #[test]
    fn shared_keys_that_stayed_are_no_difference() {
        let existing = event(r#"{"k":1}"#, "{}");
        let file = event(r#"{"k":1,"app:theme":"dark"}"#, "{}");
        assert!(is_same(&existing, &file, true));
        assert!(!is_same(&file, &existing, true), "the session has more than the file");
    }

    #[test]
    fn any_difference_is_seen() {
        let set = r#"{"k":1,"l":[2]}"#;
        let same = event(set, r#"{"x":1.0}"#);
        assert!(is_same(&same, &same, true));
        let mut removes_less = same.clone();
        removes_less.state_delta.as_mut().unwrap().remove.clear();
        let others = [
            v1::Event { author: "b".to_owned(), ..same.clone() },
            v1::Event { invocation_id: "b".to_owned(), ..same.clone() },
            v1::Event { branch: "b".to_owned(), ..same.clone() },
            v1::Event { event_time: Some(Timestamp { seconds: 1, nanos: 3 }), ..same.clone() },
            removes_less,
            v1::Event { body_form: None, ..same.clone() },
            event(set, r#"{"x":2}"#),
            event("{}", r#"{"x":1.0}"#),
        ];
        for other in others {
            assert!(!is_same(&same, &other, true), "{other:?}");
        }
    }

    #[test]
    fn a_marker_is_no_event_of_a_file() {
        let event = event("{}", "{}");
        let marker = v1::Event { rewind_to_sequence: Some(1), ..event.clone() };
        assert!(!is_same(&marker, &event, true));
    }
}
