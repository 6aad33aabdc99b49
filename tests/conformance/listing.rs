//! Lists of sessions.

use std::sync::Arc;

use sessiond::{
    domain::{event::NewEvent, id::UserId, permission::Users, time::Time},
    store::{CreateSession, SessionOrder, SessionPage, SessionUpdate, SessionsQuery},
};

use crate::{fixture::*, requests::*};

/// Sessions whose last events have few different times, and some that must not be listed.
async fn many(fixture: &Fixture) {
    for (user, id, time, colour) in [
        ("u", "1", 50, "red"),
        ("u", "2", 30, "blue"),
        ("u", "3", 50, "red"),
        ("v", "1", 50, "blue"),
        ("v", "0", 30, "red"),
        ("v", "9", 70, "red"),
        ("\u{10ffff}", "é", 50, "red"),
        ("\u{ffff}", "z", 50, "blue"),
        ("U", "1", 30, "red"),
    ] {
        let path = format!("a/{user}/{id}");
        let create = CreateSession {
            labels: labels(&[("colour", colour), ("user", user)]),
            ..create(&path, &[("k", "\"0123456789\"")])
        };
        fixture.create_session(create).await.unwrap();
        let timed = NewEvent { event_time: Some(at(time)), ..event("1", nothing()) };
        fixture.append(append(&path, [timed])).await.unwrap();
    }
    fixture.new_session("b/u/1", &[]).await;
    let expired = CreateSession { expiration: ends(NOW), ..create("a/u/expired", &[]) };
    fixture.create_session(expired.at(at(10))).await.unwrap();
    fixture.new_session("a/u/deleted", &[]).await;
    fixture.delete_session(address("a/u/deleted"), NOW).await.unwrap();
}

const LEAST_RECENT: [&str; 9] =
    ["U/1", "u/2", "v/0", "u/1", "u/3", "v/1", "\u{ffff}/z", "\u{10ffff}/é", "v/9"];
const MOST_RECENT: [&str; 9] =
    ["v/9", "u/1", "u/3", "v/1", "\u{ffff}/z", "\u{10ffff}/é", "U/1", "u/2", "v/0"];

fn listed(page: &SessionPage) -> Vec<String> {
    let infos = page.sessions.iter().map(|(info, _)| &info.key);
    infos.map(|key| format!("{}/{}", key.user_id, key.session_id)).collect()
}

/// Reads pages until nothing is left.
async fn page_by_page(fixture: &Fixture, mut query: SessionsQuery) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..100 {
        let page = fixture.list_sessions(query.clone()).await.unwrap();
        assert!(page.sessions.len() <= query.max_items);
        found.extend(listed(&page));
        query.after = page.rest;
        if query.after.is_none() {
            return found;
        }
    }
    panic!("the pages do not end");
}

pub async fn sessions_are_ordered_by_last_event_with_ties_ascending(fixture: &mut Fixture) {
    many(fixture).await;
    for (order, expected) in
        [(SessionOrder::LeastRecent, LEAST_RECENT), (SessionOrder::MostRecent, MOST_RECENT)]
    {
        let query = SessionsQuery { order, ..sessions("a") };
        let page = fixture.list_sessions(query.clone()).await.unwrap();
        assert_eq!(listed(&page), expected);
        assert_eq!(page.rest, None);
        for (info, state) in page.sessions {
            let path = format!("a/{}/{}", info.key.user_id, info.key.session_id);
            assert_eq!(info, fixture.info(&path).await);
            assert!(state.is_none());
        }
        for max_items in 1..=10 {
            let query = SessionsQuery { max_items, ..query.clone() };
            assert_eq!(page_by_page(fixture, query).await, expected);
        }
    }
}

pub async fn sessions_of_one_user_are_listed(fixture: &mut Fixture) {
    many(fixture).await;
    for (user, order, expected) in [
        ("u", SessionOrder::LeastRecent, vec!["u/2", "u/1", "u/3"]),
        ("u", SessionOrder::MostRecent, vec!["u/1", "u/3", "u/2"]),
        ("v", SessionOrder::MostRecent, vec!["v/9", "v/1", "v/0"]),
        ("U", SessionOrder::MostRecent, vec!["U/1"]),
        ("nobody", SessionOrder::MostRecent, vec![]),
    ] {
        for max_items in [1, 2, 100] {
            let query = SessionsQuery {
                user_id: Some(UserId::new(user).unwrap()),
                order,
                max_items,
                ..sessions("a")
            };
            assert_eq!(page_by_page(fixture, query).await, expected, "{user}");
        }
    }
    assert_eq!(page_by_page(fixture, sessions("nothing")).await, [""; 0]);
}

pub async fn sessions_of_several_users_are_one_list(fixture: &mut Fixture) {
    many(fixture).await;
    let seen = |users: &[&str]| -> Users {
        let users = users.iter().map(|user| UserId::new(*user).unwrap());
        Users::Only(Arc::new(users.collect()))
    };
    let other = "\u{10ffff}";
    for users in [&["u", "v"][..], &["U", other, "nobody"], &["u"], &["nobody"], &[]] {
        for (order, all) in
            [(SessionOrder::LeastRecent, LEAST_RECENT), (SessionOrder::MostRecent, MOST_RECENT)]
        {
            let is_seen = |path: &&&str| users.contains(&path.split('/').next().unwrap());
            let expected: Vec<&str> = all.iter().filter(is_seen).copied().collect();
            for max_items in [1, 2, 3, 100] {
                let query = SessionsQuery { seen: seen(users), order, max_items, ..sessions("a") };
                assert_eq!(page_by_page(fixture, query).await, expected, "{users:?}");
            }
        }
    }
}

