//! Versions of scopes.

use sessiond::domain::{delta::Operation, event::ScopeVersions};

use crate::{fixture::*, requests::*};

/// Versions of the application and of the user.
fn wide(application: u64, user: u64) -> ScopeVersions {
    ScopeVersions { application, user }
}

fn owned(versions: &[(&str, u64)]) -> Vec<(String, u64)> {
    let versions = versions.iter();
    versions.map(|&(name, version)| (name.to_owned(), version)).collect()
}

pub async fn a_creation_raises_each_wider_scope_by_one(fixture: &mut Fixture) {
    let state = [("app:a", "1"), ("app:b", "1"), ("user:c", "1"), ("own", "1")];
    let created = fixture.create_session(create("a/u/s", &state)).await.unwrap();
    assert_eq!(created.info.created_versions, wide(1, 1));
    assert_eq!(created.info.last_sequence, 0);
    assert_eq!(
        versions(&created.state),
        owned(&[("app:a", 1), ("app:b", 1), ("user:c", 1), ("own", 0)])
    );
    let second = fixture.new_session("a/v/s", &[("app:b", "1")]).await;
    assert_eq!(second.created_versions, wide(2, 0));
    let third = fixture.new_session("a/u/t", &[("own", "1")]).await;
    assert_eq!(third.created_versions, wide(2, 1));
    assert_eq!(fixture.versions("a/u").await, owned(&[("app:a", 1), ("app:b", 2), ("user:c", 1)]));
}

pub async fn every_event_raises_what_it_changes(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("user:x", "0")]).await;
    let one = fixture.put("a/u/s", "1", set(&[("app:x", "1"), ("app:y", "1")]));
    assert_eq!(one.await.versions, wide(1, 1));
    let two = fixture.put("a/u/s", "2", set(&[("k", "1")])).await;
    assert_eq!(two.versions, wide(1, 1));
    let three = fixture.put("a/u/s", "3", remove(&["user:x"]).add("app:x", 1)).await;
    assert_eq!(three.versions, wide(2, 2));
    assert_eq!(fixture.versions("a/u/s").await, owned(&[("app:x", 2), ("app:y", 1), ("k", 2)]));
    assert_eq!(fixture.position("a/u/s").await.versions, wide(2, 2));
    assert_eq!(fixture.position("a/u/s").await.sequence, 3);
}

pub async fn every_event_of_a_batch_raises_by_itself(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let batch = append(
        "a/u/s",
        [
            event("1", add("app:n", 1).add("user:n", 1).add("n", 1)),
            event("2", add("app:n", 1)),
            event("3", nothing()),
            event("4", add("app:n", 1).add("user:n", 1).add("n", 1)),
        ],
    );
    let appended = fixture.append(batch).await.unwrap();
    let left: Vec<ScopeVersions> = appended.events.iter().map(|e| e.event.versions).collect();
    assert_eq!(left, [wide(1, 1), wide(2, 1), wide(2, 1), wide(3, 2)]);
    assert_eq!(fixture.versions("a/u/s").await, owned(&[("app:n", 3), ("user:n", 2), ("n", 4)]));
}

pub async fn an_update_raises_the_versions_of_changed_scopes(fixture: &mut Fixture) {
    let both = update("a/u", set(&[("user:x", "1"), ("app:x", "1")]));
    fixture.update_state(both).await.unwrap();
    assert_eq!(fixture.position("a/u").await.versions, wide(1, 1));
    let user = update("a/u", set(&[("user:x", "2"), ("user:y", "2")]));
    let updated = fixture.update_state(user).await.unwrap();
    assert_eq!(versions(&updated.state), owned(&[("app:x", 1), ("user:x", 2), ("user:y", 2)]));
    assert_eq!(fixture.position("a/u").await.versions, wide(1, 2));
    fixture.update_state(update("a", add("app:x", 1))).await.unwrap();
    assert_eq!(fixture.position("a/u").await.versions, wide(2, 2));
    assert_eq!(fixture.position("a").await.versions, wide(2, 0));
    assert_eq!(fixture.position("a/w").await.versions, wide(2, 0));
}

pub async fn setting_an_equal_value_is_a_change(fixture: &mut Fixture) {
    let state = [("app:k", "1"), ("user:k", "1"), ("k", "1")];
    fixture.new_session("a/u/s", &state).await;
    let again = fixture.put("a/u/s", "e", set(&state)).await;
    assert_eq!(again.versions, wide(2, 2));
    assert_eq!(became(&again.changes), r#"{"app:k":1,"user:k":1,"k":1}"#);
    assert_eq!(fixture.versions("a/u/s").await, owned(&[("app:k", 2), ("user:k", 2), ("k", 1)]));
}

pub async fn what_changes_nothing_leaves_no_trace(fixture: &mut Fixture) {
    let state = [("app:k", "1"), ("user:k", "1"), ("k", "1")];
    fixture.new_session("a/u/s", &state).await;
    for (at, prefix) in ["app:", "user:", ""].iter().enumerate() {
        let there = format!("{prefix}k");
        let missing = format!("{prefix}missing");
        let default = || Operation::SetIfAbsent(json("9"));
        let delta = set(&[(&missing, "1")])
            .remove(&[&missing, &format!("{prefix}never")])
            .operate(&there, default());
        let stored = fixture.put("a/u/s", &at.to_string(), delta.clone()).await;
        assert!(stored.changes.is_empty(), "{:?}", stored.changes);
        assert_eq!(stored.versions, wide(1, 1));
        if let Some(path) = ["a", "a/u"].get(at) {
            let replied = fixture.update_state(update(path, delta)).await.unwrap();
            assert!(!replied.replayed);
        }
        let listed = fixture.list_key_changes(changes("a/u/s", &missing)).await;
        assert_eq!(listed.unwrap().changes, []);
        let listed = fixture.list_key_changes(changes("a/u/s", &there)).await;
        assert_eq!(listed.unwrap().changes.len(), 1);
    }
    assert_eq!(fixture.position("a/u").await.versions, wide(1, 1));
    assert_eq!(fixture.versions("a/u/s").await, owned(&[("app:k", 1), ("user:k", 1), ("k", 0)]));
}

pub async fn metadata_raises_no_version(fixture: &mut Fixture) {
    let state = [("app:k", "1"), ("user:k", "1"), ("k", "1")];
    fixture.new_session("a/u/s", &state).await;
    fixture.update_session(touch("a/u/s")).await.unwrap();
    fixture.fork_session(fork("a/u/s", None, "t")).await.unwrap();
    fixture.put("a/u/s", "e", nothing()).await;
    fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    assert_eq!(fixture.position("a/u").await.versions, wide(1, 1));
}
