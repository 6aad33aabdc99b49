//! Whether a session has an event of a file already.

use std::collections::BTreeMap;

use prost_types::Timestamp;

use super::{
    event::Event,
    form::{self, Losses},
    plan::is_shared,
    time::total_nanos,
};
use sessiond_core::domain::json::{Json, same_value};

/// Seconds of our time as a double are exact to a quarter of a microsecond.
const DOUBLE_NANOS: i128 = 1000;

/// Whether appending `event` made the `existing` one, however its JSON is written. The removal of a missing key leaves no
/// trace, an event without a time has the server's, and shared keys may have stayed as they were.
///
/// Unless the comparison is `exact`, what ADK would write of both has to be equal: it adds empty members, and its times
/// are doubles.
pub fn is_same(existing: &Event, event: &Event, exact: bool) -> bool {
    let Event {
        author,
        invocation_id,
        branch,
        event_time,
        set,
        remove,
        body,
        rewind_to,
        // The caller has found `existing` by its id, and compared the sequence of an export.
        event_id: _,
        sequence: _,
        // The trace is that of the call which appended the event first.
        trace_id: _,
        // It may have been hidden since.
        rewound: _,
    } = event;
    if existing.rewind_to.is_some() || rewind_to.is_some() {
        return existing.rewind_to == *rewind_to;
    }
    let mut set: BTreeMap<_, _> = set.iter().map(|(key, value)| (key, value)).collect();
    // ADK has no removals. Its objects have null for them.
    set.retain(|key, value| exact || value.as_str() != "null" || !existing.remove.contains(key));
    let existing_set: BTreeMap<_, _> =
        existing.set.iter().map(|(key, value)| (key, value)).collect();
    let is_set = |(key, value): (&&String, &&Json)| {
        set.get(*key).is_some_and(|other| same_value(value, other))
    };
    let may_lack = |key: &&String| existing_set.contains_key(*key) || is_shared(key);
    existing.author == *author
        && existing.invocation_id == *invocation_id
        && existing.branch == *branch
        && existing_set.iter().all(is_set)
        && set.keys().all(may_lack)
        && match (exact, &existing.body, body) {
            (true, Some(one), Some(other)) => same_value(one, other),
            (true, one, other) => one == other,
            (false, one, other) => same_value(&adk_body(one), &adk_body(other)),
        }
        && same_time(existing.event_time, *event_time, exact)
        && (!exact || existing.remove.iter().all(|key| remove.contains(key)))
}

fn same_time(existing: Option<Timestamp>, event: Option<Timestamp>, exact: bool) -> bool {
    let (Some(a), Some(b)) = (existing, event) else { return event.is_none() };
    let difference = (total_nanos(a) - total_nanos(b)).abs();
    difference == 0 || (!exact && difference <= DOUBLE_NANOS)
}

/// The body as ADK would write it, without the event's envelope and delta.
fn adk_body(body: &Option<Json>) -> Json {
    let event = Event { body: body.clone(), ..Event::default() };
    form::entry(&event, &mut Losses::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(set: &str, body: &str) -> Event {
        Event {
            event_id: "e".to_owned(),
            sequence: 3,
            author: "a".to_owned(),
            event_time: Some(Timestamp { seconds: 1, nanos: 2 }),
            set: Json::object(set.to_owned()).unwrap().members(),
            remove: vec!["gone".to_owned()],
            body: Some(Json::object(body.to_owned()).unwrap()),
            ..Event::default()
        }
    }

    #[test]
    fn an_event_is_recognized_however_it_is_written() {
        let existing = event(r#"{"k":1,"l":[2]}"#, r#"{"x":1.0}"#);
        let same = event(r#"{ "l":[ 2 ],"k":1}"#, r#"{ "x": 1.0 }"#);
        assert!(is_same(&existing, &same, true));
        assert!(is_same(&existing, &Event { event_time: None, ..same.clone() }, true));
        let mut removes_more = same;
        removes_more.remove = vec!["never there".to_owned(), "gone".to_owned()];
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
        saved.remove.clear();
        saved.event_time = Some(Timestamp { seconds: 1, nanos: 300 });
        assert!(is_same(&existing, &saved, false));
        assert!(!is_same(&existing, &saved, true));
        let more = [
            event(r#"{"k":1}"#, r#"{"content":{"parts":[{"functionCall":{"name":"g"}}]}}"#),
            event(r#"{"k":2}"#, saved.body.as_ref().unwrap().as_str()),
            event(r#"{"k":1,"l":1}"#, saved.body.as_ref().unwrap().as_str()),
            Event { event_time: Some(Timestamp { seconds: 2, nanos: 0 }), ..saved.clone() },
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
        removes_less.remove.clear();
        let others = [
            Event { author: "b".to_owned(), ..same.clone() },
            Event { invocation_id: "b".to_owned(), ..same.clone() },
            Event { branch: "b".to_owned(), ..same.clone() },
            Event { event_time: Some(Timestamp { seconds: 1, nanos: 3 }), ..same.clone() },
            removes_less,
            Event { body: None, ..same.clone() },
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
        let marker = Event { rewind_to: Some(1), ..event.clone() };
        assert!(!is_same(&marker, &event, true));
    }
}
