//! What follows a position.

use sessiond::{
    domain::{
        error::Error, event::ScopeVersions, scope::ScopeKind, session::Incarnation, token::Position,
    },
    store::{CreateSession, ScopeChange, SessionUpdate, StateUpdate, WatchPage},
};

use crate::{bench::*, build::*};

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

pub async fn whole(bench: &Bench, path: &str, position: Position) -> WatchPage {
    let page = bench.read_changes(follow(path, position)).await.unwrap();
    assert!(page.complete);
    assert_eq!(page.position, bench.position(path).await);
    page
}

pub async fn events_come_first_and_then_what_others_changed(bench: &mut Bench) {
    let created = bench.new_session("a/u/s", &[("app:k", "1"), ("user:k", "1")]).await;
    let start = beginning(created.incarnation);
    bench.put("a/u/s", "1", set(&[("k", "1"), ("app:own", "1")])).await;
    bench.update_state(update("a", set(&[("app:x", "2")]))).await.unwrap();
    bench.new_session("a/v/s", &[("app:y", "3"), ("user:y", "3")]).await;
    bench.put("a/u/s", "2", set(&[("user:own", "1")])).await;
    let late = StateUpdate {
        now: at(1_234),
        ..update("a/u", set(&[("user:z", "4"), ("app:z", "4")]).remove(&["app:x"]))
    };
    bench.update_state(late).await.unwrap();
    let page = whole(bench, "a/u/s", start).await;
    assert_eq!(page.events, bench.log("a/u/s").await);
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
    let end = whole(bench, "a/u/s", page.position).await;
    assert!(end.events.is_empty() && end.changes.is_empty());
}

