//! What follows a position.

use sessiond::{
    domain::{
        error::Error, event::ScopeVersions, scope::ScopeKind, session::Incarnation, token::Position,
    },
    store::{CreateSession, ScopeChange, SessionUpdate, WatchPage},
};

use crate::{fixture::*, requests::*};

/// Before everything that follows a session's creation.
pub fn beginning(incarnation: Incarnation) -> Position {
    Position { incarnation, sequence: 0, versions: ScopeVersions::default() }
}

/// A change in one line: `a2: {…}` of version 2 of the application.
pub fn line(change: &ScopeChange) -> String {
    let kind = match change.scope {
        ScopeKind::Application => 'a',
        ScopeKind::User => 'u',
        ScopeKind::Session => 's',
    };
    format!("{kind}{}: {}", change.version, became(&change.changes))
}

fn lines(page: &WatchPage) -> Vec<String> {
    page.changes.iter().map(line).collect()
}

pub async fn whole(fixture: &Fixture, path: &str, position: Position) -> WatchPage {
    let page = fixture.read_changes(follow(path, position)).await.unwrap();
    assert!(page.complete);
    assert_eq!(page.position, fixture.position(path).await);
    page
}

pub async fn events_come_before_changes_by_others(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[("app:k", "1"), ("user:k", "1")]).await;
    let start = beginning(created.incarnation);
    fixture.put("a/u/s", "1", set(&[("k", "1"), ("app:own", "1")])).await;
    fixture.update_state(update("a", set(&[("app:x", "2")]))).await.unwrap();
    fixture.new_session("a/v/s", &[("app:y", "3"), ("user:y", "3")]).await;
    fixture.put("a/u/s", "2", set(&[("user:own", "1")])).await;
    let late = update("a/u", set(&[("user:z", "4"), ("app:z", "4")]).remove(&["app:x"]));
    fixture.update_state(late.at(at(1_234))).await.unwrap();
    let page = whole(fixture, "a/u/s", start).await;
    assert_eq!(page.events, fixture.log("a/u/s").await);
    // Its own events' changes are in those events; those of its creation are changes.
    let expected = [
        r#"a1: {"app:k":1}"#,
        r#"a4: {"app:y":3}"#,
        r#"a5: {"app:z":4} -app:x"#,
        r#"u1: {"user:k":1}"#,
        r#"u3: {"user:z":4}"#,
    ];
    assert_eq!(lines(&page), expected);
    let times: Vec<i64> = page.changes.iter().map(|change| change.commit_time.secs()).collect();
    assert_eq!(times, [1_000, 1_000, 1_234, 1_000, 1_234]);
    // Nothing follows the end.
    let end = whole(fixture, "a/u/s", page.position).await;
    assert!(end.events.is_empty() && end.changes.is_empty());
}

