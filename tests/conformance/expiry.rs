//! Sessions that cease to exist at an instant.

use sessiond::{
    domain::{error::Error, id::UserId, session::Expiration, time::Time},
    store::{CreateSession, OnExisting, SessionQuery, SessionUpdate, SessionsQuery},
};

use crate::{fixture::*, requests::*};

const END: Time = at(2_000);

/// The field of the only violation.
fn refused<T>(result: Result<T, Error>) -> String {
    match result.err() {
        Some(Error::Invalid(violations)) if violations.len() == 1 => {
            violations[0].field.to_string()
        }
        other => panic!("{other:?}"),
    }
}

/// The last instant before the end.
fn just_before() -> Time {
    Time::new(1_999, 999_999_999).unwrap()
}

fn short(path: &str) -> CreateSession {
    CreateSession { expiration: ends(END), ..create(path, &[("k", "1"), ("user:k", "1")]) }
}

/// The answer of every call that needs the session, at a time.
async fn answers(fixture: &Fixture, now: Time, round: &str) -> Vec<Result<(), Error>> {
    // At an earlier time it is still there.
    let position = fixture.position("a/u/s").await;
    let read = read("a/u/s").at(now);
    let bare = SessionQuery { session: bare("s"), ..read.request.clone() }.at(now);
    let events = events("a/u/s").at(now);
    let state = read_state("a/u/s").at(now);
    let changes = changes("a/u/s", "user:k").at(now);
    let follow = follow("a/u/s", position).at(now);
    let append = plain("a/u/s", round).at(now);
    let marker = format!("{round} marker");
    let rewind = rewind("a/u/s", 0, &marker).at(now);
    let fork = fork("a/u/s", None, round).at(now);
    let touch = touch("a/u/s").at(now);
    vec![
        fixture.read_session(read).await.map(drop),
        fixture.read_session(bare).await.map(drop),
        fixture.list_events(events).await.map(drop),
        fixture.read_state(state).await.map(drop),
        fixture.list_key_changes(changes).await.map(drop),
        fixture.read_changes(follow).await.map(drop),
        fixture.append(append).await.map(drop),
        fixture.rewind_session(rewind).await.map(drop),
        fixture.fork_session(fork).await.map(drop),
        fixture.update_session(touch).await.map(drop),
    ]
}

async fn listed(fixture: &Fixture, user: Option<&str>, now: Time) -> usize {
    let user_id = user.map(|user| UserId::new(user).unwrap());
    let query = SessionsQuery { user_id, ..sessions("a") };
    fixture.list_sessions(query.at(now)).await.unwrap().sessions.len()
}

pub async fn a_session_ends_at_the_very_instant(fixture: &mut Fixture) {
    fixture.create_session(short("a/u/s")).await.unwrap();
    fixture.new_session("a/u/other", &[]).await;
    assert_eq!(listed(fixture, None, just_before()).await, 2);
    assert_eq!(listed(fixture, Some("u"), just_before()).await, 2);
    for answer in answers(fixture, just_before(), "before").await {
        assert_eq!(answer, Ok(()));
    }
    for (round, now) in [("at", END), ("after", at(3_000)), ("last", Time::LAST)] {
        for (at, answer) in answers(fixture, now, round).await.into_iter().enumerate() {
            let refused = matches!(answer, Err(Error::SessionNotFound(_)));
            assert!(refused, "call {at} {round}: {answer:?}");
        }
        assert!(!fixture.delete_session(address("a/u/s"), now).await.unwrap());
        // The other one: the fork that was made in time ends with its source.
        assert_eq!(listed(fixture, None, now).await, 1);
        assert_eq!(listed(fixture, Some("u"), now).await, 1);
    }
    // At an earlier time it is still there: nothing but the clock decides.
    assert_eq!(fixture.info("a/u/s").await.expire_time, Some(END));
}

