//! Creation, update and deletion of sessions, and their bare ids.

use std::collections::BTreeSet;

use sessiond::{
    domain::{
        error::{Error, SessionRefText},
        id::{DisplayName, SessionId},
        scope::SessionRef,
    },
    store::{Append, CreateSession, OnExisting, SessionQuery, SessionUpdate},
};

use crate::{bench::*, build::*};

pub async fn a_creation_keeps_what_it_was_told(bench: &mut Bench) {
    let full = CreateSession {
        display_name: DisplayName::new("Größe '\"").unwrap(),
        labels: labels(&[("b", ""), ("a", "é")]),
        expire_time: Some(at(9_000)),
        ..create("a/u/s", &[])
    };
    let info = bench.create_session(full).await.unwrap().info;
    assert_eq!(info.key, address("a/u/s"));
    assert_eq!(info.display_name.as_str(), "Größe '\"");
    assert_eq!(info.labels, labels(&[("b", ""), ("a", "é")]));
    assert_eq!(info.expire_time, Some(at(9_000)));
    assert_eq!([info.create_time, info.update_time, info.last_event_time], [NOW; 3]);
    assert_eq!(info.last_sequence, 0);
    assert_eq!(info.forked_from, None);
    assert_eq!(bench.info("a/u/s").await, info);
    let view = bench.read_state(read_state("a/u/s")).await.unwrap();
    assert_eq!(view.info, Some(info.clone()));
    assert_eq!(view.position.incarnation, info.incarnation);
}

