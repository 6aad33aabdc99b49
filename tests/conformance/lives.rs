//! Lives of users and applications: what has neither state nor sessions is removed by a sweep, and nothing of it comes back with its name.

use sessiond::{
    domain::{
        error::Error,
        event::{NewEvent, ScopeVersions},
        id::{AppName, Author, UserId},
        precondition::{Condition, Precondition},
        token::{Life, Position},
    },
    store::{ApplicationsQuery, Bases, StateUpdate, StateUpdated, UsersQuery},
};

use crate::{fixture::*, requests::*};

async fn updated(fixture: &Fixture, path: &str, state: &[(&str, &str)]) -> StateUpdated {
    fixture.update_state(update(path, set(state))).await.unwrap()
}

async fn emptied(fixture: &Fixture, path: &str, key: &str) {
    fixture.update_state(update(path, remove(&[key]))).await.unwrap();
    fixture.sweep_all(NOW).await;
}

async fn bases(fixture: &Fixture, path: &str) -> Bases {
    fixture.read_state(read_state(path)).await.unwrap().bases
}

async fn delete(fixture: &Fixture, path: &str) {
    assert!(fixture.delete_session(address(path), NOW).await.unwrap());
}

pub async fn versions_of_an_earlier_life_are_never_repeated(fixture: &mut Fixture) {
    for path in ["a", "a/u"] {
        let key = if path == "a" { "app:k" } else { "user:k" };
        let first = updated(fixture, path, &[(key, "1")]).await;
        let [(_, set_at)] = fixture.versions(path).await[..] else { panic!("one key") };
        let before = fixture.position(path).await;
        emptied(fixture, path, key).await;
        assert_eq!(fixture.state(path).await, "{}");
        let second = updated(fixture, path, &[(key, "2")]).await;
        assert_ne!(first.life, second.life, "{path}");
        let [(_, version)] = fixture.versions(path).await[..] else { panic!("one key") };
        let removed_at = set_at + 1;
        assert!(
            version > removed_at,
            "{path}: the removal had version {removed_at}, this one {version}"
        );
        // What was true of the earlier life alone.
        for expected in [set_at, removed_at] {
            let stale = update(path, set(&[(key, "3")]));
            let stale = StateUpdate { precondition: expect_sequence(expected), ..stale };
            assert!(matches!(fixture.update_state(stale).await, Err(Error::Conflict { .. })));
            let keys = expect_keys(&[(key, Condition::Version(expected))]);
            let stale = update(path, set(&[(key, "3")]));
            let stale = StateUpdate { precondition: keys, ..stale };
            assert!(matches!(fixture.update_state(stale).await, Err(Error::Conflict { .. })));
        }
        assert!(bases(fixture, path).await.are_past(before.versions), "{path}");
        let now = fixture.position(path).await;
        assert!(!bases(fixture, path).await.are_past(now.versions), "{path}");
        // Changes of this life alone, from its beginning.
        let begun = Position { versions: ScopeVersions::default(), ..now };
        let page = fixture.read_changes(follow(path, begun)).await.unwrap();
        let followed: Vec<_> = page.changes.iter().map(|change| change.version).collect();
        assert_eq!((followed, page.position), (vec![version], now));
        let history = fixture.list_key_changes(changes(path, key)).await.unwrap().changes;
        assert_eq!(history.iter().map(|change| change.version).collect::<Vec<_>>(), [version]);
        emptied(fixture, path, key).await;
    }
}

pub async fn a_life_is_a_precondition_of_an_update(fixture: &mut Fixture) {
    let with = |life, value| {
        let precondition = Precondition { life, ..Precondition::default() };
        StateUpdate { precondition, ..update("a/u", set(&[("user:k", value)])) }
    };
    let scope = scope("a/u");
    let replaced = |result| assert_eq!(result, Err(Error::Replaced(scope.clone())));
    // What was never written to has no uid that a caller could have.
    let none = Some(Life::of_scope(&scope, 0));
    replaced(fixture.update_state(with(none, "0")).await.map(drop));
    let first = updated(fixture, "a/u", &[("user:k", "1")]).await.life;
    assert_eq!(first, none);
    let again = fixture.update_state(with(first, "2")).await.unwrap();
    assert_eq!(again.life, first);
    emptied(fixture, "a/u", "user:k").await;
    replaced(fixture.update_state(with(first, "3")).await.map(drop));
    let second = updated(fixture, "a/u", &[("user:k", "4")]).await.life;
    replaced(fixture.update_state(with(first, "5")).await.map(drop));
    replaced(fixture.update_state(with(Some(Life::NONE), "5")).await.map(drop));
    fixture.update_state(with(second, "6")).await.unwrap();
    assert_eq!(fixture.state("a/u").await, r#"{"user:k":6}"#);
    let view = fixture.read_state(read_state("a/u")).await.unwrap();
    assert_eq!(view.bases.life(&scope, view.position.versions), second);
}

pub async fn requests_of_an_earlier_life_are_forgotten(fixture: &mut Fixture) {
    for path in ["a", "a/u"] {
        let key = if path == "a" { "app:k" } else { "user:k" };
        let asked =
            |value| StateUpdate { request: request("r", 1), ..update(path, set(&[(key, value)])) };
        fixture.update_state(asked("1")).await.unwrap();
        assert!(fixture.update_state(asked("1")).await.unwrap().replayed);
        emptied(fixture, path, key).await;
        assert!(!fixture.update_state(asked("1")).await.unwrap().replayed, "{path}");
        assert!(fixture.update_state(asked("1")).await.unwrap().replayed, "{path}");
        emptied(fixture, path, key).await;
    }
    // One that changed nothing is remembered for as long as anything else is there.
    let nothing = || StateUpdate { request: request("r", 1), ..update("a/u", remove(&["user:k"])) };
    fixture.update_state(nothing()).await.unwrap();
    fixture.sweep_all(NOW).await;
    assert!(!fixture.update_state(nothing()).await.unwrap().replayed);
}

pub async fn what_has_state_or_a_session_stays(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("user:k", "1"), ("app:k", "1")]).await;
    fixture.new_session("a/v/s", &[]).await;
    fixture.put("a/u/s", "1", remove(&["user:k", "app:k"])).await;
    let before = (fixture.position("a/u").await, bases(fixture, "a/u").await);
    fixture.sweep_all(NOW).await;
    assert_eq!((fixture.position("a/u").await, bases(fixture, "a/u").await), before);
    assert_eq!(fixture.state_as_of("a/u/s", 0).await, r#"{"app:k":1,"user:k":1}"#);
    // A user goes with its last session, the application stays with the other's.
    delete(fixture, "a/u/s").await;
    fixture.sweep_all(NOW).await;
    assert!(bases(fixture, "a/u").await.are_past(ScopeVersions { user: 2, application: 0 }));
    assert_eq!(fixture.position("a").await.versions.application, 2);
    delete(fixture, "a/v/s").await;
    fixture.sweep_all(NOW).await;
    assert_eq!(fixture.position("a").await.versions.application, 0);
    let users =
        UsersQuery { app_name: AppName::new("a").unwrap(), seen: None, after: None, max_items: 10 };
    assert_eq!(fixture.list_users(users).await.unwrap().names, Vec::<UserId>::new());
    let applications = ApplicationsQuery { seen: None, after: None, max_items: 10 };
    assert_eq!(fixture.list_applications(applications).await.unwrap().names, []);
}