pub async fn a_user_and_an_application_receive_changes_by_everybody(fixture: &mut Fixture) {
    let nothing_yet = fixture.position("a/u").await;
    fixture.new_session("a/u/s", &[("app:k", "1"), ("user:k", "1")]).await;
    fixture.put("a/u/s", "1", set(&[("k", "1"), ("app:own", "2"), ("user:own", "2")])).await;
    fixture.update_state(update("a/u", set(&[("user:x", "3")]))).await.unwrap();
    fixture.update_state(update("a/v", set(&[("user:x", "9"), ("app:x", "3")]))).await.unwrap();
    let page = whole(fixture, "a/u", nothing_yet).await;
    assert!(page.events.is_empty());
    assert_eq!(page.expire_time, None);
    let app = [r#"a1: {"app:k":1}"#, r#"a2: {"app:own":2}"#, r#"a3: {"app:x":3}"#];
    let user = [r#"u1: {"user:k":1}"#, r#"u2: {"user:own":2}"#, r#"u3: {"user:x":3}"#];
    assert_eq!(lines(&page), [app, user].concat());
    let page = whole(fixture, "a", nothing_yet).await;
    assert_eq!(lines(&page), app);
    assert_eq!(page.position.versions.user, 0);
}

pub async fn only_the_newest_change_of_each_key_is_returned(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/u/t", &[]).await;
    let start = fixture.position("a/u/s").await;
    assert_eq!(start, beginning(created.incarnation));
    fixture.put("a/u/t", "1", set(&[("app:x", "1"), ("app:y", "1"), ("app:z", "1")])).await;
    fixture.put("a/u/t", "2", set(&[("app:x", "2")])).await;
    fixture.put("a/u/t", "3", remove(&["app:y"])).await;
    fixture.put("a/u/t", "4", set(&[("app:x", "4"), ("app:w", "4")])).await;
    let page = whole(fixture, "a/u/s", start).await;
    let expected = [r#"a1: {"app:z":1}"#, "a3:  -app:y", r#"a4: {"app:x":4,"app:w":4}"#];
    assert_eq!(lines(&page), expected);
    // From the middle: only what is newer than the position.
    let mut middle = start;
    middle.versions.application = 3;
    let page = whole(fixture, "a/u/s", middle).await;
    assert_eq!(lines(&page), expected[2..]);
    // Changes that its own event overwrote are not returned, and its own changes are in the event.
    fixture.put("a/u/s", "1", set(&[("app:x", "5"), ("app:z", "5")])).await;
    let page = whole(fixture, "a/u/s", start).await;
    assert_eq!(lines(&page), ["a3:  -app:y", r#"a4: {"app:w":4}"#]);
    // The other session receives them.
    let neighbour = fixture.position("a/u/t").await;
    let page = whole(fixture, "a/u/t", beginning(neighbour.incarnation)).await;
    assert_eq!(lines(&page), [r#"a5: {"app:x":5,"app:z":5}"#]);
}

/// Own changes are those of this incarnation: not of an earlier one, nor of the source of a fork.
pub async fn changes_by_an_earlier_incarnation_or_a_fork_source_are_returned(
    fixture: &mut Fixture,
) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", set(&[("app:x", "1")])).await;
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    let created = fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", set(&[("app:y", "2")])).await;
    let page = whole(fixture, "a/u/s", beginning(created.incarnation)).await;
    assert_eq!(lines(&page), [r#"a1: {"app:x":1}"#]);
    let (fork, _) = fixture.fork_session(fork("a/u/s", None, "f")).await.unwrap();
    fixture.put("a/u/f", "2", set(&[("app:z", "3")])).await;
    let page = whole(fixture, "a/u/f", beginning(fork.incarnation)).await;
    assert_eq!(sequences(&page.events), [1, 2]);
    let others = [r#"a1: {"app:x":1}"#, r#"a2: {"app:y":2}"#];
    assert_eq!(lines(&page), others);
    fixture.sweep_all(NOW).await;
    let page = whole(fixture, "a/u/s", beginning(created.incarnation)).await;
    assert_eq!(lines(&page), [r#"a1: {"app:x":1}"#, r#"a3: {"app:z":3}"#]);
}

pub async fn rewound_events_and_markers_are_events(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[("k", "0")]).await;
    fixture.put("a/u/s", "1", add("k", 1)).await;
    let live = whole(fixture, "a/u/s", beginning(created.incarnation)).await;
    assert!(!live.events[0].rewound);
    fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    fixture.put("a/u/s", "3", nothing()).await;
    let page = whole(fixture, "a/u/s", live.position).await;
    assert_eq!(sequences(&page.events), [2, 3]);
    assert_eq!(page.events[0].rewind_to, Some(0));
    let all = whole(fixture, "a/u/s", beginning(created.incarnation)).await;
    assert_eq!(all.events, fixture.whole_log("a/u/s").await);
}

pub async fn the_incarnation_of_the_position_must_be_live(fixture: &mut Fixture) {
    let first = fixture.new_session("a/u/s", &[]).await;
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    let second = fixture.new_session("a/u/s", &[]).await;
    let gone = Error::not_found(&address("a/u/s"));
    let old = follow("a/u/s", beginning(first.incarnation));
    assert_eq!(fixture.read_changes(old).await.unwrap_err(), gone);
    whole(fixture, "a/u/s", beginning(second.incarnation)).await;
    let never = follow("a/u/s", beginning(Incarnation(second.incarnation.0 + 1)));
    assert_eq!(fixture.read_changes(never).await.unwrap_err(), gone);
}

pub async fn a_page_has_the_expiration_of_its_session(fixture: &mut Fixture) {
    let create = CreateSession { expiration: ends(at(5_000)), ..create("a/u/s", &[]) };
    fixture.create_session(create).await.unwrap();
    let position = fixture.position("a/u/s").await;
    let page = whole(fixture, "a/u/s", position).await;
    assert_eq!(page.expire_time, Some(at(5_000)));
    let never = SessionUpdate { expiration: Some(None), ..touch("a/u/s") };
    fixture.update_session(never).await.unwrap();
    assert_eq!(whole(fixture, "a/u/s", position).await.expire_time, None);
}

/// A store that lost commits: what comes next would be taken for what was seen.
pub async fn a_position_beyond_the_end_is_an_error(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[("app:k", "1"), ("user:k", "1")]).await;
    let beyond = Position {
        incarnation: created.incarnation,
        sequence: i64::MAX as u64,
        versions: ScopeVersions { application: i64::MAX as u64, user: i64::MAX as u64 },
    };
    for path in ["a", "a/u", "a/u/s"] {
        let refused = fixture.read_changes(follow(path, beyond)).await;
        assert_eq!(refused.unwrap_err(), Error::cursor_ahead(), "{path}");
    }
    // Each by itself is ahead.
    let end = fixture.position("a/u/s").await;
    let far = beyond.sequence;
    for ahead in [
        Position { sequence: end.sequence + 1, ..end },
        Position { versions: ScopeVersions { application: far, ..end.versions }, ..end },
        Position { versions: ScopeVersions { user: far, ..end.versions }, ..end },
    ] {
        let refused = fixture.read_changes(follow("a/u/s", ahead)).await;
        assert_eq!(refused.unwrap_err(), Error::cursor_ahead(), "{ahead:?}");
    }
    fixture.read_changes(follow("a/u/s", end)).await.unwrap();
}