pub async fn an_expired_address_is_free(fixture: &mut Fixture) {
    let first = fixture.create_session(short("a/u/s")).await.unwrap().info;
    fixture.put("a/u/s", "1", add("k", 1).add("user:k", 1)).await;
    let again = |on_existing, now| {
        CreateSession { on_existing, ..create("a/u/s", &[("new", "1")]) }.at(now)
    };
    let taken = fixture.create_session(again(OnExisting::Refuse, just_before())).await;
    assert_eq!(taken.unwrap_err(), Error::SessionExists(address("a/u/s")));
    let found = fixture.create_session(again(OnExisting::Return, just_before())).await;
    assert!(!found.unwrap().created);
    let created = fixture.create_session(again(OnExisting::Return, END)).await.unwrap();
    assert!(created.created);
    assert_ne!(created.info.incarnation, first.incarnation);
    assert_eq!(created.info.create_time, END);
    assert_eq!(created.info.expire_time, None);
    assert_eq!(text(&created.state), r#"{"user:k":2,"new":1}"#);
    assert_eq!(fixture.whole_log("a/u/s").await, []);
    assert_eq!(fixture.put("a/u/s", "1", nothing()).await.sequence, 1);
    // Sweeping the old incarnation does not touch the new one.
    fixture.sweep_all(Time::LAST).await;
    assert_eq!(fixture.info("a/u/s").await.last_sequence, 1);
    assert_eq!(fixture.state("a/u/s").await, r#"{"user:k":2,"new":1}"#);
}

pub async fn an_expiration_can_be_changed(fixture: &mut Fixture) {
    fixture.create_session(short("a/u/s")).await.unwrap();
    let move_to = |end: Option<Time>, now| {
        SessionUpdate { expiration: Some(end.map(Expiration::At)), ..touch("a/u/s") }.at(now)
    };
    let read_at = |now| read("a/u/s").at(now);
    let moved = fixture.update_session(move_to(Some(at(4_000)), at(1_500))).await;
    assert_eq!(moved.unwrap().expire_time, Some(at(4_000)));
    fixture.sweep_all(END).await;
    fixture.read_session(read_at(END)).await.unwrap();
    fixture.update_session(move_to(None, at(3_000))).await.unwrap();
    fixture.sweep_all(Time::LAST).await;
    fixture.read_session(read_at(Time::LAST)).await.unwrap();
    fixture.update_session(move_to(Some(at(5_000)), at(3_000))).await.unwrap();
    fixture.read_session(read_at(at(4_999))).await.unwrap();
    fixture.read_session(read_at(at(5_000))).await.unwrap_err();
    let past = fixture.update_session(move_to(Some(at(4_000)), at(4_000))).await;
    assert_eq!(refused(past), "session.expire_time");
    fixture.update_session(move_to(Some(at(4_001)), at(4_000))).await.unwrap();
    fixture.read_session(read_at(at(4_001))).await.unwrap_err();
    let late = fixture.update_session(move_to(None, at(4_001))).await;
    assert_eq!(late.unwrap_err(), Error::not_found(&address("a/u/s")));
    // A sweep knows of the new end: then it is gone at earlier times too.
    fixture.read_session(read_at(at(99))).await.unwrap();
    fixture.sweep_all(at(4_001)).await;
    fixture.read_session(read_at(at(99))).await.unwrap_err();
}

pub async fn an_expiration_is_in_the_future(fixture: &mut Fixture) {
    let ending =
        |end| CreateSession { expiration: ends(end), ..create("a/u/s", &[("app:k", "1")]) };
    for expired in [NOW, at(1), Time::new(-62_135_596_800, 0).unwrap()] {
        assert_eq!(refused(fixture.create_session(ending(expired)).await), "session.expire_time");
        fixture.read_session(read("a/u/s")).await.unwrap_err();
    }
    assert_eq!(fixture.position("a").await.versions.application, 0);
    let next = NOW.plus(0, 1).unwrap();
    assert!(fixture.create_session(ending(next)).await.unwrap().created);
    fixture.read_session(read("a/u/s")).await.unwrap();
    fixture.read_session(read("a/u/s").at(next)).await.unwrap_err();
    assert_eq!(fixture.state("a").await, r#"{"app:k":1}"#);
}

/// Many sessions expire at once. A sweep removes a bounded piece at a time.
pub async fn a_sweep_is_bounded_and_ends(fixture: &mut Fixture) {
    const EXPIRED: usize = 700;
    for at in 0..EXPIRED {
        let path = format!("a/u{}/{at}", at % 3);
        fixture.create_session(short(&path)).await.unwrap();
        let batch = (0..3).map(|id| event(&id.to_string(), add("n", 1).add("app:n", 1)));
        fixture.append(append(&path, batch)).await.unwrap();
    }
    fixture.new_session("a/u1/stays", &[]).await;
    fixture.put("a/u1/stays", "1", set(&[("k", "1")])).await;
    // It may look at new users and applications, and removes nothing.
    fixture.sweep_all(just_before()).await;
    assert_eq!(listed(fixture, None, just_before()).await, EXPIRED + 1);
    // A fork is a session of its own, whose expiration can be changed.
    fixture.fork_session(fork("a/u0/0", None, "fork")).await.unwrap();
    let kept = SessionUpdate { expiration: Some(None), ..touch("a/u0/fork") };
    fixture.update_session(kept).await.unwrap();
    let mut sweeps = 1;
    while fixture.sweep(END).await.unwrap() {
        sweeps += 1;
        assert!(sweeps < 10_000, "sweeping does not end");
        // Others are served between two sweeps.
        fixture.append(plain("a/u1/stays", &format!("sweep {sweeps}"))).await.unwrap();
    }
    assert!(sweeps > 1, "one sweep did it all");
    assert!(!fixture.sweep(END).await.unwrap());
    // Now they are gone at earlier times too.
    assert_eq!(listed(fixture, None, just_before()).await, 2);
    assert_eq!(fixture.log("a/u0/fork").await.len(), 3);
    assert_eq!(fixture.info("a/u1/stays").await.last_sequence, sweeps);
    let state = fixture.read_state(read_state("a")).await.unwrap().state;
    assert_eq!(state.get("app:n"), Some(&json(&(3 * EXPIRED).to_string())));
    let listed = fixture.every_change(changes("a", "app:n")).await;
    assert_eq!(listed.len(), 3 * EXPIRED);
}