pub async fn all_labels_have_to_match(fixture: &mut Fixture) {
    many(fixture).await;
    for (wanted, expected) in [
        (labels(&[("colour", "blue")]), vec!["u/2", "v/1", "\u{ffff}/z"]),
        (labels(&[("colour", "red"), ("user", "u")]), vec!["u/1", "u/3"]),
        (labels(&[("colour", "red"), ("missing", "")]), vec![]),
        (labels(&[("colour", "re%")]), vec![]),
        (labels(&[("colour", "")]), vec![]),
    ] {
        for max_items in [1, 2, 100] {
            let query = SessionsQuery { labels: wanted.clone(), max_items, ..sessions("a") };
            assert_eq!(page_by_page(fixture, query).await, expected, "{wanted:?}");
        }
    }
}

pub async fn labels_are_those_of_the_last_update(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for odd in ["'", "\"", "%", "é\u{1}", "a=b,c", "\\"] {
        let update =
            SessionUpdate { labels: Some(labels(&[(odd, odd), ("x", "")])), ..touch("a/u/s") };
        fixture.update_session(update).await.unwrap();
        let wanting = |wanted| SessionsQuery { labels: wanted, ..sessions("a") };
        for wanted in [labels(&[(odd, odd)]), labels(&[("x", ""), (odd, odd)])] {
            let page = fixture.list_sessions(wanting(wanted)).await.unwrap();
            assert_eq!(page.sessions.len(), 1, "{odd}");
        }
        let page = fixture.list_sessions(wanting(labels(&[(odd, "")]))).await;
        assert_eq!(page.unwrap().sessions.len(), 0);
    }
}

pub async fn a_list_carries_state_when_asked(fixture: &mut Fixture) {
    many(fixture).await;
    fixture.update_state(update("a", set(&[("app:k", "1")]))).await.unwrap();
    fixture.update_state(update("a/u", set(&[("user:k", "2")]))).await.unwrap();
    let query = SessionsQuery { with_state: true, ..sessions("a") };
    let page = fixture.list_sessions(query.clone()).await.unwrap();
    assert_eq!(listed(&page), LEAST_RECENT);
    for (info, state) in &page.sessions {
        let user = match info.key.user_id.as_str() {
            "u" => r#""user:k":2,"#,
            _ => "",
        };
        let expected = format!(r#"{{"app:k":1,{user}"k":"0123456789"}}"#);
        assert_eq!(text(state.as_ref().unwrap()), expected);
    }
    // A bound on bytes ends pages, but never before the first session.
    for (max_bytes, pages) in [(1, 9), (1_000_000, 1)] {
        let mut query = SessionsQuery { max_bytes, ..query.clone() };
        let mut found = 0;
        for at in 1..=pages {
            let page = fixture.list_sessions(query.clone()).await.unwrap();
            found += page.sessions.len();
            assert_eq!(page.rest.is_none(), at == pages);
            query.after = page.rest;
        }
        assert_eq!(found, 9);
    }
    let some = SessionsQuery { max_bytes: 200, ..query };
    let page = fixture.list_sessions(some.clone()).await.unwrap();
    assert!((2..9).contains(&page.sessions.len()), "{}", page.sessions.len());
    let bytes: usize =
        page.sessions.iter().map(|(_, state)| text(state.as_ref().unwrap()).len()).sum();
    assert!(bytes <= 200);
    assert_eq!(page_by_page(fixture, some).await, LEAST_RECENT);
}

/// Client clocks decide the order, to the nanosecond.
pub async fn the_order_follows_the_last_events(fixture: &mut Fixture) {
    for id in ["1", "2", "3"] {
        fixture.new_session(&format!("a/u/{id}"), &[]).await;
    }
    let time = |nanos| Time::new(-1, nanos);
    for (id, nanos) in [("2", 5), ("3", 6), ("1", 7)] {
        let path = format!("a/u/{id}");
        let timed = NewEvent { event_time: time(nanos), ..event("1", nothing()) };
        fixture.append(append(&path, [timed])).await.unwrap();
    }
    assert_eq!(page_by_page(fixture, sessions("a")).await, ["u/2", "u/3", "u/1"]);
    let back = NewEvent { event_time: time(0), ..event("2", nothing()) };
    fixture.append(append("a/u/1", [back])).await.unwrap();
    assert_eq!(page_by_page(fixture, sessions("a")).await, ["u/1", "u/2", "u/3"]);
    fixture.rewind_session(rewind("a/u/2", 0, "m")).await.unwrap();
    assert_eq!(page_by_page(fixture, sessions("a")).await, ["u/1", "u/3", "u/2"]);
    fixture.fork_session(fork("a/u/1", Some(1), "0")).await.unwrap();
    let expected = ["u/1", "u/3", "u/0", "u/2"];
    assert_eq!(page_by_page(fixture, sessions("a")).await, expected);
}

/// Sessions that come and go between two pages do not shift the others.
pub async fn pages_are_stable_while_sessions_come_and_go(fixture: &mut Fixture) {
    many(fixture).await;
    let mut query = SessionsQuery { max_items: 4, ..sessions("a") };
    let first = fixture.list_sessions(query.clone()).await.unwrap();
    assert_eq!(listed(&first), LEAST_RECENT[..4]);
    // The last session of the page, one before it, one after it.
    for gone in ["a/u/1", "a/u/2", "a/v/1"] {
        fixture.delete_session(address(gone), NOW).await.unwrap();
    }
    fixture.new_session("a/w/new", &[]).await;
    query.after = first.rest;
    let rest = ["u/3", "\u{ffff}/z", "\u{10ffff}/é", "v/9", "w/new"];
    assert_eq!(page_by_page(fixture, query).await, rest);
}
