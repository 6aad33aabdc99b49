//! Creation, update and deletion of sessions, and their bare ids.

use std::collections::BTreeSet;

use sessiond::{
    domain::{
        error::Error,
        id::{DisplayName, SessionId},
        scope::SessionRef,
    },
    store::{Append, CreateSession, OnExisting, SessionQuery, SessionUpdate},
};

use crate::{fixture::*, requests::*};

pub async fn a_creation_keeps_its_metadata(fixture: &mut Fixture) {
    let full = CreateSession {
        display_name: DisplayName::new("Größe '\"").unwrap(),
        labels: labels(&[("b", ""), ("a", "é")]),
        expiration: ends(at(9_000)),
        ..create("a/u/s", &[])
    };
    let info = fixture.create_session(full).await.unwrap().info;
    assert_eq!(info.key, address("a/u/s"));
    assert_eq!(info.display_name.as_str(), "Größe '\"");
    assert_eq!(info.labels, labels(&[("b", ""), ("a", "é")]));
    assert_eq!(info.expire_time, Some(at(9_000)));
    assert_eq!([info.create_time, info.update_time, info.last_event_time], [NOW; 3]);
    assert_eq!(info.last_sequence, 0);
    assert_eq!(info.forked_from, None);
    assert_eq!(fixture.info("a/u/s").await, info);
    let view = fixture.read_state(read_state("a/u/s")).await.unwrap();
    assert_eq!(view.info, Some(info.clone()));
    assert_eq!(view.position.incarnation, info.incarnation);
}

pub async fn a_taken_address_is_refused_or_answered_unchanged(fixture: &mut Fixture) {
    let first = fixture.new_session("a/u/s", &[("k", "1"), ("app:k", "1")]).await;
    fixture.put("a/u/s", "1", add("k", 1)).await;
    let before = fixture.info("a/u/s").await;
    let again = || create("a/u/s", &[("k", "7"), ("app:k", "7"), ("user:k", "7")]);
    let refused = fixture.create_session(again()).await.unwrap_err();
    assert_eq!(refused, Error::SessionExists(address("a/u/s")));
    let found =
        CreateSession { on_existing: OnExisting::Return, labels: labels(&[("a", "b")]), ..again() };
    let found = fixture.create_session(found.at(at(7_000))).await.unwrap();
    assert!(!found.created);
    assert_eq!(found.info, before);
    assert_eq!(found.info.incarnation, first.incarnation);
    assert_eq!(text(&found.state), r#"{"app:k":1,"k":2}"#);
    assert_eq!(fixture.info("a/u/s").await, before);
    assert_eq!(fixture.state("a/u").await, r#"{"app:k":1}"#);
    assert_eq!(fixture.position("a/u").await.versions.application, 1);
}

pub async fn an_update_changes_what_it_names(fixture: &mut Fixture) {
    let start = CreateSession {
        display_name: DisplayName::new("old").unwrap(),
        labels: labels(&[("a", "1"), ("b", "2")]),
        expiration: ends(at(9_000)),
        ..create("a/u/s", &[("k", "1")])
    };
    let start = fixture.create_session(start).await.unwrap().info;
    let touched = touch("a/u/s").at(at(2_000));
    let mut expected = start;
    expected.update_time = at(2_000);
    assert_eq!(fixture.update_session(touched).await.unwrap(), expected);
    let named =
        SessionUpdate { display_name: Some(DisplayName::new("new").unwrap()), ..touch("a/u/s") };
    expected.display_name = DisplayName::new("new").unwrap();
    assert_eq!(fixture.update_session(named).await.unwrap(), expected);
    let labelled =
        SessionUpdate { labels: Some(labels(&[("b", "3"), ("c", "")])), ..touch("a/u/s") };
    expected.labels = labels(&[("b", "3"), ("c", "")]);
    assert_eq!(fixture.update_session(labelled).await.unwrap(), expected);
    let forever =
        SessionUpdate { expiration: Some(None), labels: Some(labels(&[])), ..touch("a/u/s") };
    expected.expire_time = None;
    expected.labels = labels(&[]);
    assert_eq!(fixture.update_session(forever).await.unwrap(), expected);
    assert_eq!(fixture.info("a/u/s").await, expected);
    assert_eq!(fixture.state("a/u/s").await, r#"{"k":1}"#);
    let missing = fixture.update_session(touch("a/u/t")).await;
    assert_eq!(missing.unwrap_err(), Error::not_found(&address("a/u/t")));
}

pub async fn a_deleted_session_is_not_found_by_any_call(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "1")]).await;
    fixture.put("a/u/s", "1", nothing()).await;
    let position = fixture.position("a/u/s").await;
    assert!(fixture.delete_session(address("a/u/s"), NOW).await.unwrap());
    assert!(!fixture.delete_session(address("a/u/s"), NOW).await.unwrap());
    assert!(!fixture.delete_session(address("a/u/never"), NOW).await.unwrap());
    let gone = Error::not_found(&address("a/u/s"));
    let read = fixture.read_session(read("a/u/s")).await.unwrap_err();
    assert_eq!(read, gone);
    let listed = fixture.list_events(events("a/u/s")).await.unwrap_err();
    assert_eq!(listed, gone);
    let state = fixture.read_state(read_state("a/u/s")).await.unwrap_err();
    assert_eq!(state, gone);
    let changed = fixture.list_key_changes(changes("a/u/s", "k")).await.unwrap_err();
    assert_eq!(changed, gone);
    let watched = fixture.read_changes(follow("a/u/s", position)).await.unwrap_err();
    assert_eq!(watched, gone);
    let appended = fixture.append(plain("a/u/s", "1")).await.unwrap_err();
    assert_eq!(appended, gone);
    let rewound = fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap_err();
    assert_eq!(rewound, gone);
    let forked = fixture.fork_session(fork("a/u/s", None, "t")).await.unwrap_err();
    assert_eq!(forked, gone);
    let updated = fixture.update_session(touch("a/u/s")).await.unwrap_err();
    assert_eq!(updated, gone);
    assert!(fixture.list_sessions(sessions("a")).await.unwrap().sessions.is_empty());
}

