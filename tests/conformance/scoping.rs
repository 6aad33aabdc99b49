//! The scopes of keys, and what is visible from a scope.

use sessiond::{
    domain::{delta::ScopeDelta, event::ScopeVersions, session::Incarnation, token::Position},
    store::StateQuery,
};

use crate::{
    fixture::{Fixture, text},
    requests::*,
};

pub async fn creation_sorts_state_by_prefix(fixture: &mut Fixture) {
    let state = [("user:b", "2"), ("c", "3"), ("app:a", "1"), ("session:x", "4")];
    let created = fixture.create_session(create("a/u/s", &state)).await.unwrap();
    assert!(created.created);
    let merged = r#"{"app:a":1,"user:b":2,"c":3,"session:x":4}"#;
    assert_eq!(text(&created.state), merged);
    assert_eq!(fixture.state("a/u/s").await, merged);
    assert_eq!(fixture.state("a/u").await, r#"{"app:a":1,"user:b":2}"#);
    assert_eq!(fixture.state("a").await, r#"{"app:a":1}"#);
}

pub async fn an_event_applies_its_delta_by_prefix(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let delta = set(&[("k", "1"), ("app:k", "2"), ("user:k", "3")]);
    fixture.put("a/u/s", "e", delta).await;
    let merged = r#"{"app:k":2,"user:k":3,"k":1}"#;
    assert_eq!(fixture.state("a/u/s").await, merged);
    let view = fixture.read_session(read("a/u/s")).await.unwrap();
    assert_eq!(text(&view.state.unwrap()), merged);
}

pub async fn shared_state_is_visible_at_once_in_its_scope_only(fixture: &mut Fixture) {
    for path in ["a/u/s", "a/u/t", "a/v/s", "b/u/s"] {
        fixture.new_session(path, &[]).await;
    }
    let delta = set(&[("k", "1"), ("app:k", "2"), ("user:k", "3")]);
    fixture.put("a/u/s", "e", delta).await;
    assert_eq!(fixture.state("a/u/t").await, r#"{"app:k":2,"user:k":3}"#);
    assert_eq!(fixture.state("a/v/s").await, r#"{"app:k":2}"#);
    assert_eq!(fixture.state("b/u/s").await, "{}");
    fixture.put("a/v/s", "e", set(&[("app:k", "9")])).await;
    fixture.put("a/u/t", "e", remove(&["user:k"])).await;
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:k":9,"k":1}"#);
}

pub async fn a_session_created_later_sees_what_is_shared(fixture: &mut Fixture) {
    let update_app = update("a", set(&[("app:k", "1")]));
    fixture.update_state(update_app).await.unwrap();
    let update_user = update("a/u", set(&[("user:k", "2"), ("app:l", "3")]));
    fixture.update_state(update_user).await.unwrap();
    let created = fixture.create_session(create("a/u/s", &[("user:k", "4")]));
    assert_eq!(text(&created.await.unwrap().state), r#"{"app:k":1,"app:l":3,"user:k":4}"#);
    let created = fixture.create_session(create("a/v/s", &[])).await.unwrap();
    assert_eq!(text(&created.state), r#"{"app:k":1,"app:l":3}"#);
}

pub async fn bare_prefixes_are_the_empty_keys_of_their_scopes(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("app:", "1")]).await;
    fixture.put("a/u/s", "e", set(&[("user:", "2"), ("app", "3")])).await;
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:":1,"user:":2,"app":3}"#);
    fixture.put("a/u/s", "f", remove(&["app:"])).await;
    assert_eq!(fixture.state("a/u").await, r#"{"user:":2}"#);
}

pub async fn other_spellings_of_a_prefix_are_session_keys(fixture: &mut Fixture) {
    let keys = [("App:x", "1"), ("USER:x", "2"), ("_adk:y", "3"), (" app:x", "4"), ("Temp:x", "5")];
    fixture.new_session("a/u/s", &keys).await;
    assert_eq!(fixture.state("a/u").await, "{}");
    let own = r#"{" app:x":4,"App:x":1,"Temp:x":5,"USER:x":2,"_adk:y":3}"#;
    assert_eq!(fixture.state("a/u/s").await, own);
}

/// The application's keys, then the user's, then the session's; each part in the order of its keys' bytes.
pub async fn state_is_ordered_by_scope_and_name(fixture: &mut Fixture) {
    let keys = [
        ("zz", "0"),
        ("user:b", "0"),
        ("é", "0"),
        ("a", "0"),
        ("app:z", "0"),
        ("B", "0"),
        ("\u{10000}", "0"),
        ("\u{ffff}", "0"),
        ("a\u{1}", "0"),
        ("user:a", "0"),
        ("app:ab", "0"),
        ("app:a", "0"),
    ];
    fixture.new_session("a/u/s", &keys).await;
    let ordered = [
        "app:a",
        "app:ab",
        "app:z",
        "user:a",
        "user:b",
        "B",
        "a",
        "a\u{1}",
        "zz",
        "é",
        "\u{ffff}",
        "\u{10000}",
    ];
    let state = fixture.read_state(read_state("a/u/s")).await.unwrap().state;
    let found: Vec<&str> = state.0.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(found, ordered);
    let query = StateQuery {
        keys: Some(keys.iter().map(|(name, _)| key(name)).collect()),
        ..read_state("a/u/s")
    };
    assert_eq!(fixture.read_state(query).await.unwrap().state, state);
}

pub async fn selected_keys_are_returned_if_visible(fixture: &mut Fixture) {
    let state = [("app:a", "1"), ("user:b", "2"), ("c", "3"), ("app:d", "4"), ("e", "5")];
    fixture.new_session("a/u/s", &state).await;
    for (path, expected) in [
        ("a/u/s", r#"{"app:a":1,"user:b":2,"c":3}"#),
        ("a/u", r#"{"app:a":1,"user:b":2}"#),
        ("a", r#"{"app:a":1}"#),
    ] {
        let names = ["c", "missing", "user:b", "app:a", "c", "app:missing"];
        let query = StateQuery { keys: Some(names.map(key).to_vec()), ..read_state(path) };
        let view = fixture.read_state(query).await.unwrap();
        assert_eq!(text(&view.state), expected, "from {path}");
    }
    let none = StateQuery { keys: Some(Vec::new()), ..read_state("a/u/s") };
    assert_eq!(text(&fixture.read_state(none).await.unwrap().state), "{}");
}

pub async fn a_scope_that_was_never_written_to_is_empty(fixture: &mut Fixture) {
    for path in ["a", "a/u"] {
        let view = fixture.read_state(read_state(path)).await.unwrap();
        assert_eq!(text(&view.state), "{}");
        assert_eq!(view.info, None);
        let unwritten = Position {
            incarnation: Incarnation(0),
            sequence: 0,
            versions: ScopeVersions::default(),
        };
        assert_eq!(view.position, unwritten);
    }
}

pub async fn shared_state_outlives_every_session(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("app:a", "1"), ("user:b", "2"), ("c", "3")]).await;
    assert!(fixture.delete_session(address("a/u/s"), NOW).await.unwrap());
    assert_eq!(fixture.state("a/u").await, r#"{"app:a":1,"user:b":2}"#);
    fixture.new_session("a/u/s", &[]).await;
    assert_eq!(fixture.state("a/u/s").await, r#"{"app:a":1,"user:b":2}"#);
}

/// Nothing is trimmed, normalised or read as a pattern.
pub async fn addresses_and_keys_are_opaque(fixture: &mut Fixture) {
    let odd = [
        "s",
        "S",
        " s",
        "s ",
        "%",
        "_",
        "s%",
        "'",
        "\"",
        "''; --",
        "\\",
        "..",
        "*",
        "é",
        "e\u{301}",
        "\u{1}",
        "\n",
        "\u{202e}",
        "\u{10ffff}",
    ];
    for (at, id) in odd.iter().enumerate() {
        let value = at.to_string();
        for path in [format!("a/u/{id}"), format!("a/{id}/x"), format!("{id}/u/x")] {
            let state = [("k", &*value), (&*format!("app:{id}"), &*value), (*id, "7")];
            fixture.new_session(&path, &state).await;
        }
    }
    for (at, id) in odd.iter().enumerate() {
        for path in [format!("a/u/{id}"), format!("a/{id}/x"), format!("{id}/u/x")] {
            let view = fixture.read_session(read(&path)).await.unwrap();
            assert_eq!(view.info.key, address(&path));
            let state = view.state.unwrap();
            assert_eq!(state.get("k"), Some(&json(&at.to_string())), "{path:?}");
            assert_eq!(state.get(id), Some(&json("7")), "{path:?}");
            let shared = state.get(&format!("app:{id}"));
            assert_eq!(shared, Some(&json(&at.to_string())), "{path:?}");
        }
        assert!(fixture.delete_session(address(&format!("a/u/{id}")), NOW).await.unwrap());
    }
    let left = fixture.list_sessions(sessions("a")).await.unwrap().sessions;
    assert_eq!(left.len(), odd.len());
}

pub async fn a_scope_takes_no_keys_of_narrower_scopes(fixture: &mut Fixture) {
    for (path, taken, refused) in [
        ("a", &["app:k"][..], &["user:k", "k", "temp:k"][..]),
        ("a/u", &["app:k", "user:k"], &["k", "temp:k"]),
    ] {
        let all = taken.iter().fold(nothing(), |delta, name| delta.add(name, 1));
        fixture.update_state(update(path, all.clone())).await.unwrap();
        for name in refused {
            for delta in [set(&[(name, "1")]), remove(&[name]), all.clone().add(name, 1)] {
                assert_eq!(ScopeDelta::new(scope(path), delta).unwrap_err(), key(name));
            }
        }
    }
    assert_eq!(fixture.state("a/u").await, r#"{"app:k":2,"user:k":1}"#);
}