pub async fn a_user_and_an_application_hear_of_everybody(bench: &mut Bench) {
    let nothing_yet = bench.position("a/u").await;
    bench.new_session("a/u/s", &[("app:k", "1"), ("user:k", "1")]).await;
    bench.put("a/u/s", "1", set(&[("k", "1"), ("app:own", "2"), ("user:own", "2")])).await;
    bench.update_state(update("a/u", set(&[("user:x", "3")]))).await.unwrap();
    bench.update_state(update("a/v", set(&[("user:x", "9"), ("app:x", "3")]))).await.unwrap();
    let page = whole(bench, "a/u", nothing_yet).await;
    assert!(page.events.is_empty());
    assert_eq!(page.expire_time, None);
    let app = [r#"a1: {"app:k":1}"#, r#"a2: {"app:own":2}"#, r#"a3: {"app:x":3}"#];
    let user = [r#"u1: {"user:k":1}"#, r#"u2: {"user:own":2}"#, r#"u3: {"user:x":3}"#];
    assert_eq!(lines(&page), [app, user].concat());
    let page = whole(bench, "a", nothing_yet).await;
    assert_eq!(lines(&page), app);
    assert_eq!(page.position.versions.user, 0);
}

pub async fn of_each_key_only_the_newest_change_comes(bench: &mut Bench) {
    let created = bench.new_session("a/u/s", &[]).await;
    bench.new_session("a/u/t", &[]).await;
    let start = bench.position("a/u/s").await;
    assert_eq!(start, beginning(created.incarnation));
    bench.put("a/u/t", "1", set(&[("app:x", "1"), ("app:y", "1"), ("app:z", "1")])).await;
    bench.put("a/u/t", "2", set(&[("app:x", "2")])).await;
    bench.put("a/u/t", "3", remove(&["app:y"])).await;
    bench.put("a/u/t", "4", set(&[("app:x", "4"), ("app:w", "4")])).await;
    let page = whole(bench, "a/u/s", start).await;
    let expected = [r#"a1: {"app:z":1}"#, "a3:  -app:y", r#"a4: {"app:x":4,"app:w":4}"#];
    assert_eq!(lines(&page), expected);
    // From the middle: what is newer than the position.
    let mut middle = start;
    middle.versions.application = 3;
    let page = whole(bench, "a/u/s", middle).await;
    assert_eq!(lines(&page), expected[2..]);
    // What its own event overwrote is not news, and what it wrote itself is in the event.
    bench.put("a/u/s", "1", set(&[("app:x", "5"), ("app:z", "5")])).await;
    let page = whole(bench, "a/u/s", start).await;
    assert_eq!(lines(&page), ["a3:  -app:y", r#"a4: {"app:w":4}"#]);
    // For the neighbour it is.
    let neighbour = bench.position("a/u/t").await;
    let page = whole(bench, "a/u/t", beginning(neighbour.incarnation)).await;
    assert_eq!(lines(&page), [r#"a5: {"app:x":5,"app:z":5}"#]);
}

/// Its own is what this life of it wrote: not what an earlier one did, nor the session that it was forked from.
pub async fn an_earlier_life_and_a_source_are_others(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    bench.put("a/u/s", "1", set(&[("app:x", "1")])).await;
    bench.delete_session(address("a/u/s"), NOW).await.unwrap();
    let created = bench.new_session("a/u/s", &[]).await;
    bench.put("a/u/s", "1", set(&[("app:y", "2")])).await;
    let page = whole(bench, "a/u/s", beginning(created.incarnation)).await;
    assert_eq!(lines(&page), [r#"a1: {"app:x":1}"#]);
    let fork = bench.fork_session(fork("a/u/s", None, "f")).await.unwrap().info;
    bench.put("a/u/f", "2", set(&[("app:z", "3")])).await;
    let page = whole(bench, "a/u/f", beginning(fork.incarnation)).await;
    assert_eq!(sequences(&page.events), [1, 2]);
    let others = [r#"a1: {"app:x":1}"#, r#"a2: {"app:y":2}"#];
    assert_eq!(lines(&page), others);
    bench.sweep_all(NOW).await;
    let page = whole(bench, "a/u/s", beginning(created.incarnation)).await;
    assert_eq!(lines(&page), [r#"a1: {"app:x":1}"#, r#"a3: {"app:z":3}"#]);
}

pub async fn rewound_events_and_markers_are_events(bench: &mut Bench) {
    let created = bench.new_session("a/u/s", &[("k", "0")]).await;
    bench.put("a/u/s", "1", add("k", 1)).await;
    let live = whole(bench, "a/u/s", beginning(created.incarnation)).await;
    assert!(!live.events[0].rewound);
    bench.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    bench.put("a/u/s", "3", nothing()).await;
    let page = whole(bench, "a/u/s", live.position).await;
    assert_eq!(sequences(&page.events), [2, 3]);
    assert_eq!(page.events[0].rewind_to, Some(0));
    let all = whole(bench, "a/u/s", beginning(created.incarnation)).await;
    assert_eq!(all.events, bench.whole_log("a/u/s").await);
}

pub async fn the_life_of_the_position_has_to_be_the_live_one(bench: &mut Bench) {
    let first = bench.new_session("a/u/s", &[]).await;
    bench.delete_session(address("a/u/s"), NOW).await.unwrap();
    let second = bench.new_session("a/u/s", &[]).await;
    let gone = Error::not_found(&address("a/u/s"));
    let old = follow("a/u/s", beginning(first.incarnation));
    assert_eq!(bench.read_changes(old).await.unwrap_err(), gone);
    whole(bench, "a/u/s", beginning(second.incarnation)).await;
    let never = follow("a/u/s", beginning(Incarnation(second.incarnation.0 + 1)));
    assert_eq!(bench.read_changes(never).await.unwrap_err(), gone);
}

pub async fn a_watcher_is_told_when_its_session_ends(bench: &mut Bench) {
    let create = CreateSession { expire_time: Some(at(5_000)), ..create("a/u/s", &[]) };
    bench.create_session(create).await.unwrap();
    let position = bench.position("a/u/s").await;
    let page = whole(bench, "a/u/s", position).await;
    assert_eq!(page.expire_time, Some(at(5_000)));
    let never = SessionUpdate { expire_time: Some(None), ..touch("a/u/s") };
    bench.update_session(never).await.unwrap();
    assert_eq!(whole(bench, "a/u/s", position).await.expire_time, None);
}

/// A position beyond what there is leads nowhere, and harms nobody.
pub async fn a_position_beyond_the_end_is_quiet(bench: &mut Bench) {
    let created = bench.new_session("a/u/s", &[("app:k", "1")]).await;
    let beyond = Position {
        incarnation: created.incarnation,
        sequence: i64::MAX as u64,
        versions: ScopeVersions { application: i64::MAX as u64, user: i64::MAX as u64 },
    };
    for path in ["a", "a/u", "a/u/s"] {
        let page = bench.read_changes(follow(path, beyond)).await.unwrap();
        assert!(page.complete && page.events.is_empty() && page.changes.is_empty());
    }
}
