//! Going back without forgetting.

use sessiond::domain::{error::Error, event::Event, id::Author};
use sessiond::store::RewindSession;

use crate::{bench::*, build::*};

/// The sequences of the events that are marked as hidden.
fn hidden(log: &[Event]) -> Vec<u64> {
    let hidden = log.iter().filter(|event| event.rewound);
    hidden.map(|event| event.sequence).collect()
}

pub async fn a_rewind_restores_the_sessions_own_state(bench: &mut Bench) {
    let state = [("stays", "0"), ("changes", "0"), ("goes", "0"), ("app:k", "0")];
    bench.new_session("a/u/s", &state).await;
    bench.put("a/u/s", "1", set(&[("changes", "1"), ("app:k", "1")])).await;
    let delta = set(&[("changes", "2"), ("new", "2"), ("app:k", "2"), ("user:k", "2")]);
    bench.put("a/u/s", "2", delta.remove(&["goes"])).await;
    bench.put("a/u/s", "3", set(&[("stays", "0")]).remove(&["app:k"])).await;
    let rewound = bench.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    let restored = r#"{"user:k":2,"changes":1,"goes":0,"stays":0}"#;
    assert_eq!(text(rewound.state.as_ref().unwrap()), restored);
    assert_eq!(bench.state("a/u/s").await, restored);
    assert_eq!(rewound.info.last_sequence, 4);
    let marker = &rewound.events[0].event;
    assert_eq!(marker.sequence, 4);
    assert_eq!(marker.rewind_to, Some(1));
    assert!(marker.rewound);
    assert_eq!(marker.author, Author::system());
    assert_eq!(marker.body, None);
    assert_eq!(marker.versions, bench.position("a/u").await.versions);
    // The marker says what it changed, and nothing else: what was set again to the same is as it was.
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
        bench.versions("a/u/s").await,
        [("user:k", 1), ("changes", 4), ("goes", 4), ("stays", 3)]
            .map(|(name, version)| (name.to_owned(), version))
    );
}

pub async fn what_a_rewind_hides_shows_when_asked_for(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3"] {
        bench.put("a/u/s", id, nothing()).await;
    }
    bench.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    bench.put("a/u/s", "5", nothing()).await;
    assert_eq!(sequences(&bench.log("a/u/s").await), [1, 5]);
    let whole = bench.whole_log("a/u/s").await;
    assert_eq!(sequences(&whole), [1, 2, 3, 4, 5]);
    assert_eq!(hidden(&whole), [2, 3, 4]);
    let markers: Vec<Option<u64>> = whole.iter().map(|event| event.rewind_to).collect();
    assert_eq!(markers, [None, None, None, Some(1), None]);
}

pub async fn to_the_last_event_only_the_marker_is_hidden(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    bench.put("a/u/s", "1", set(&[("k", "1")])).await;
    let rewound = bench.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    assert!(rewound.events[0].event.changes.is_empty());
    assert_eq!(bench.state("a/u/s").await, r#"{"k":1}"#);
    assert_eq!(sequences(&bench.log("a/u/s").await), [1]);
    assert_eq!(bench.put("a/u/s", "3", nothing()).await.sequence, 3);
    assert_eq!(sequences(&bench.log("a/u/s").await), [1, 3]);
}

pub async fn to_0_it_is_as_created(bench: &mut Bench) {
    bench.new_session("a/u/s", &[("k", "0"), ("l", "0")]).await;
    // Also where nothing happened yet.
    bench.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    bench.put("a/u/s", "2", set(&[("k", "2"), ("n", "2")])).await;
    bench.put("a/u/s", "3", remove(&["k", "l"])).await;
    let rewound = bench.rewind_session(rewind("a/u/s", 0, "n")).await.unwrap();
    assert_eq!(text(&rewound.state.unwrap()), r#"{"k":0,"l":0}"#);
    assert_eq!(bench.log("a/u/s").await, []);
    assert_eq!(hidden(&bench.whole_log("a/u/s").await), [1, 2, 3, 4]);
    assert_eq!(rewound.info.last_sequence, 4);
}

pub async fn a_rewind_can_be_rewound(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3"] {
        bench.put("a/u/s", id, set(&[("k", id)])).await;
    }
    bench.rewind_session(rewind("a/u/s", 1, "m4")).await.unwrap();
    bench.put("a/u/s", "5", set(&[("l", "5")])).await;
    // Back to before the first rewind: what that had hidden is there again.
    let back = bench.rewind_session(rewind("a/u/s", 3, "m6")).await.unwrap();
    assert_eq!(text(&back.state.unwrap()), r#"{"k":3}"#);
    assert_eq!(sequences(&bench.log("a/u/s").await), [1, 2, 3]);
    assert_eq!(hidden(&bench.whole_log("a/u/s").await), [4, 5, 6]);
    // And to a marker: as it was right after that.
    let back = bench.rewind_session(rewind("a/u/s", 4, "m7")).await.unwrap();
    assert_eq!(text(&back.state.unwrap()), r#"{"k":1}"#);
    assert_eq!(sequences(&bench.log("a/u/s").await), [1]);
    let back = bench.rewind_session(rewind("a/u/s", 5, "m8")).await.unwrap();
    assert_eq!(text(&back.state.unwrap()), r#"{"k":1,"l":5}"#);
    assert_eq!(sequences(&bench.log("a/u/s").await), [1, 5]);
    assert_eq!(hidden(&bench.whole_log("a/u/s").await), [2, 3, 4, 6, 7, 8]);
}

pub async fn hidden_events_do_not_count_as_recent(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    for id in ["1", "2", "3", "4"] {
        bench.put("a/u/s", id, nothing()).await;
    }
    bench.rewind_session(rewind("a/u/s", 2, "m")).await.unwrap();
    bench.put("a/u/s", "6", nothing()).await;
    let mut query = events("a/u/s");
    query.selection.recent = Some(2);
    let page = bench.list_events(query.clone()).await.unwrap().1;
    assert_eq!(sequences(&page.events), [2, 6]);
    query.selection.filter.include_rewound = true;
    let page = bench.list_events(query).await.unwrap().1;
    assert_eq!(sequences(&page.events), [5, 6]);
}

pub async fn a_rewind_needs_a_session(bench: &mut Bench) {
    let refused = bench.rewind_session(rewind("a/u/s", 0, "m")).await;
    assert_eq!(refused.unwrap_err(), Error::not_found(&address("a/u/s")));
    bench.new_session("a/u/s", &[]).await;
    let who = RewindSession { author: Author::new("someone").unwrap(), ..rewind("a/u/s", 0, "m") };
    let rewound = bench.rewind_session(who).await.unwrap();
    assert_eq!(rewound.events[0].event.author.as_str(), "someone");
}
