//! Sessions that cease to exist at an instant.

use sessiond::{
    domain::{error::Error, id::UserId, time::Time},
    store::{
        Append, CreateSession, EventQuery, ForkSession, KeyChangeQuery, OnExisting, RewindSession,
        SessionQuery, SessionUpdate, SessionsQuery, StateQuery, WatchQuery,
    },
};

use crate::{bench::*, build::*};

const END: Time = at(2_000);

/// The last instant before the end.
fn just_before() -> Time {
    Time::new(1_999, 999_999_999).unwrap()
}

fn short(path: &str) -> CreateSession {
    CreateSession { expire_time: Some(END), ..create(path, &[("k", "1"), ("user:k", "1")]) }
}

/// What every call that needs the session says at a time.
async fn answers(bench: &Bench, now: Time, round: &str) -> Vec<Result<(), Error>> {
    // At an earlier time it is still there.
    let position = bench.position("a/u/s").await;
    let read = SessionQuery { now, ..read("a/u/s") };
    let bare = SessionQuery { session: bare("s"), ..read.clone() };
    let events = EventQuery { now, ..events("a/u/s") };
    let state = StateQuery { now, ..read_state("a/u/s") };
    let changes = KeyChangeQuery { now, ..changes("a/u/s", "user:k") };
    let follow = WatchQuery { now, ..follow("a/u/s", position) };
    let append = Append { now, ..plain("a/u/s", round) };
    let marker = format!("{round} marker");
    let rewind = RewindSession { now, ..rewind("a/u/s", 0, &marker) };
    let fork = ForkSession { now, ..fork("a/u/s", None, round) };
    let touch = SessionUpdate { now, ..touch("a/u/s") };
    vec![
        bench.read_session(read).await.map(drop),
        bench.read_session(bare).await.map(drop),
        bench.list_events(events).await.map(drop),
        bench.read_state(state).await.map(drop),
        bench.list_key_changes(changes).await.map(drop),
        bench.read_changes(follow).await.map(drop),
        bench.append(append).await.map(drop),
        bench.rewind_session(rewind).await.map(drop),
        bench.fork_session(fork).await.map(drop),
        bench.update_session(touch).await.map(drop),
    ]
}

async fn listed(bench: &Bench, user: Option<&str>, now: Time) -> usize {
    let query = SessionsQuery {
        user_id: user.map(|user| UserId::new(user).unwrap()),
        now,
        ..sessions("a")
    };
    bench.list_sessions(query).await.unwrap().sessions.len()
}

pub async fn a_session_ends_at_the_very_instant(bench: &mut Bench) {
    bench.create_session(short("a/u/s")).await.unwrap();
    bench.new_session("a/u/other", &[]).await;
    assert_eq!(listed(bench, None, just_before()).await, 2);
    assert_eq!(listed(bench, Some("u"), just_before()).await, 2);
    for answer in answers(bench, just_before(), "before").await {
        assert_eq!(answer, Ok(()));
    }
    for (round, now) in [("at", END), ("after", at(3_000)), ("last", Time::LAST)] {
        for (at, answer) in answers(bench, now, round).await.into_iter().enumerate() {
            let refused = matches!(answer, Err(Error::SessionNotFound(_)));
            assert!(refused, "call {at} {round}: {answer:?}");
        }
        assert!(!bench.delete_session(address("a/u/s"), now).await.unwrap());
        // The other one, and the fork that was made in time.
        assert_eq!(listed(bench, None, now).await, 2);
        assert_eq!(listed(bench, Some("u"), now).await, 2);
    }
    // Asked for an earlier instant it is still there: nothing but the call's time decides.
    assert_eq!(bench.info("a/u/s").await.expire_time, Some(END));
}

