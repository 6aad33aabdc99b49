//! How many rows a read looks at, and how it goes on.

use std::sync::{Arc, atomic::Ordering};

use super::*;
use crate::domain::permission::Users;

/// A log in which few events are of a rare author.
fn long_log(length: Sequence, rare: &[Sequence]) -> Written {
    let written = |at| {
        let author = Author::from_stored(if rare.contains(&at) { "rare" } else { "common" });
        Event { author, ..event(at, None, &[("k", "1")]) }
    };
    Written::events((1..=length).map(written))
}

fn by_rare(selection: EventSelection) -> EventSelection {
    let author = Some(Author::from_stored("rare"));
    EventSelection { filter: EventFilter { author, ..EventFilter::default() }, ..selection }
}

/// The sequences of each page, with the most rows that one looked at.
fn pages(written: &Written, mut selection: EventSelection) -> (Vec<Vec<Sequence>>, usize) {
    let (mut pages, mut most) = (Vec::new(), 0);
    loop {
        let page = written.page(selection.clone()).unwrap();
        most = most.max(written.looked_at() - page.events.len());
        pages.push(sequences(&page));
        let Some(Rest { after, up_to }) = page.rest else { return (pages, most) };
        let recent = page.uncounted.map(|it| it.recent);
        let counted_to = page.uncounted.map(|it| it.counted_to);
        selection = EventSelection { after, up_to, recent, counted_to, ..selection };
    }
}

#[test]
fn a_page_ends_after_the_rows_that_it_may_look_at() {
    let written = long_log(5000, &[2, 2500, 4999]);
    for descending in [false, true] {
        let (pages, most) =
            pages(&written, by_rare(EventSelection { descending, ..Default::default() }));
        let mut wanted = vec![vec![2], vec![2500], vec![4999]];
        if descending {
            wanted.reverse();
        }
        assert_eq!((pages, most), (wanted, PAGE_SCANNED));
    }
}

#[test]
fn counting_the_newest_goes_on_with_the_next_page() {
    let written = long_log(9000, &[2, 100, 4500]);
    for (recent, wanted) in [(1, vec![4500]), (2, vec![100, 4500]), (9, vec![2, 100, 4500])] {
        let selection = EventSelection { recent: Some(recent), ..EventSelection::default() };
        let (pages, most) = pages(&written, by_rare(selection));
        assert_eq!(pages.concat(), wanted);
        assert!(pages[0].is_empty() && pages[1].is_empty(), "{pages:?}");
        assert_eq!(most, PAGE_SCANNED);
    }
}

#[test]
fn a_history_and_a_watch_end_their_pages_alike() {
    let mut written = long_log(5000, &[]);
    let mut query = KeyChangeQuery {
        scope: Scope::Session(key()),
        key: StateKey::from_stored("never"),
        before: None,
        max_items: 10,
        max_bytes: usize::MAX,
    };
    let mut count = 0;
    loop {
        let page = written.of(query.clone()).unwrap();
        assert!(page.changes.is_empty() && written.looked_at() <= PAGE_SCANNED + PIECE_ROWS);
        count += 1;
        let Some(rest) = page.rest else { break };
        query.before = Some(rest);
    }
    assert_eq!(count, 3);
    // All but the last change were overwritten.
    for row in written.changes[1].values_mut() {
        row.source = None;
    }
    let position =
        Position { incarnation: Incarnation(0), sequence: 0, versions: ScopeVersions::default() };
    let scope = Scope::User(key().app_name, key().user_id);
    let query = WatchQuery { scope, position, max_items: 100, max_bytes: usize::MAX };
    let page = written.of(query).unwrap();
    assert!(page.changes.is_empty() && !page.complete);
    // Each with a key.
    assert_eq!(page.position.versions.user, PAGE_SCANNED as u64 / 2);
}

#[test]
fn a_page_ends_after_some_time_but_not_before_it_has_looked() {
    let written = Written { look_millis: PAGE_MILLIS, ..long_log(5000, &[2]) };
    let selection = EventSelection { after: 2, max_items: 100, ..EventSelection::default() };
    let page = written.page(by_rare(selection)).unwrap();
    assert_eq!((page.events.len(), written.looked_at()), (0, PIECE_ROWS));
    assert_eq!(page.rest.unwrap().after, 2 + PIECE_ROWS as u64);
    // What passes is bounded by the page.
    let all = written.page(EventSelection { max_items: 900, ..Default::default() }).unwrap();
    assert_eq!(all.events.len(), 900);
}