pub async fn a_taken_address_is_refused_or_answered_unchanged(bench: &mut Bench) {
    let first = bench.new_session("a/u/s", &[("k", "1"), ("app:k", "1")]).await;
    bench.put("a/u/s", "1", add("k", 1)).await;
    let before = bench.info("a/u/s").await;
    let again = || create("a/u/s", &[("k", "7"), ("app:k", "7"), ("user:k", "7")]);
    let refused = bench.create_session(again()).await.unwrap_err();
    assert_eq!(refused, Error::SessionExists(address("a/u/s")));
    let found = CreateSession {
        on_existing: OnExisting::Return,
        labels: labels(&[("a", "b")]),
        now: at(7_000),
        ..again()
    };
    let found = bench.create_session(found).await.unwrap();
    assert!(!found.created);
    assert_eq!(found.info, before);
    assert_eq!(found.info.incarnation, first.incarnation);
    assert_eq!(text(&found.state), r#"{"app:k":1,"k":2}"#);
    assert_eq!(bench.info("a/u/s").await, before);
    assert_eq!(bench.state("a/u").await, r#"{"app:k":1}"#);
    assert_eq!(bench.position("a/u").await.versions.application, 1);
}

pub async fn an_update_changes_what_it_names(bench: &mut Bench) {
    let start = CreateSession {
        display_name: DisplayName::new("old").unwrap(),
        labels: labels(&[("a", "1"), ("b", "2")]),
        expire_time: Some(at(9_000)),
        ..create("a/u/s", &[("k", "1")])
    };
    let start = bench.create_session(start).await.unwrap().info;
    let touched = SessionUpdate { now: at(2_000), ..touch("a/u/s") };
    let mut expected = start;
    expected.update_time = at(2_000);
    assert_eq!(bench.update_session(touched).await.unwrap(), expected);
    let named =
        SessionUpdate { display_name: Some(DisplayName::new("new").unwrap()), ..touch("a/u/s") };
    expected.display_name = DisplayName::new("new").unwrap();
    assert_eq!(bench.update_session(named).await.unwrap(), expected);
    let labelled =
        SessionUpdate { labels: Some(labels(&[("b", "3"), ("c", "")])), ..touch("a/u/s") };
    expected.labels = labels(&[("b", "3"), ("c", "")]);
    assert_eq!(bench.update_session(labelled).await.unwrap(), expected);
    let forever =
        SessionUpdate { expire_time: Some(None), labels: Some(labels(&[])), ..touch("a/u/s") };
    expected.expire_time = None;
    expected.labels = labels(&[]);
    assert_eq!(bench.update_session(forever).await.unwrap(), expected);
    assert_eq!(bench.info("a/u/s").await, expected);
    assert_eq!(bench.state("a/u/s").await, r#"{"k":1}"#);
    let missing = bench.update_session(touch("a/u/t")).await;
    assert_eq!(missing.unwrap_err(), Error::not_found(&address("a/u/t")));
}

pub async fn a_deleted_session_is_gone_for_everything(bench: &mut Bench) {
    bench.new_session("a/u/s", &[("k", "1")]).await;
    bench.put("a/u/s", "1", nothing()).await;
    let position = bench.position("a/u/s").await;
    assert!(bench.delete_session(address("a/u/s"), NOW).await.unwrap());
    assert!(!bench.delete_session(address("a/u/s"), NOW).await.unwrap());
    assert!(!bench.delete_session(address("a/u/never"), NOW).await.unwrap());
    let gone = Error::not_found(&address("a/u/s"));
    let read = bench.read_session(read("a/u/s")).await.unwrap_err();
    assert_eq!(read, gone);
    let listed = bench.list_events(events("a/u/s")).await.unwrap_err();
    assert_eq!(listed, gone);
    let state = bench.read_state(read_state("a/u/s")).await.unwrap_err();
    assert_eq!(state, gone);
    let changed = bench.list_key_changes(changes("a/u/s", "k")).await.unwrap_err();
    assert_eq!(changed, gone);
    let watched = bench.read_changes(follow("a/u/s", position)).await.unwrap_err();
    assert_eq!(watched, gone);
    let appended = bench.append(plain("a/u/s", "1")).await.unwrap_err();
    assert_eq!(appended, gone);
    let rewound = bench.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap_err();
    assert_eq!(rewound, gone);
    let forked = bench.fork_session(fork("a/u/s", None, "t")).await.unwrap_err();
    assert_eq!(forked, gone);
    let updated = bench.update_session(touch("a/u/s")).await.unwrap_err();
    assert_eq!(updated, gone);
    assert!(bench.list_sessions(sessions("a")).await.unwrap().sessions.is_empty());
}

pub async fn a_session_created_anew_begins_a_new_life(bench: &mut Bench) {
    let first = bench.new_session("a/u/s", &[("old", "1"), ("user:k", "1")]).await;
    for id in ["1", "2", "3"] {
        bench.put("a/u/s", id, set(&[(id, id)])).await;
    }
    bench.rewind_session(rewind("a/u/s", 1, "m")).await.unwrap();
    let asked = Append { request: request("r", 1), ..plain("a/u/s", "5") };
    bench.append(asked.clone()).await.unwrap();
    let mut lives = BTreeSet::from([first.incarnation]);
    for life in 0..5 {
        assert!(bench.delete_session(address("a/u/s"), NOW).await.unwrap());
        let created = bench.new_session("a/u/s", &[("new", "1")]).await;
        assert!(lives.insert(created.incarnation));
        assert_eq!(created.last_sequence, 0);
        assert_eq!(bench.whole_log("a/u/s").await, []);
        assert_eq!(bench.state("a/u/s").await, r#"{"user:k":1,"new":1}"#);
        assert_eq!(bench.state_as_of("a/u/s", 0).await, r#"{"user:k":1,"new":1}"#);
        // Neither ids of events and requests nor markers are left of the life before.
        assert_eq!(bench.put("a/u/s", "1", set(&[("1", "2")])).await.sequence, 1);
        let again = bench.append(asked.clone()).await.unwrap();
        assert!(!again.request_replayed);
        assert_eq!(sequences(&bench.log("a/u/s").await), [1, 2]);
        if life % 2 == 0 {
            bench.sweep_all(NOW).await;
        }
        assert_eq!(sequences(&bench.whole_log("a/u/s").await), [1, 2]);
    }
}

pub async fn a_bare_id_is_enough_where_one_session_has_it(bench: &mut Bench) {
    let id = SessionId::new("s").unwrap();
    let by_id = || SessionQuery { session: bare("s"), ..read("x/x/x") };
    let append = |event_id: &str| Append { session: bare("s"), ..plain("x/x/x", event_id) };
    let missing = Error::SessionNotFound(SessionRefText {
        app_name: String::new(),
        user_id: String::new(),
        session_id: "s".to_owned(),
    });
    assert_eq!(bench.read_session(by_id()).await.unwrap_err(), missing);
    assert_eq!(bench.append(append("1")).await.unwrap_err(), missing);
    bench.new_session("a/u/s", &[("k", "1")]).await;
    bench.new_session("a/u/S", &[]).await;
    bench.new_session("s/s/t", &[]).await;
    let view = bench.read_session(by_id()).await.unwrap();
    assert_eq!(view.info.key, address("a/u/s"));
    let appended = bench.append(append("1")).await.unwrap();
    assert_eq!(appended.info.key, address("a/u/s"));
    assert_eq!(appended.info.last_sequence, 1);
    for path in ["a/v/s", "b/u/s"] {
        bench.new_session(path, &[]).await;
        let ambiguous = Error::AmbiguousSessionId(id.clone());
        assert_eq!(bench.read_session(by_id()).await.unwrap_err(), ambiguous);
        assert_eq!(bench.append(append("2")).await.unwrap_err(), ambiguous);
        bench.delete_session(address(path), NOW).await.unwrap();
        let view = bench.read_session(by_id()).await.unwrap();
        assert_eq!(view.info.key, address("a/u/s"));
    }
    // One that has expired does not count, in whatever order they were made.
    let short = CreateSession { expire_time: Some(at(1_500)), ..create("a/a/s", &[]) };
    bench.create_session(short).await.unwrap();
    let ambiguous = Error::AmbiguousSessionId(id);
    assert_eq!(bench.read_session(by_id()).await.unwrap_err(), ambiguous);
    let late = SessionQuery { now: at(1_500), ..by_id() };
    let view = bench.read_session(late).await.unwrap();
    assert_eq!(view.info.key, address("a/u/s"));
    let full = SessionQuery { session: SessionRef::Full(address("a/u/s")), ..by_id() };
    assert_eq!(bench.read_session(full).await.unwrap().info.key, address("a/u/s"));
}

pub async fn a_closed_store_refuses_everything(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let position = bench.position("a/u/s").await;
    bench.close().await;
    bench.close().await;
    let mut refused = vec![
        bench.create_session(create("a/u/t", &[])).await.err(),
        bench.update_session(touch("a/u/s")).await.err(),
        bench.delete_session(address("a/u/s"), NOW).await.err(),
        bench.fork_session(fork("a/u/s", None, "t")).await.err(),
        bench.append(plain("a/u/s", "1")).await.err(),
        bench.rewind_session(rewind("a/u/s", 0, "m")).await.err(),
        bench.update_state(update("a", nothing())).await.err(),
        bench.sweep(NOW).await.err(),
    ];
    refused.extend([
        bench.read_session(read("a/u/s")).await.err(),
        bench.list_sessions(sessions("a")).await.err(),
        bench.list_events(events("a/u/s")).await.err(),
        bench.read_state(read_state("a")).await.err(),
        bench.list_key_changes(changes("a", "app:k")).await.err(),
        bench.read_changes(follow("a/u/s", position)).await.err(),
    ]);
    for (at, error) in refused.into_iter().enumerate() {
        assert_eq!(error, Some(Error::Draining), "call {at}");
    }
}
