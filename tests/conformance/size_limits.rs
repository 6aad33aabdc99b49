//! How much state a scope holds.

use sessiond::{
    domain::{
        delta::{Delta, Operation},
        error::Error,
        limits::{SCOPE_BYTES, VALUE_BYTES},
        scope::ScopeKind,
    },
    store::CreateSession,
};

use crate::{fixture::*, requests::*};

const SCOPES: [(&str, ScopeKind); 3] =
    [("app:", ScopeKind::Application), ("user:", ScopeKind::User), ("", ScopeKind::Session)];

/// A string of `bytes` bytes as JSON text.
fn text_of(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

/// Five keys of one scope with `bytes` bytes in all: names without prefix, and values.
fn filling(prefix: &str, bytes: usize) -> Vec<(String, String)> {
    let value = VALUE_BYTES - 1_000;
    let mut keys: Vec<_> = (0..4).map(|at| (format!("{prefix}k{at}"), text_of(value))).collect();
    keys.push((format!("{prefix}last"), text_of(bytes - 4 * (value + 2) - 4)));
    keys
}

fn pairs(keys: &[(String, String)]) -> Vec<(&str, &str)> {
    keys.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn creation(path: &str, keys: &[(String, String)]) -> CreateSession {
    create(path, &pairs(keys))
}

pub async fn a_creation_fills_a_scope_to_its_limit(fixture: &mut Fixture) {
    for (prefix, kind) in SCOPES {
        let path = format!("{kind}/u/s");
        let refused = creation(&path, &filling(prefix, SCOPE_BYTES + 1));
        let refused = fixture.create_session(refused).await.unwrap_err();
        assert_eq!(refused, Error::StateTooLarge(kind));
        fixture.read_session(read(&path)).await.unwrap_err();
        assert_eq!(fixture.state(&format!("{kind}/u")).await, "{}");
        let full = creation(&path, &filling(prefix, SCOPE_BYTES));
        fixture.create_session(full).await.unwrap();
    }
}

pub async fn an_event_fills_a_scope_to_its_limit(fixture: &mut Fixture) {
    for (prefix, kind) in SCOPES {
        let path = &*format!("{kind}/u/s");
        let name = |name: &str| format!("{prefix}{name}");
        let almost = filling(prefix, SCOPE_BYTES - 10);
        fixture.create_session(creation(path, &almost)).await.unwrap();
        // Name and value are eleven bytes, then ten.
        let too_much = set(&[(&name("new"), "12345678")]);
        let refused = fixture.append(append(path, [event("1", too_much)])).await;
        assert_eq!(refused.unwrap_err(), Error::StateTooLarge(kind));
        fixture.put(path, "1", set(&[(&name("new"), "1234567")])).await;
        // The scope is full: nothing that grows it is accepted.
        let last = name("last");
        let longer = text_of(almost[4].1.len() + 1);
        let growing: [Delta; 4] = [
            set(&[(&name("n"), "1")]),
            set(&[(&last, &longer)]),
            nothing().operate(&name("d"), Operation::SetIfAbsent(json("1"))),
            add(&name("new"), 100_000_000),
        ];
        for delta in growing {
            let refused = fixture.append(append(path, [event("2", delta)])).await;
            assert_eq!(refused.unwrap_err(), Error::StateTooLarge(kind));
        }
        // Changes that do not grow it are.
        fixture.put(path, "2", add(&name("new"), 1)).await;
        let exchanged = set(&[(&name("NEW"), "7654321")]).remove(&[&name("new")]);
        fixture.put(path, "3", exchanged).await;
        fixture.put(path, "4", remove(&[&name("NEW")])).await;
        fixture.put(path, "5", set(&[(&name("n"), "1")])).await;
    }
}

pub async fn an_update_fills_a_scope_to_its_limit(fixture: &mut Fixture) {
    for (prefix, kind, path) in [
        ("app:", ScopeKind::Application, "a"),
        ("app:", ScopeKind::Application, "b/u"),
        ("user:", ScopeKind::User, "c/u"),
    ] {
        for (at, (name, value)) in filling(prefix, SCOPE_BYTES).iter().enumerate() {
            if at == 4 {
                let longer = set(&[(name, &text_of(value.len() + 1))]);
                let refused = fixture.update_state(update(path, longer)).await;
                assert_eq!(refused.unwrap_err(), Error::StateTooLarge(kind));
            }
            let delta = set(&[(name, value)]);
            fixture.update_state(update(path, delta)).await.unwrap();
        }
        let one_more = set(&[(&format!("{prefix}n"), "1")]);
        let refused = fixture.update_state(update(path, one_more.clone())).await;
        assert_eq!(refused.unwrap_err(), Error::StateTooLarge(kind));
        let smaller = remove(&[&format!("{prefix}k0")]);
        fixture.update_state(update(path, smaller)).await.unwrap();
        fixture.update_state(update(path, one_more)).await.unwrap();
    }
}

/// The prefix does not count, so that a key costs the same in every scope; bytes count, not characters.
pub async fn names_count_without_prefix_and_in_bytes(fixture: &mut Fixture) {
    for (prefix, kind) in SCOPES {
        let path = &*format!("{kind}/u/s");
        let almost = filling(prefix, SCOPE_BYTES - 6);
        fixture.create_session(creation(path, &almost)).await.unwrap();
        let refused = set(&[(&format!("{prefix}éé"), "\"\u{e9}\"")]);
        let refused = fixture.append(append(path, [event("1", refused)])).await;
        assert_eq!(refused.unwrap_err(), Error::StateTooLarge(kind));
        let fits = set(&[(&format!("{prefix}é"), "\"\u{e9}\"")]);
        fixture.put(path, "1", fits).await;
    }
}

/// A full scope does not affect other scopes.
pub async fn a_full_scope_stops_nothing_else(fixture: &mut Fixture) {
    let full = filling("app:", SCOPE_BYTES);
    fixture.create_session(creation("a/u/s", &full)).await.unwrap();
    let delta = set(&[("user:k", "1"), ("k", "1"), ("app:k0", "0")]);
    fixture.put("a/u/s", "1", delta).await;
    fixture.new_session("a/v/s", &[("user:k", "1")]).await;
    fixture.update_state(update("a/v", add("user:k", 1))).await.unwrap();
    fixture.new_session("b/u/s", &[("app:k", "1")]).await;
}

/// State is within the limit as of every event of a batch.
pub async fn a_batch_fits_event_by_event(fixture: &mut Fixture) {
    let full = filling("", SCOPE_BYTES);
    fixture.create_session(creation("a/u/s", &full)).await.unwrap();
    let over = [event("1", set(&[("n", "1")])), event("2", remove(&["k0"]))];
    let refused = fixture.append(append("a/u/s", over)).await.unwrap_err();
    assert_eq!(refused, Error::StateTooLarge(ScopeKind::Session));
    let under = [event("1", remove(&["k0"])), event("2", set(&[("n", "1")]))];
    fixture.append(append("a/u/s", under)).await.unwrap();
}

/// State that was within the limit once can be restored and forked.
pub async fn the_past_always_fits(fixture: &mut Fixture) {
    let full = filling("", SCOPE_BYTES);
    fixture.create_session(creation("a/u/s", &full)).await.unwrap();
    let names: Vec<&str> = full.iter().map(|(name, _)| name.as_str()).collect();
    fixture.put("a/u/s", "1", remove(&names)).await;
    let others: Vec<_> =
        full.iter().map(|(name, value)| (format!("{}!", &name[1..]), value.clone())).collect();
    fixture.put("a/u/s", "2", set(&pairs(&others[..4]))).await;
    let back = fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    assert_eq!(back.state.unwrap().0.len(), 5);
    fixture.rewind_session(rewind("a/u/s", 2, "n")).await.unwrap();
    let (_, state) = fixture.fork_session(fork("a/u/s", Some(3), "t")).await.unwrap();
    assert_eq!(state.0.len(), 5);
    // And it is counted: the fork is full.
    let grown = append("a/u/t", [event("3", set(&[("n", "1")]))]);
    let refused = fixture.append(grown).await.unwrap_err();
    assert_eq!(refused, Error::StateTooLarge(ScopeKind::Session));
    fixture.put("a/u/s", "3", set(&[("n", "1")])).await;
}
