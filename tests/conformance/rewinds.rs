//! Rewinding sessions.

use sessiond::domain::{error::Error, event::Event, id::Author};
use sessiond::store::RewindSession;

use crate::{fixture::*, requests::*};

/// The sequences of the events that are marked as hidden.
fn hidden(log: &[Event]) -> Vec<u64> {
    let hidden = log.iter().filter(|event| event.rewound);
    hidden.map(|event| event.sequence).collect()
}

pub async fn a_rewind_restores_the_sessions_own_state(fixture: &mut Fixture) {
    let state = [("stays", "0"), ("changes", "0"), ("goes", "0"), ("app:k", "0")];
    fixture.new_session("a/u/s", &state).await;
    fixture.put("a/u/s", "1", set(&[("changes", "1"), ("app:k", "1")])).await;
    let delta = set(&[("changes", "2"), ("new", "2"), ("app:k", "2"), ("user:k", "2")]);
    fixture.put("a/u/s", "2", delta.remove(&["goes"])).await;
    fixture.put("a/u/s", "3", set(&[("stays", "0")]).remove(&["app:k"])).await;
    let rewound = fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    let restored = r#"{"user:k":2,"changes":1,"goes":0,"stays":0}"#;
    assert_eq!(text(rewound.state.as_ref().unwrap()), restored);
    assert_eq!(fixture.state("a/u/s").await, restored);
    assert_eq!(rewound.info.last_sequence, 4);
    let marker = &rewound.events[0].event;
    assert_eq!(marker.sequence, 4);
    assert_eq!(marker.rewind_to, Some(1));
    assert!(marker.rewound);
    assert_eq!(marker.author, Author::system());
    assert_eq!(marker.body, None);
    assert_eq!(marker.versions, fixture.position("a/u").await.versions);
    // The marker holds only what it changed: a key that had been set again to the same value is not in it.
    let mut set: Vec<String> = marker
        .changes
        .set
        .as_ref()
        .unwrap()
        .members()
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    set.sort();
    assert_eq!(set, ["changes=1", "goes=0"]);
    assert_eq!(marker.changes.remove, [key("new")]);
    assert_eq!(
        fixture.versions("a/u/s").await,
        [("user:k", 1), ("changes", 4), ("goes", 4), ("stays", 3)]
            .map(|(name, version)| (name.to_owned(), version))
    );
}

pub async fn rewound_events_are_returned_on_request(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3"] {
        fixture.put("a/u/s", id, nothing()).await;
    }
    fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    fixture.put("a/u/s", "5", nothing()).await;
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1, 5]);
    let whole = fixture.whole_log("a/u/s").await;
    assert_eq!(sequences(&whole), [1, 2, 3, 4, 5]);
    assert_eq!(hidden(&whole), [2, 3, 4]);
    let markers: Vec<Option<u64>> = whole.iter().map(|event| event.rewind_to).collect();
    assert_eq!(markers, [None, None, None, Some(1), None]);
}

pub async fn a_rewind_to_the_last_event_hides_only_its_marker(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", set(&[("k", "1")])).await;
    let rewound = fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    assert!(rewound.events[0].event.changes.is_empty());
    assert_eq!(fixture.state("a/u/s").await, r#"{"k":1}"#);
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1]);
    assert_eq!(fixture.put("a/u/s", "3", nothing()).await.sequence, 3);
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1, 3]);
}

pub async fn a_rewind_to_0_restores_the_state_at_creation(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "0"), ("l", "0")]).await;
    // Also if there are no events.
    fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    fixture.put("a/u/s", "2", set(&[("k", "2"), ("n", "2")])).await;
    fixture.put("a/u/s", "3", remove(&["k", "l"])).await;
    let rewound = fixture.rewind_session(rewind("a/u/s", 0, "n")).await.unwrap();
    assert_eq!(text(&rewound.state.unwrap()), r#"{"k":0,"l":0}"#);
    assert_eq!(fixture.log("a/u/s").await, []);
    assert_eq!(hidden(&fixture.whole_log("a/u/s").await), [1, 2, 3, 4]);
    assert_eq!(rewound.info.last_sequence, 4);
}

pub async fn a_rewind_can_be_rewound(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3"] {
        fixture.put("a/u/s", id, set(&[("k", id)])).await;
    }
    fixture.rewind_session(rewind("a/u/s", 1, "m4")).await.unwrap();
    fixture.put("a/u/s", "5", set(&[("l", "5")])).await;
    // To before the first rewind: the events that it had hidden are visible again.
    let back = fixture.rewind_session(rewind("a/u/s", 3, "m6")).await.unwrap();
    assert_eq!(text(&back.state.unwrap()), r#"{"k":3}"#);
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1, 2, 3]);
    assert_eq!(hidden(&fixture.whole_log("a/u/s").await), [4, 5, 6]);
    // To a marker: as the session was right after it.
    let back = fixture.rewind_session(rewind("a/u/s", 4, "m7")).await.unwrap();
    assert_eq!(text(&back.state.unwrap()), r#"{"k":1}"#);
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1]);
    let back = fixture.rewind_session(rewind("a/u/s", 5, "m8")).await.unwrap();
    assert_eq!(text(&back.state.unwrap()), r#"{"k":1,"l":5}"#);
    assert_eq!(sequences(&fixture.log("a/u/s").await), [1, 5]);
    assert_eq!(hidden(&fixture.whole_log("a/u/s").await), [2, 3, 4, 6, 7, 8]);
}

pub async fn hidden_events_do_not_count_as_recent(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3", "4"] {
        fixture.put("a/u/s", id, nothing()).await;
    }
    fixture.rewind_session(rewind("a/u/s", 2, "m")).await.unwrap();
    fixture.put("a/u/s", "6", nothing()).await;
    let mut query = events("a/u/s");
    query.selection.recent = Some(2);
    let page = fixture.list_events(query.clone()).await.unwrap().1;
    assert_eq!(sequences(&page.events), [2, 6]);
    query.selection.filter.include_rewound = true;
    let page = fixture.list_events(query).await.unwrap().1;
    assert_eq!(sequences(&page.events), [5, 6]);
}

pub async fn a_rewind_needs_a_session(fixture: &mut Fixture) {
    let refused = fixture.rewind_session(rewind("a/u/s", 0, "m")).await;
    assert_eq!(refused.unwrap_err(), Error::not_found(&address("a/u/s")));
    fixture.new_session("a/u/s", &[]).await;
    let who = RewindSession { author: Author::new("someone").unwrap(), ..rewind("a/u/s", 0, "m") };
    let rewound = fixture.rewind_session(who).await.unwrap();
    assert_eq!(rewound.events[0].event.author.as_str(), "someone");
}
