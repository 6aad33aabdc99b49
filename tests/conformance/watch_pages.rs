//! Watching a scope page by page, and while others write.

use std::collections::BTreeMap;

use sessiond::{
    domain::{
        Version,
        event::{Event, ScopeVersions},
        limits::PAGE_SCANNED,
        scope::ScopeKind,
        token::Position,
    },
    store::{ScopeChange, WatchQuery},
};

use crate::{
    fixture::*,
    requests::*,
    watching::{beginning, line, whole},
};

/// Reads pages to the end. Returns all that they held.
async fn in_pages(
    fixture: &Fixture,
    mut query: WatchQuery,
) -> (Vec<Event>, Vec<ScopeChange>, Position) {
    let (mut events, mut changes) = (Vec::new(), Vec::new());
    for _ in 0..10_000 {
        let page = fixture.read_changes(query.clone()).await.unwrap();
        assert!(page.events.len() + page.changes.len() <= query.max_items);
        // Changes only come when no event is left.
        if !page.changes.is_empty() {
            let last = fixture.position("a/u/s").await.sequence;
            assert_eq!(page.position.sequence, last);
        }
        events.extend(page.events);
        changes.extend(page.changes);
        query.position = page.position;
        if page.complete {
            return (events, changes, query.position);
        }
    }
    panic!("the pages do not end");
}

pub async fn small_pages_add_up_to_one_large_page(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/u/t", &[]).await;
    for at in 0..30 {
        let id = at.to_string();
        let path = if at % 3 == 0 { "a/u/s" } else { "a/u/t" };
        let delta =
            set(&[(&format!("app:{}", at % 7), &*id), (&format!("user:{}", at % 11), &*id)]);
        fixture.put(path, &id, delta).await;
    }
    let start = beginning(created.incarnation);
    let page = whole(fixture, "a/u/s", start).await;
    assert_eq!(page.events.len(), 10);
    assert!(page.changes.len() > 8, "{}", page.changes.len());
    let bounds =
        [(1, usize::MAX), (2, usize::MAX), (7, usize::MAX), (usize::MAX, 0), (usize::MAX, 300)];
    for (max_items, max_bytes) in bounds {
        let query = WatchQuery { max_items, max_bytes, ..follow("a/u/s", start) };
        let (events, changes, end) = in_pages(fixture, query).await;
        assert_eq!(events, page.events);
        assert_eq!(changes, page.changes);
        assert_eq!(end, page.position);
    }
    let bounded = WatchQuery { max_bytes: 700, ..follow("a/u/s", start) };
    let some = fixture.read_changes(bounded).await.unwrap();
    assert!(!some.complete);
    let bytes: usize = some.events.iter().map(Event::bytes).sum();
    assert!(some.events.len() > 1 && bytes <= 700, "{bytes}");
}

/// A page scans a bounded number of changes, also if it returns none of them.
pub async fn a_long_range_without_matches_is_read_in_pieces(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/u/t", &[]).await;
    let total = PAGE_SCANNED + 500;
    for from in (0..total).step_by(500) {
        let batch = (from..from + 500).map(|at| event(&at.to_string(), add("app:n", 1)));
        fixture.append(append("a/u/t", batch)).await.unwrap();
    }
    let query = follow("a/u/s", beginning(created.incarnation));
    assert!(!fixture.read_changes(query.clone()).await.unwrap().complete);
    let (_, changes, end) = in_pages(fixture, query).await;
    let last = format!("a{total}: {{\"app:n\":{total}}}");
    assert_eq!(changes.iter().map(line).collect::<Vec<_>>(), [last]);
    assert_eq!(end.versions.application, total as Version);
}

/// A watcher gets every event once while others write, and the last value of every key.
pub async fn watching_live_misses_and_repeats_nothing(fixture: &mut Fixture) {
    const WRITES: u64 = 120;
    let created = fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/u/t", &[]).await;
    let writers: Vec<_> = ["a/u/s", "a/u/t"]
        .into_iter()
        .map(|path| {
            let store = fixture.share();
            tokio::spawn(async move {
                for at in 0..WRITES {
                    let delta = set(&[(&format!("app:{path}{}", at % 5), &*at.to_string())])
                        .add("user:n", 1);
                    let id = at.to_string();
                    store.append(append(path, [event(&id, delta)])).await.unwrap();
                }
            })
        })
        .collect();
    let mut query = WatchQuery { max_items: 3, ..follow("a/u/s", beginning(created.incarnation)) };
    let mut events = Vec::new();
    let mut seen = ScopeVersions::default();
    let mut newest = BTreeMap::new();
    let mut written = false;
    loop {
        let finished = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let page = fixture.read_changes(query.clone()).await.unwrap();
        for change in &page.changes {
            let seen = match change.scope {
                ScopeKind::Application => &mut seen.application,
                _ => &mut seen.user,
            };
            assert!(change.version > *seen, "{change:?}");
            *seen = change.version;
            for (name, value) in change.changes.set.as_ref().unwrap().members() {
                newest.insert(name, value);
            }
        }
        events.extend(sequences(&page.events));
        query.position = page.position;
        if page.complete && written {
            break;
        }
        written = finished;
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(events, (1..=WRITES).collect::<Vec<_>>());
    let state = fixture.read_state(read_state("a/u/s")).await.unwrap().state;
    for at in 0..5 {
        let name = format!("app:a/u/t{at}");
        assert_eq!(newest.get(&name), state.get(&name));
    }
    assert!(newest.keys().all(|name| !name.starts_with("app:a/u/s")));
    assert_eq!(query.position, fixture.position("a/u/s").await);
}