pub async fn a_recreated_session_starts_empty(fixture: &mut Fixture) {
    let first = fixture.new_session("a/u/s", &[("old", "1"), ("user:k", "1")]).await;
    for id in ["1", "2", "3"] {
        fixture.put("a/u/s", id, set(&[(id, id)])).await;
    }
    fixture.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    let asked = Append { request: request("r", 1), ..plain("a/u/s", "5") };
    fixture.append(asked.clone()).await.unwrap();
    let mut lives = BTreeSet::from([first.incarnation]);
    for life in 0..5 {
        assert!(fixture.delete_session(address("a/u/s"), NOW).await.unwrap());
        let created = fixture.new_session("a/u/s", &[("new", "1")]).await;
        assert!(lives.insert(created.incarnation));
        assert_eq!(created.last_sequence, 0);
        assert_eq!(fixture.whole_log("a/u/s").await, []);
        assert_eq!(fixture.state("a/u/s").await, r#"{"user:k":1,"new":1}"#);
        assert_eq!(fixture.state_as_of("a/u/s", 0).await, r#"{"user:k":1,"new":1}"#);
        // No ids of events and requests, and no markers, are left of the earlier incarnation.
        assert_eq!(fixture.put("a/u/s", "1", set(&[("1", "2")])).await.sequence, 1);
        let again = fixture.append(asked.clone()).await.unwrap();
        assert!(!again.request_replayed);
        assert_eq!(sequences(&fixture.log("a/u/s").await), [1, 2]);
        if life % 2 == 0 {
            fixture.sweep_all(NOW).await;
        }
        assert_eq!(sequences(&fixture.whole_log("a/u/s").await), [1, 2]);
    }
}

pub async fn a_bare_id_finds_the_only_session_of_that_id(fixture: &mut Fixture) {
    let id = SessionId::new("s").unwrap();
    let by_id = || SessionQuery { session: bare("s"), ..read("x/x/x") };
    let append = |event_id: &str| Append { session: bare("s"), ..plain("x/x/x", event_id) };
    let missing = Error::SessionNotFound(bare("s"));
    assert_eq!(fixture.read_session(by_id()).await.unwrap_err(), missing);
    assert_eq!(fixture.append(append("1")).await.unwrap_err(), missing);
    fixture.new_session("a/u/s", &[("k", "1")]).await;
    fixture.new_session("a/u/S", &[]).await;
    fixture.new_session("s/s/t", &[]).await;
    let view = fixture.read_session(by_id()).await.unwrap();
    assert_eq!(view.info.key, address("a/u/s"));
    let appended = fixture.append(append("1")).await.unwrap();
    assert_eq!(appended.info.key, address("a/u/s"));
    assert_eq!(appended.info.last_sequence, 1);
    for path in ["a/v/s", "b/u/s"] {
        fixture.new_session(path, &[]).await;
        let ambiguous = Error::AmbiguousSessionId(id.clone());
        assert_eq!(fixture.read_session(by_id()).await.unwrap_err(), ambiguous);
        assert_eq!(fixture.append(append("2")).await.unwrap_err(), ambiguous);
        fixture.delete_session(address(path), NOW).await.unwrap();
        let view = fixture.read_session(by_id()).await.unwrap();
        assert_eq!(view.info.key, address("a/u/s"));
    }
    // An expired session does not count, whatever the order of creation.
    let short = CreateSession { expiration: ends(at(1_500)), ..create("a/a/s", &[]) };
    fixture.create_session(short).await.unwrap();
    let ambiguous = Error::AmbiguousSessionId(id);
    assert_eq!(fixture.read_session(by_id()).await.unwrap_err(), ambiguous);
    let late = by_id().at(at(1_500));
    let view = fixture.read_session(late).await.unwrap();
    assert_eq!(view.info.key, address("a/u/s"));
    let full = SessionQuery { session: SessionRef::Full(address("a/u/s")), ..by_id() };
    assert_eq!(fixture.read_session(full).await.unwrap().info.key, address("a/u/s"));
}

pub async fn a_closed_store_refuses_everything(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let position = fixture.position("a/u/s").await;
    fixture.close().await;
    fixture.close().await;
    let mut refused = vec![
        fixture.create_session(create("a/u/t", &[])).await.err(),
        fixture.update_session(touch("a/u/s")).await.err(),
        fixture.delete_session(address("a/u/s"), NOW).await.err(),
        fixture.fork_session(fork("a/u/s", None, "t")).await.err(),
        fixture.append(plain("a/u/s", "1")).await.err(),
        fixture.rewind_session(rewind("a/u/s", 0, "m")).await.err(),
        fixture.update_state(update("a", nothing())).await.err(),
        fixture.sweep(NOW).await.err(),
    ];
    refused.extend([
        fixture.read_session(read("a/u/s")).await.err(),
        fixture.list_sessions(sessions("a")).await.err(),
        fixture.list_events(events("a/u/s")).await.err(),
        fixture.read_state(read_state("a")).await.err(),
        fixture.list_key_changes(changes("a", "app:k")).await.err(),
        fixture.read_changes(follow("a/u/s", position)).await.err(),
    ]);
    for (at, error) in refused.into_iter().enumerate() {
        assert_eq!(error, Some(Error::Draining), "call {at}");
    }
}

/// Candidates come and go by creation, deletion and expiry, within an application and beyond.
pub async fn a_bare_id_is_resolved_anew_for_each_write(fixture: &mut Fixture) {
    let append =
        |id: &str| Append { session: bare("s"), ..append("x/x/x", [event(id, add("n", 1))]) };
    let ambiguous = Error::AmbiguousSessionId(SessionId::new("s").unwrap());
    let missing = Error::not_found_bare(&SessionId::new("s").unwrap());
    assert_eq!(fixture.append(append("1")).await.unwrap_err(), missing);
    fixture.new_session("a/u/s", &[]).await;
    assert_eq!(fixture.append(append("1")).await.unwrap().info.key, address("a/u/s"));
    fixture.new_session("a/v/s", &[]).await;
    assert_eq!(fixture.append(append("1")).await.unwrap_err(), ambiguous);
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    let appended = fixture.append(append("1")).await.unwrap();
    assert_eq!(appended.info.key, address("a/v/s"));
    assert!(!appended.events[0].replayed);
    let short = CreateSession { expiration: ends(at(1_500)), ..create("b/u/s", &[]) };
    fixture.create_session(short).await.unwrap();
    assert_eq!(fixture.append(append("2")).await.unwrap_err(), ambiguous);
    let late = fixture.append(append("2").at(at(1_500))).await.unwrap();
    assert_eq!(late.info.key, address("a/v/s"));
    fixture.delete_session(address("a/v/s"), NOW).await.unwrap();
    assert_eq!(fixture.append(append("1")).await.unwrap().info.key, address("b/u/s"));
    assert_eq!(fixture.append(append("1").at(at(1_500))).await.unwrap_err(), missing);
    assert_eq!(fixture.state("b/u/s").await, r#"{"n":1}"#);
}

/// As many as no store looks at in one piece. The one that a caller sees may be the last of them.
pub async fn a_bare_id_of_many_sessions_means_the_one_that_is_seen(fixture: &mut Fixture) {
    let users: Vec<String> = (0..100).map(|at| format!("u{at:03}")).collect();
    for user in &users {
        fixture.new_session(&format!("a/{user}/s"), &[]).await;
    }
    let id = SessionId::new("s").unwrap();
    let missing = Error::not_found_bare(&id);
    let of = |users: &[&str]| SessionRef::Bare(id.clone(), sight_of(users));
    for (session, expected) in [
        (bare("s"), Err(Error::AmbiguousSessionId(id.clone()))),
        (of(&["u098", "u099"]), Err(Error::AmbiguousSessionId(id.clone()))),
        (of(&["u000"]), Ok(address("a/u000/s"))),
        (of(&["u099"]), Ok(address("a/u099/s"))),
        (of(&["u100"]), Err(missing.clone())),
        (SessionRef::Bare(id.clone(), nothing_visible()), Err(missing.clone())),
    ] {
        let query = SessionQuery { session: session.clone(), ..read("x/x/x") };
        let found = fixture.read_session(query).await.map(|view| view.info.key);
        assert_eq!(found, expected, "read {session:?}");
        let append = Append { session, ..plain("x/x/x", "1") };
        let found = fixture.append(append).await.map(|appended| appended.info.key);
        assert_eq!(found, expected, "append");
    }
    // Sessions that have expired do not count, however many they are.
    for user in &users[..99] {
        let update =
            SessionUpdate { expiration: Some(ends(at(1_500))), ..touch(&format!("a/{user}/s")) };
        fixture.update_session(update).await.unwrap();
    }
    let query = SessionQuery { session: bare("s"), ..read("x/x/x") };
    let found = fixture.read_session(query.at(at(1_500))).await.unwrap();
    assert_eq!(found.info.key, address("a/u099/s"));
    let append = Append { session: bare("s"), ..plain("x/x/x", "2") };
    let appended = fixture.append(append.at(at(1_500))).await.unwrap();
    assert_eq!(appended.info.key, address("a/u099/s"));
}