pub async fn a_session_that_is_created_meanwhile_keeps_its_user(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("user:k", "1")]).await;
    fixture.put("a/u/s", "1", remove(&["user:k"])).await;
    delete(fixture, "a/u/s").await;
    fixture.new_session("a/u/t", &[]).await;
    fixture.sweep_all(NOW).await;
    assert_eq!(fixture.position("a/u").await.versions.user, 2);
    fixture.put("a/u/t", "1", set(&[("user:k", "2")])).await;
    assert_eq!(fixture.versions("a/u").await, [("user:k".to_owned(), 3)]);
}

pub async fn a_removed_user_is_not_named_any_more(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    fixture.new_session("a/v/s", &[]).await;
    for (id, path) in [("1", "a/u/s"), ("1", "a/v/s"), ("2", "a/u/s")] {
        let author = Author::new("somebody").unwrap();
        let by = NewEvent { author, ..event(id, add("app:k", 1)) };
        fixture.append(append(path, [by])).await.unwrap();
    }
    delete(fixture, "a/u/s").await;
    fixture.sweep_all(NOW).await;
    let history = fixture.list_key_changes(changes("a", "app:k")).await.unwrap().changes;
    let named: Vec<_> = history
        .iter()
        .map(|change| {
            let user = change.source.as_ref().map(|(key, _)| key.user_id.as_str());
            (change.version, change.author.as_str(), user)
        })
        .collect();
    assert_eq!(named, [(3, "", None), (2, "somebody", Some("v")), (1, "", None)]);
    assert_eq!(fixture.state("a").await, r#"{"app:k":3}"#);
    fixture.sweep_all(NOW).await;
}

pub async fn a_long_log_of_an_earlier_life_is_removed_behind_the_next_one(fixture: &mut Fixture) {
    // Past several snapshots and pieces of a sweep.
    for round in 0..3 {
        for value in 0..150 {
            updated(fixture, "a/u", &[("user:k", &value.to_string())]).await;
        }
        fixture.update_state(update("a/u", remove(&["user:k"]))).await.unwrap();
        // Its life ends with the first piece, and what follows is written beside the rest.
        while fixture.position("a/u").await.versions.user > 0 {
            assert!(fixture.sweep(NOW).await.unwrap());
        }
        updated(fixture, "a/u", &[("user:other", "1")]).await;
        fixture.new_session(&format!("a/u/s{round}"), &[]).await;
        fixture.sweep_all(NOW).await;
        assert_eq!(fixture.state("a/u").await, r#"{"user:other":1}"#);
        let path = format!("a/u/s{round}");
        fixture.put(&path, "1", set(&[("user:late", "1")])).await;
        assert_eq!(fixture.state_as_of(&path, 0).await, r#"{"user:other":1}"#);
        let all = r#"{"user:late":1,"user:other":1}"#;
        assert_eq!(fixture.state_as_of(&path, 1).await, all);
        let history = fixture.list_key_changes(changes("a/u", "user:k")).await.unwrap().changes;
        assert_eq!(history, []);
        fixture.update_state(update("a/u", remove(&["user:late", "user:other"]))).await.unwrap();
        delete(fixture, &path).await;
        fixture.sweep_all(NOW).await;
    }
}

pub async fn lives_are_told_apart_after_a_restart(fixture: &mut Fixture) {
    let first = updated(fixture, "a/u", &[("user:k", "1")]).await.life;
    fixture.reopen().await;
    assert_eq!(updated(fixture, "a/u", &[("user:k", "2")]).await.life, first);
    emptied(fixture, "a/u", "user:k").await;
    fixture.reopen().await;
    let second = updated(fixture, "a/u", &[("user:k", "3")]).await.life;
    assert_ne!(second, first);
    assert_eq!(fixture.versions("a/u").await, [("user:k".to_owned(), 5)]);
    fixture.reopen().await;
    assert_eq!(updated(fixture, "a/u", &[("user:k", "4")]).await.life, second);
    assert_eq!(fixture.versions("a/u").await, [("user:k".to_owned(), 6)]);
}