pub async fn its_address_is_free_for_a_new_life(bench: &mut Bench) {
    let first = bench.create_session(short("a/u/s")).await.unwrap().info;
    bench.put("a/u/s", "1", add("k", 1).add("user:k", 1)).await;
    let again =
        |on_existing, now| CreateSession { on_existing, now, ..create("a/u/s", &[("new", "1")]) };
    let taken = bench.create_session(again(OnExisting::Refuse, just_before())).await;
    assert_eq!(taken.unwrap_err(), Error::SessionExists(address("a/u/s")));
    let found = bench.create_session(again(OnExisting::Return, just_before())).await;
    assert!(!found.unwrap().created);
    let created = bench.create_session(again(OnExisting::Return, END)).await.unwrap();
    assert!(created.created);
    assert_ne!(created.info.incarnation, first.incarnation);
    assert_eq!(created.info.create_time, END);
    assert_eq!(created.info.expire_time, None);
    assert_eq!(text(&created.state), r#"{"user:k":2,"new":1}"#);
    assert_eq!(bench.whole_log("a/u/s").await, []);
    assert_eq!(bench.put("a/u/s", "1", nothing()).await.sequence, 1);
    // What sweeps the old life away does not touch the new one.
    bench.sweep_all(Time::LAST).await;
    assert_eq!(bench.info("a/u/s").await.last_sequence, 1);
    assert_eq!(bench.state("a/u/s").await, r#"{"user:k":2,"new":1}"#);
}

pub async fn the_end_can_be_moved(bench: &mut Bench) {
    bench.create_session(short("a/u/s")).await.unwrap();
    let move_to =
        |end: Option<Time>, now| SessionUpdate { expire_time: Some(end), now, ..touch("a/u/s") };
    let read_at = |now| SessionQuery { now, ..read("a/u/s") };
    let moved = bench.update_session(move_to(Some(at(4_000)), at(1_500))).await;
    assert_eq!(moved.unwrap().expire_time, Some(at(4_000)));
    bench.sweep_all(END).await;
    bench.read_session(read_at(END)).await.unwrap();
    bench.update_session(move_to(None, at(3_000))).await.unwrap();
    bench.sweep_all(Time::LAST).await;
    bench.read_session(read_at(Time::LAST)).await.unwrap();
    bench.update_session(move_to(Some(at(5_000)), at(3_000))).await.unwrap();
    bench.read_session(read_at(at(4_999))).await.unwrap();
    bench.read_session(read_at(at(5_000))).await.unwrap_err();
    bench.update_session(move_to(Some(at(100)), at(4_000))).await.unwrap();
    bench.read_session(read_at(at(4_000))).await.unwrap_err();
    let late = bench.update_session(move_to(None, at(4_000))).await;
    assert_eq!(late.unwrap_err(), Error::not_found(&address("a/u/s")));
    // A sweep knows of the new end: afterwards it is not there for earlier times either.
    bench.read_session(read_at(at(99))).await.unwrap();
    bench.sweep_all(at(4_000)).await;
    bench.read_session(read_at(at(99))).await.unwrap_err();
}

pub async fn a_session_may_expire_as_it_is_created(bench: &mut Bench) {
    for expired in [NOW, at(1), Time::new(-62_135_596_800, 0).unwrap()] {
        let create =
            CreateSession { expire_time: Some(expired), ..create("a/u/s", &[("app:k", "1")]) };
        assert!(bench.create_session(create).await.unwrap().created);
        bench.read_session(read("a/u/s")).await.unwrap_err();
    }
    assert_eq!(bench.state("a").await, r#"{"app:k":1}"#);
}

/// Many sessions expire at once: a sweep removes a piece at a time and comes to an end.
pub async fn a_sweep_is_bounded_and_ends(bench: &mut Bench) {
    const EXPIRED: usize = 700;
    for at in 0..EXPIRED {
        let path = format!("a/u{}/{at}", at % 3);
        bench.create_session(short(&path)).await.unwrap();
        let batch = (0..3).map(|id| event(&id.to_string(), add("n", 1).add("app:n", 1)));
        bench.append(append(&path, batch)).await.unwrap();
    }
    bench.new_session("a/u1/stays", &[]).await;
    bench.put("a/u1/stays", "1", set(&[("k", "1")])).await;
    assert!(!bench.sweep(just_before()).await.unwrap());
    assert_eq!(listed(bench, None, just_before()).await, EXPIRED + 1);
    // A fork is a session of its own.
    bench.fork_session(fork("a/u0/0", None, "fork")).await.unwrap();
    let mut sweeps = 1;
    while bench.sweep(END).await.unwrap() {
        sweeps += 1;
        assert!(sweeps < 10_000, "sweeping does not end");
        // In between, everybody is served.
        bench.append(plain("a/u1/stays", &format!("sweep {sweeps}"))).await.unwrap();
    }
    assert!(sweeps > 1, "one sweep did it all");
    assert!(!bench.sweep(END).await.unwrap());
    // Now they are not there for earlier instants either.
    assert_eq!(listed(bench, None, just_before()).await, 2);
    assert_eq!(bench.log("a/u0/fork").await.len(), 3);
    assert_eq!(bench.info("a/u1/stays").await.last_sequence, sweeps);
    let state = bench.read_state(read_state("a")).await.unwrap().state;
    assert_eq!(state.get("app:n"), Some(&json(&(3 * EXPIRED).to_string())));
    let listed = bench.list_key_changes(changes("a", "app:n")).await.unwrap();
    assert_eq!(listed.changes.len(), 3 * EXPIRED);
}
