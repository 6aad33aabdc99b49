//! Lists of sessions: many ties, both directions, pages.

use super::*;
use std::sync::Arc;

use sessiond_core::domain::{
    id::UserId, limits::PAGE_SCANNED, permission::Users, session::Expiration,
};
use sessiond_store::{ApplicationsQuery, UsersQuery};

/// Several chunks of a read.
const SESSIONS: i64 = 700;

fn name(at: i64) -> String {
    format!("s{at:03}")
}

/// When a session's event is said to have happened: in an order of its own, with many ties.
fn time(session: i64) -> i64 {
    10_000 + (session * 37) % 101
}

async fn filled() -> Fixture {
    let fixture = Fixture::new().await;
    for session in 0..SESSIONS {
        let user = if session % 3 == 0 { "u" } else { "v" };
        fixture.clock.set(session);
        fixture.create(user, &name(session)).await;
    }
    fixture.clock.set(1000);
    // The last few are never used, and stay where their creation put them.
    for session in 0..SESSIONS - 50 {
        let user = if session % 3 == 0 { "u" } else { "v" };
        let mut append = one("x", "e", &[]);
        append.session = of_user(user, &name(session));
        append.events[0].event_time = Some(at(time(session)));
        fixture.store().append(&call(), append).await.unwrap();
    }
    fixture
}

fn expected(user: Option<&str>, order: SessionOrder) -> Vec<String> {
    let mut places: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let used = session < SESSIONS - 50;
            let time = if used { time(session) } else { session };
            let user = if session % 3 == 0 { "u" } else { "v" };
            (if order == SessionOrder::MostRecent { -time } else { time }, user, name(session))
        })
        .filter(|place| user.is_none_or(|user| place.1 == user))
        .collect();
    places.sort();
    places.into_iter().map(|place| place.2).collect()
}

async fn listed(
    fixture: &Fixture,
    user: Option<&str>,
    order: SessionOrder,
    page: usize,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut query = list(user, order, page);
    loop {
        let page = fixture.store.list_sessions(query.clone()).await.unwrap();
        found.extend(page.sessions.iter().map(|(info, _)| info.key.session_id.to_string()));
        match page.rest {
            None => return found,
            rest => query.after = rest,
        }
    }
}

#[tokio::test]
async fn the_order_holds_in_both_directions_and_across_pages() {
    let mut fixture = filled().await;
    for _ in 0..2 {
        for order in [SessionOrder::LeastRecent, SessionOrder::MostRecent] {
            for user in [None, Some("u"), Some("v")] {
                for page in [33, 1000] {
                    assert_eq!(listed(&fixture, user, order, page).await, expected(user, order));
                }
            }
        }
        fixture.reopen().await;
    }
}

#[tokio::test]
async fn a_deleted_session_is_in_no_list() {
    let fixture = filled().await;
    for session in [0, 600, 690] {
        let user = if session % 3 == 0 { "u" } else { "v" };
        let delete = of_user(user, &name(session));
        assert!(fixture.store().delete_session(&call(), delete.into()).await.unwrap().is_some());
    }
    let mut left = expected(None, SessionOrder::LeastRecent);
    left.retain(|session| ![name(0), name(600), name(690)].contains(session));
    assert_eq!(listed(&fixture, None, SessionOrder::LeastRecent, 100).await, left);
}

/// SQL that copies the session `first`: sessions `s1` and so on, with the numbers behind `base`.
fn copies_of_first(base: usize, copies: usize) -> String {
    format!(
        "CREATE TEMP TABLE copied AS SELECT * FROM session WHERE session_id = 'first';
         WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {copies})
         INSERT INTO session SELECT {base} + n, app_scope, user_scope, user_id, 's' || n, last_sequence,
             state_bytes, unindexed, last_event_secs, last_event_nanos, update_secs, update_nanos,
             create_secs, create_nanos, expire_secs, expire_nanos, created_app_version,
             created_user_version, display_name, labels, fork_session, fork_sequence, listed_secs,
             listed_nanos FROM copied, n;
         UPDATE meta SET next_id = {base} + {copies} + 1;"
    )
}

#[tokio::test]
async fn a_list_of_names_goes_on_over_what_is_empty_or_expired_page_by_page() {
    let mut fixture = Fixture::new().await;
    let expiring =
        CreateSession { expiration: Some(Expiration::At(at(100))), ..creation("m", "first") };
    fixture.store().create_session(&call(), expiring).await.unwrap();
    fixture.create("z", "last").await;
    fixture.store.close().await;
    // More users without anything, and more expired sessions of one user, than several steps look at. Made past the store.
    let copies = 3000;
    let copy = format!(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {copies})
         INSERT INTO scope SELECT 1000 + n, app, 'a' || n, 0, 1, 0, '[]' FROM scope, n WHERE user = '';
         {}",
        copies_of_first(100_000, copies)
    );
    fixture.tables().execute_batch(&copy).unwrap();
    fixture.reopen().await;
    let app_name = creation("m", "first").key.app_name;
    for (now, expected) in [(99, &["m", "z"][..]), (100, &["z"])] {
        fixture.clock.set(now);
        let (mut users, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let app_name = app_name.clone();
            let query = UsersQuery { app_name, seen: None, after, max_items: 5 };
            let page = fixture.store.list_users(query).await.unwrap();
            users.extend(page.names.iter().map(ToString::to_string));
            (after, pages) = (page.rest, pages + 1);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(users, expected);
        // 3,000 users without anything, and as many expired sessions.
        assert_eq!(pages, if now == 100 { 4 } else { 2 });
        let mut query = ApplicationsQuery { seen: None, after: None, max_items: 1 };
        let mut applications = Vec::new();
        for _ in 0..4 {
            let page = fixture.store.list_applications(query.clone()).await.unwrap();
            applications.extend(page.names);
            query.after = page.rest;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!((applications, query.after), (vec![app_name.clone()], None));
    }
}

/// The pages of a list, with the sessions of each.
async fn pages(fixture: &Fixture, mut query: SessionsQuery) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let page = fixture.store.list_sessions(query.clone()).await.unwrap();
        let ids = page.sessions.iter().map(|(info, _)| info.key.session_id.to_string());
        pages.push(ids.collect());
        query.after = page.rest;
        if query.after.is_none() {
            return pages;
        }
    }
}

#[tokio::test]
async fn a_page_of_sessions_ends_when_it_has_looked_at_enough() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "first").await;
    fixture.store.close().await;
    // Made past the store.
    let copies = 2 * PAGE_SCANNED;
    fixture.tables().execute_batch(&copies_of_first(1000, copies)).unwrap();
    fixture.reopen().await;
    let labels = || Labels::new([("kind".to_owned(), "rare".to_owned())].into()).unwrap();
    let labelled = CreateSession { labels: labels(), ..creation("u", "last") };
    fixture.clock.set(9);
    fixture.store().create_session(&call(), labelled).await.unwrap();
    let rare = SessionsQuery { labels: labels(), ..list(None, SessionOrder::LeastRecent, 1) };
    assert_eq!(pages(&fixture, rare.clone()).await, [&[][..], &[], &["last".to_owned()]]);
    // Of ten users each has its part.
    let users = (0..9).map(|at| UserId::new(format!("v{at}")).unwrap());
    let users = users.chain([UserId::new("u").unwrap()]).collect();
    let seen = SessionsQuery { seen: Users::Only(Arc::new(users)), ..rare };
    assert_eq!(pages(&fixture, seen).await.len(), 2 * 10 + 1);
}
