//! Lists of applications and users.

use sessiond::{
    domain::{
        delta::Delta,
        id::{AppName, UserId},
        permission::Pattern,
        token::NamePlace,
    },
    store::{ApplicationsQuery, CreateSession, UsersQuery},
};

use crate::{fixture::*, requests::*};

fn applications(after: Option<NamePlace>, max_items: usize) -> ApplicationsQuery {
    ApplicationsQuery { seen: None, after, max_items }
}

fn users(app: &str, after: Option<NamePlace>, max_items: usize) -> UsersQuery {
    UsersQuery { app_name: AppName::new(app).unwrap(), seen: None, after, max_items }
}

/// The names of all applications, at a time.
async fn all_applications(fixture: &Fixture, now: i64) -> Vec<String> {
    let page = fixture.list_applications(applications(None, 100).at(at(now))).await.unwrap();
    assert_eq!(page.rest, None);
    page.names.iter().map(ToString::to_string).collect()
}

/// The ids of all users, at a time.
async fn all_users(fixture: &Fixture, app: &str, now: i64) -> Vec<String> {
    let page = fixture.list_users(users(app, None, 100).at(at(now))).await.unwrap();
    assert_eq!(page.rest, None);
    page.names.iter().map(ToString::to_string).collect()
}

async fn change(fixture: &Fixture, path: &str, delta: Delta) {
    fixture.update_state(update(path, delta)).await.unwrap();
}

pub async fn applications_and_users_are_in_order_of_their_names(fixture: &mut Fixture) {
    assert!(all_applications(fixture, 1000).await.is_empty());
    for path in ["b/v/1", "b/u/1", "b/u/2", "B/u/1", "\u{10ffff}/u/1", "\u{ffff}/u/1"] {
        fixture.new_session(path, &[]).await;
    }
    // State alone is enough: an application's, and a user's.
    change(fixture, "a", set(&[("app:k", "1")])).await;
    change(fixture, "c/w", set(&[("user:k", "1")])).await;
    change(fixture, "b/\u{e9}", set(&[("user:k", "1")])).await;
    let expected = ["B", "a", "b", "c", "\u{ffff}", "\u{10ffff}"];
    assert_eq!(all_applications(fixture, 1000).await, expected);
    assert_eq!(all_users(fixture, "b", 1000).await, ["u", "v", "\u{e9}"]);
    assert_eq!(all_users(fixture, "c", 1000).await, ["w"]);
    assert!(all_users(fixture, "a", 1000).await.is_empty());
    assert!(all_users(fixture, "never", 1000).await.is_empty());
}

pub async fn every_page_of_names_continues_the_last(fixture: &mut Fixture) {
    let names = ["a", "b", "c", "d", "e"];
    for app in names {
        for user in names {
            fixture.new_session(&format!("{app}/{user}/s"), &[]).await;
        }
    }
    for max_items in 1..=6 {
        let (mut apps, mut of_c, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let page = fixture.list_applications(applications(after, max_items)).await.unwrap();
            apps.extend(page.names.clone());
            assert_eq!(page.rest.is_some(), apps.len() < 5, "{max_items}: {page:?}");
            after = page.rest;
            if after.is_none() {
                break;
            }
            assert_eq!(page.names.len(), max_items);
        }
        loop {
            let page = fixture.list_users(users("c", after, max_items)).await.unwrap();
            of_c.extend(page.names.clone());
            assert_eq!(page.rest.is_some(), of_c.len() < 5, "{max_items}: {page:?}");
            after = page.rest;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(apps.iter().map(AppName::as_str).collect::<Vec<_>>(), names);
        assert_eq!(of_c.iter().map(UserId::as_str).collect::<Vec<_>>(), names);
    }
}

/// A caller that sees some names only has pages that are as full as others.
pub async fn names_are_listed_by_ranges(fixture: &mut Fixture) {
    for (at, name) in ["a", "b1", "b2", "b3", "b4", "c", "d1", "d2", "e"].iter().enumerate() {
        match at % 2 {
            0 => drop(fixture.new_session(&format!("{name}/u/s"), &[]).await),
            _ => change(fixture, name, set(&[("app:k", "1")])).await,
        }
        match at % 3 {
            0 => drop(fixture.new_session(&format!("app/{name}/s"), &[]).await),
            _ => change(fixture, &format!("app/{name}"), set(&[("user:k", "1")])).await,
        }
    }
    let seen = Some(["b*", "d2", "c0", "e", "b2"].map(Pattern::new).to_vec());
    for max_items in 1..=6 {
        let (mut apps, mut of_app, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let query = ApplicationsQuery { seen: seen.clone(), ..applications(after, max_items) };
            let page = fixture.list_applications(query).await.unwrap();
            assert!(page.names.len() == max_items || page.rest.is_none());
            apps.extend(page.names.iter().map(ToString::to_string));
            after = page.rest;
            if after.is_none() {
                break;
            }
        }
        loop {
            let query = UsersQuery { seen: seen.clone(), ..users("app", after, max_items) };
            let page = fixture.list_users(query).await.unwrap();
            of_app.extend(page.names.iter().map(ToString::to_string));
            after = page.rest;
            if after.is_none() {
                break;
            }
        }
        let expected = ["b1", "b2", "b3", "b4", "d2", "e"];
        assert_eq!(
            (&apps[..], &of_app[..]),
            (&expected.map(str::to_owned)[..], &expected.map(str::to_owned)[..])
        );
    }
}

pub async fn what_has_neither_session_nor_state_is_not_listed(fixture: &mut Fixture) {
    fixture.new_session("a/u/1", &[("user:k", "1"), ("app:k", "1")]).await;
    fixture.new_session("a/v/1", &[]).await;
    fixture.delete_session(address("a/v/1"), NOW).await.unwrap();
    assert_eq!(all_users(fixture, "a", 1000).await, ["u"]);
    fixture.delete_session(address("a/u/1"), NOW).await.unwrap();
    assert_eq!(all_users(fixture, "a", 1000).await, ["u"], "its state stays");
    change(fixture, "a/u", remove(&["user:k"])).await;
    assert!(all_users(fixture, "a", 1000).await.is_empty());
    assert_eq!(all_applications(fixture, 1000).await, ["a"], "its state stays");
    change(fixture, "a", remove(&["app:k"])).await;
    assert!(all_applications(fixture, 1000).await.is_empty());
    // It comes back.
    fixture.new_session("a/v/1", &[]).await;
    assert_eq!(all_applications(fixture, 1000).await, ["a"]);
    assert_eq!(all_users(fixture, "a", 1000).await, ["v"]);
}

pub async fn an_expired_session_does_not_count(fixture: &mut Fixture) {
    let ending = CreateSession { expiration: ends(at(20)), ..create("a/u/1", &[]) };
    fixture.create_session(ending.at(at(10))).await.unwrap();
    let lasting = CreateSession { expiration: ends(at(30)), ..create("a/v/1", &[]) };
    fixture.create_session(lasting.at(at(10))).await.unwrap();
    assert_eq!(all_users(fixture, "a", 19).await, ["u", "v"]);
    assert_eq!(all_users(fixture, "a", 20).await, ["v"]);
    assert_eq!(all_applications(fixture, 29).await, ["a"]);
    assert!(all_applications(fixture, 30).await.is_empty());
}
