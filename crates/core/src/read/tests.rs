//! The kernel alone, over rows that tests write down: one application, one user, and at most one session.

mod bounds;
mod faults;
mod written;

use super::*;
use crate::domain::{error::Damage, prelude::*};
use written::Written;

fn text(value: &str) -> Json {
    Json::string(value)
}

fn key() -> SessionKey {
    SessionKey {
        app_name: AppName::from_stored("a"),
        user_id: UserId::from_stored("u"),
        session_id: SessionId::from_stored("s"),
    }
}

fn session(last_sequence: Sequence) -> SessionInfo {
    let time = Time::from_stored(1, 0);
    SessionInfo {
        key: key(),
        incarnation: Incarnation(7),
        last_sequence,
        create_time: time,
        update_time: time,
        last_event_time: time,
        expire_time: None,
        display_name: DisplayName::default(),
        labels: Labels::default(),
        forked_from: None,
        created_versions: ScopeVersions::default(),
    }
}

fn sets(keys: &[(&str, &str)]) -> Changes {
    let results: Vec<KeyResult> =
        keys.iter().map(|(key, value)| (StateKey::from_stored(*key), Some(text(value)))).collect();
    crate::domain::delta::changes(results.iter())
}

fn event(sequence: Sequence, rewind_to: Option<Sequence>, keys: &[(&str, &str)]) -> Event {
    Event {
        event_id: EventId::from_stored(sequence.to_string()),
        sequence,
        invocation_id: None,
        author: Author::from_stored(if sequence.is_multiple_of(2) { "even" } else { "odd" }),
        branch: Branch::from_stored(""),
        event_time: Time::from_stored(sequence.cast_signed(), 0),
        commit_time: Time::from_stored(sequence.cast_signed(), 0),
        changes: sets(keys),
        body: Some(Json::stored(r#"{"a":1}"#).unwrap()),
        rewind_to,
        rewound: false,
        versions: ScopeVersions { application: 0, user: sequence },
        trace_id: None,
    }
}

fn sequences(page: &EventPage) -> Vec<Sequence> {
    page.events.iter().map(|event| event.sequence).collect()
}

#[test]
fn a_page_ends_with_its_budget_and_says_where_the_rest_begins() {
    let written = Written::events((1..=9).map(|at| event(at, None, &[])));
    // Of the longer ones: authors differ in length.
    let bytes = written.events[&2].bytes();
    for (max_items, max_bytes, count) in
        [(4, usize::MAX, 4), (usize::MAX, 3 * bytes, 3), (9, 1, 1), (9, usize::MAX, 9)]
    {
        for descending in [false, true] {
            let selection =
                EventSelection { descending, max_items, max_bytes, ..EventSelection::default() };
            let page = written.page(selection.clone()).unwrap();
            let mut all: Vec<Sequence> = (1..=9).collect();
            if descending {
                all.reverse();
            }
            assert_eq!(sequences(&page), all[..count]);
            let Some(Rest { after, up_to }) = page.rest else { continue };
            let rest = written.page(EventSelection { after, up_to, ..selection }).unwrap();
            assert_eq!(rest.events[0].sequence, all[count]);
        }
    }
}

#[test]
fn a_filter_counts_its_newest_and_fills_its_page() {
    let written = Written::events((1..=9).map(|at| event(at, None, &[])));
    let filter = EventFilter { author: Some(Author::from_stored("odd")), ..EventFilter::default() };
    for (recent, wanted) in [(0, &[][..]), (2, &[7, 9]), (50, &[1, 3, 5, 7, 9])] {
        let filter = filter.clone();
        let selection =
            EventSelection { filter, recent: Some(recent), ..EventSelection::default() };
        assert_eq!(sequences(&written.page(selection).unwrap()), wanted);
    }
}

#[test]
fn a_rewind_hides_what_it_went_back_over() {
    let rewinds = [(5, 2)];
    let to = |at| rewinds.iter().find(|(marker, _)| *marker == at).map(|(_, to)| *to);
    let written = Written::events((1..=6).map(|at| event(at, to(at), &[])));
    assert_eq!(sequences(&written.page(EventSelection::default()).unwrap()), [1, 2, 6]);
    let newest = EventSelection { recent: Some(2), ..EventSelection::default() };
    assert_eq!(sequences(&written.page(newest).unwrap()), [2, 6]);
    let filter = EventFilter { include_rewound: true, ..EventFilter::default() };
    let all = written.page(EventSelection { filter, ..EventSelection::default() }).unwrap();
    let rewound = all.events.iter().filter(|event| event.rewound).map(|event| event.sequence);
    assert_eq!(rewound.collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn the_past_is_a_snapshot_and_the_changes_that_follow() {
    let mut written = Written::events((1..=6).map(|at| event(at, None, &[("k", &at.to_string())])));
    assert_eq!(written.as_of(4).unwrap(), r#"{"user:n":"4","k":"4"}"#);
    // What a snapshot holds is not read again.
    let past = Past::from([("k".into(), (Some(text("3")), 3)), ("gone".into(), (None, 2))]);
    written.snapshots[2].insert(3, past);
    written.events.remove(&2);
    assert_eq!(written.as_of(4).unwrap(), r#"{"user:n":"4","k":"4"}"#);
    assert_eq!(written.as_of(3).unwrap(), r#"{"user:n":"3","k":"3"}"#);
    assert!(matches!(written.as_of(2), Err(Error::Damaged(..))));
    let beyond = Error::BeyondLastSequence { asked: 7, last_sequence: 6 };
    assert_eq!(written.as_of(7), Err(beyond));
}

#[test]
fn an_earlier_life_of_a_user_is_not_read() {
    let mut written = Written::events((1..=6).map(|at| event(at, None, &[])));
    written.snapshots[1].insert(2, Past::from([("old".into(), (Some(text("1")), 1))]));
    written.heads[1].base = 3;
    assert_eq!(written.as_of(2).unwrap(), "{}");
    assert_eq!(written.as_of(5).unwrap(), r#"{"user:n":"5"}"#);
    let query = KeyChangeQuery {
        scope: Scope::Session(key()),
        key: StateKey::from_stored("user:n"),
        before: None,
        max_items: 10,
        max_bytes: usize::MAX,
    };
    let page = written.of(query.clone()).unwrap();
    let versions = page.changes.iter().map(|change| change.version);
    assert_eq!((versions.collect::<Vec<_>>(), page.rest), (vec![6, 5, 4], None));
    let query = KeyChangeQuery { max_items: 2, before: Some(6), ..query };
    let page = written.of(query).unwrap();
    let versions = page.changes.iter().map(|change| change.version);
    assert_eq!((versions.collect::<Vec<_>>(), page.rest), (vec![5, 4], None));
}

#[test]
fn a_watch_page_has_events_first_and_what_others_left_newest() {
    let mut written = Written::events((1..=3).map(|at| event(at, None, &[])));
    for version in [4, 5] {
        let mut row = written.changes[1][&3].clone();
        (row.version, row.source, row.changes) = (version, None, sets(&[("user:m", "1")]));
        written.changes[1].insert(version, row);
    }
    written.states[1].insert("m".into(), (text("1"), 5));
    written.heads[1].version = 5;
    let position =
        Position { incarnation: Incarnation(7), sequence: 1, versions: ScopeVersions::default() };
    let scope = Scope::Session(key());
    let query = WatchQuery { scope, position, max_items: 2, max_bytes: usize::MAX };
    let page = written.of(query.clone()).unwrap();
    assert_eq!((page.events.len(), page.changes.len(), page.complete), (2, 0, false));
    let page = written.of(WatchQuery { position: page.position, ..query.clone() }).unwrap();
    // The session's own changes came with its events, and version 5 overwrote version 4.
    let versions: Vec<Version> = page.changes.iter().map(|change| change.version).collect();
    assert_eq!((page.events.len(), versions, page.complete), (0, vec![5], true));
    assert_eq!((page.position.sequence, page.position.versions.user), (3, 5));
    let gone = Position { incarnation: Incarnation(6), ..position };
    let found = written.of(WatchQuery { position: gone, ..query }).map(|page| page.complete);
    assert_eq!(found, Err(Error::not_found(&key())));
}

#[test]
fn only_a_sessions_own_damaged_value_is_an_error() {
    let mut written = Written::events([event(1, None, &[])]);
    let read = |written: &Written| {
        let query = StateQuery { scope: Scope::Session(key()), keys: None };
        written.of(query).map(|view| State::damaged(&view.state.0))
    };
    let damaged = Json::stored_or_damaged("{");
    written.states[1].insert("bad".into(), (damaged.clone(), 1));
    assert_eq!(read(&written), Ok(vec!["user:bad".to_owned()]));
    written.states[2].insert("bad".into(), (damaged, 1));
    assert_eq!(read(&written), Err(Error::damaged_key(&StateKey::from_stored("bad"))));
}

#[test]
fn runs_are_what_was_wanted() {
    for (wanted, expected, descends) in [
        (&[][..], &[][..], false),
        (&[3], &[(2, 3)], false),
        (&[1, 2, 5, 6, 7], &[(0, 2), (4, 7)], false),
        (&[7, 6, 3, 2], &[(5, 7), (1, 3)], true),
    ] {
        let (runs, descending) = runs(wanted);
        assert_eq!((&*runs.collect::<Vec<_>>(), descending), (expected, descends));
    }
}