/// A log with as many rewinds to the first event, each behind an event that it hides, and two events at the end.
fn rewound(rewinds: u64) -> Written {
    let last = 1 + 2 * rewinds + 2;
    let to = |at| (at > 1 && at % 2 == 1 && at <= last - 2).then_some(1);
    Written::events((1..=last).map(|at| event(at, to(at), &[])))
}

#[test]
fn reads_near_the_end_do_not_read_all_markers() {
    let rows = [0, 4000].map(|rewinds| {
        let written = rewound(rewinds);
        let last = written.session.as_ref().unwrap().last_sequence;
        let newest = EventSelection { recent: Some(1), ..EventSelection::default() };
        let all = EventSelection::default();
        let mut filter = EventFilter::default();
        for (selection, wanted) in [
            (newest, vec![last]),
            (EventSelection { after: last - 2, ..all.clone() }, vec![last - 1, last]),
            (EventSelection { descending: true, ..all.clone() }, vec![last, last - 1, 1]),
            // The chain jumps over what it hides.
            (all.clone(), vec![1, last - 1, last]),
            (by_rare(all.clone()), vec![]),
        ] {
            assert_eq!(sequences(&written.page(selection).unwrap()), wanted);
        }
        filter.include_rewound = true;
        let marked = EventSelection { filter, after: last - 2, ..all };
        assert!(written.page(marked).unwrap().events.iter().all(|event| !event.rewound));
        let versions = ScopeVersions { application: 0, user: last };
        let position = Position { incarnation: Incarnation(7), sequence: last - 1, versions };
        let scope = Scope::Session(key());
        let query = WatchQuery { scope, position, max_items: 100, max_bytes: usize::MAX };
        assert_eq!(written.of(query).unwrap().events.len(), 1);
        written.looked_at()
    });
    // Each of the reads that go back over all rewinds reads a first piece of markers.
    assert!(rows[1] <= rows[0] + 6 * 16, "{rows:?}");
}

#[test]
fn a_long_chain_of_rewinds_is_read_in_pieces() {
    // Every third event goes back over the one before it.
    let to = |at: u64| at.is_multiple_of(3).then(|| at - 2);
    let written = Written::events((1..=9000).map(|at| event(at, to(at), &[])));
    let shown: Vec<Sequence> = (1..=9000).filter(|at| at % 3 == 1).collect();
    let (found, _) = pages(&written, EventSelection::default());
    assert_eq!(found.concat(), shown);
    let (mut found, _) =
        pages(&written, EventSelection { descending: true, ..EventSelection::default() });
    found.iter_mut().for_each(|page| page.reverse());
    found.reverse();
    assert_eq!(found.concat(), shown);
    written.looked_at();
    let newest = EventSelection { recent: Some(3), ..EventSelection::default() };
    assert_eq!(sequences(&written.page(newest).unwrap()), shown[shown.len() - 3..]);
    assert!(written.looked_at() <= 3 + 2 * 16, "as far as the page needs");
}

#[test]
fn a_page_of_sessions_of_many_users_asks_once() {
    let written = Written::events([event(1, None, &[])]);
    let users = (0..100).map(|at| UserId::from_stored(at.to_string()));
    let users = Arc::new(users.collect());
    // Of each of the users as many rows may be read as the page has.
    for (max_items, wanted) in [(10, 10), (100, PAGE_SCANNED / 100)] {
        let query = SessionsQuery {
            app_name: key().app_name,
            user_id: None,
            seen: Users::Only(Arc::clone(&users)),
            labels: Labels::default(),
            order: SessionOrder::MostRecent,
            after: None,
            max_items,
            max_bytes: usize::MAX,
            with_state: false,
        };
        let page = written.of(query).unwrap();
        assert_eq!((page.sessions.len(), page.rest.is_some()), (wanted, true));
        assert_eq!(written.lists.swap(0, Ordering::Relaxed), 1);
    }
}
