//! Lists of sessions.

use sessiond::{
    domain::{event::NewEvent, id::UserId, time::Time},
    store::{CreateSession, SessionOrder, SessionPage, SessionUpdate, SessionsQuery},
};

use crate::{bench::*, build::*};

/// Sessions of three users whose last events have few different times, and some that are not to be seen.
async fn many(bench: &Bench) {
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
        bench.create_session(create).await.unwrap();
        let timed = NewEvent { event_time: Some(at(time)), ..event("1", nothing()) };
        bench.append(append(&path, [timed])).await.unwrap();
    }
    bench.new_session("b/u/1", &[]).await;
    let expired =
        CreateSession { expire_time: Some(NOW), now: at(10), ..create("a/u/expired", &[]) };
    bench.create_session(expired).await.unwrap();
    bench.new_session("a/u/deleted", &[]).await;
    bench.delete_session(address("a/u/deleted"), NOW).await.unwrap();
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
async fn page_by_page(bench: &Bench, mut query: SessionsQuery) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..100 {
        let page = bench.list_sessions(query.clone()).await.unwrap();
        assert!(page.sessions.len() <= query.max_items);
        found.extend(listed(&page));
        query.after = page.rest;
        if query.after.is_none() {
            return found;
        }
    }
    panic!("the pages do not end");
}

pub async fn sessions_come_by_their_last_event_with_ties_ascending(bench: &mut Bench) {
    many(bench).await;
    for (order, expected) in
        [(SessionOrder::LeastRecent, LEAST_RECENT), (SessionOrder::MostRecent, MOST_RECENT)]
    {
        let query = SessionsQuery { order, ..sessions("a") };
        let page = bench.list_sessions(query.clone()).await.unwrap();
        assert_eq!(listed(&page), expected);
        assert_eq!(page.rest, None);
        for (info, state) in page.sessions {
            let path = format!("a/{}/{}", info.key.user_id, info.key.session_id);
            assert_eq!(info, bench.info(&path).await);
            assert!(state.is_none());
        }
        for max_items in 1..=10 {
            let query = SessionsQuery { max_items, ..query.clone() };
            assert_eq!(page_by_page(bench, query).await, expected);
        }
    }
}

pub async fn a_users_sessions_come_alone(bench: &mut Bench) {
    many(bench).await;
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
            assert_eq!(page_by_page(bench, query).await, expected, "{user}");
        }
    }
    assert_eq!(page_by_page(bench, sessions("nothing")).await, [""; 0]);
}

pub async fn all_labels_have_to_match(bench: &mut Bench) {
    many(bench).await;
    for (wanted, expected) in [
        (labels(&[("colour", "blue")]), vec!["u/2", "v/1", "\u{ffff}/z"]),
        (labels(&[("colour", "red"), ("user", "u")]), vec!["u/1", "u/3"]),
        (labels(&[("colour", "red"), ("missing", "")]), vec![]),
        (labels(&[("colour", "re%")]), vec![]),
        (labels(&[("colour", "")]), vec![]),
    ] {
        for max_items in [1, 2, 100] {
            let query = SessionsQuery { labels: wanted.clone(), max_items, ..sessions("a") };
            assert_eq!(page_by_page(bench, query).await, expected, "{wanted:?}");
        }
    }
}

pub async fn labels_are_those_of_the_last_update(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    for odd in ["'", "\"", "%", "é\u{1}", "a=b,c", "\\"] {
        let update =
            SessionUpdate { labels: Some(labels(&[(odd, odd), ("x", "")])), ..touch("a/u/s") };
        bench.update_session(update).await.unwrap();
        let wanting = |wanted| SessionsQuery { labels: wanted, ..sessions("a") };
        for wanted in [labels(&[(odd, odd)]), labels(&[("x", ""), (odd, odd)])] {
            let page = bench.list_sessions(wanting(wanted)).await.unwrap();
            assert_eq!(page.sessions.len(), 1, "{odd}");
        }
        let page = bench.list_sessions(wanting(labels(&[(odd, "")]))).await;
        assert_eq!(page.unwrap().sessions.len(), 0);
    }
}

pub async fn a_list_carries_state_when_asked(bench: &mut Bench) {
    many(bench).await;
    bench.update_state(update("a", set(&[("app:k", "1")]))).await.unwrap();
    bench.update_state(update("a/u", set(&[("user:k", "2")]))).await.unwrap();
    let query = SessionsQuery { with_state: true, ..sessions("a") };
    let page = bench.list_sessions(query.clone()).await.unwrap();
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
            let page = bench.list_sessions(query.clone()).await.unwrap();
            found += page.sessions.len();
            assert_eq!(page.rest.is_none(), at == pages);
            query.after = page.rest;
        }
        assert_eq!(found, 9);
    }
    let some = SessionsQuery { max_bytes: 200, ..query };
    let page = bench.list_sessions(some.clone()).await.unwrap();
    assert!((2..9).contains(&page.sessions.len()), "{}", page.sessions.len());
    let bytes: usize =
        page.sessions.iter().map(|(_, state)| text(state.as_ref().unwrap()).len()).sum();
    assert!(bytes <= 200);
    assert_eq!(page_by_page(bench, some).await, LEAST_RECENT);
}

/// Client clocks decide the order, to the nanosecond.
pub async fn the_order_follows_the_last_events(bench: &mut Bench) {
    for id in ["1", "2", "3"] {
        bench.new_session(&format!("a/u/{id}"), &[]).await;
    }
    let time = |nanos| Time::new(-1, nanos);
    for (id, nanos) in [("2", 5), ("3", 6), ("1", 7)] {
        let path = format!("a/u/{id}");
        let timed = NewEvent { event_time: time(nanos), ..event("1", nothing()) };
        bench.append(append(&path, [timed])).await.unwrap();
    }
    assert_eq!(page_by_page(bench, sessions("a")).await, ["u/2", "u/3", "u/1"]);
    let back = NewEvent { event_time: time(0), ..event("2", nothing()) };
    bench.append(append("a/u/1", [back])).await.unwrap();
    assert_eq!(page_by_page(bench, sessions("a")).await, ["u/1", "u/2", "u/3"]);
    bench.rewind_session(rewind("a/u/2", 0, "m")).await.unwrap();
    assert_eq!(page_by_page(bench, sessions("a")).await, ["u/1", "u/3", "u/2"]);
    bench.fork_session(fork("a/u/1", Some(1), "0")).await.unwrap();
    let expected = ["u/1", "u/3", "u/0", "u/2"];
    assert_eq!(page_by_page(bench, sessions("a")).await, expected);
}

/// Sessions that come and go between two pages disturb no other.
pub async fn pages_stay_in_place_while_sessions_come_and_go(bench: &mut Bench) {
    many(bench).await;
    let mut query = SessionsQuery { max_items: 4, ..sessions("a") };
    let first = bench.list_sessions(query.clone()).await.unwrap();
    assert_eq!(listed(&first), LEAST_RECENT[..4]);
    // The very one behind which the next page begins, one before it, one after it.
    for gone in ["a/u/1", "a/u/2", "a/v/1"] {
        bench.delete_session(address(gone), NOW).await.unwrap();
    }
    bench.new_session("a/w/new", &[]).await;
    query.after = first.rest;
    let rest = ["u/3", "\u{ffff}/z", "\u{10ffff}/é", "v/9", "w/new"];
    assert_eq!(page_by_page(bench, query).await, rest);
}
