//! What the writer keeps in memory stays within its bound, whether it was loaded or written.

use super::*;

/// Users, each with a session and a state of a fifth of the bound.
const USERS: usize = 12;

/// A file with them, and a writer that remembers nothing yet.
async fn filled() -> (Fixture, DirectWriter) {
    let fixture = Fixture::new().await;
    let large = format!("\"{}\"", "x".repeat(200_000));
    for user in 0..USERS {
        let user = format!("u{user}");
        fixture.create(&user, "s").await;
        let change = change(user_scope(&user), delta(&[("user:large", &large)]));
        fixture.store().update_state(&call(), change).await.unwrap();
    }
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    (fixture, direct)
}

/// Bytes of the states that a writer keeps.
fn kept_bytes(writer: &Writer) -> usize {
    let sessions = writer.loaded.sessions.values().map(|session| &session.own);
    let keys = writer.loaded.scopes.values().chain(sessions).flat_map(|scope| &scope.keys);
    keys.map(|(name, it)| ENTRY_BYTES + name.len() + it.as_ref().map_or(0, |(it, _)| it.len()))
        .sum()
}

/// Sends a request for every user. What is kept never exceeds the bound.
async fn stays_within_its_bound(request: impl Fn(&str) -> Request) {
    let (_fixture, direct) = filled().await;
    let (bound, mut most) = (1 << 20, 0);
    let mut writer = direct.writer();
    for user in 0..USERS {
        execute_one(&mut writer, request(&format!("u{user}"))).unwrap();
        writer.shrink(bound);
        let kept = kept_bytes(&writer);
        assert!(kept <= bound, "after {user}: {kept}");
        most = most.max(kept);
    }
    assert!(most > bound / 4, "what was used is kept");
}

#[tokio::test]
async fn a_session_that_is_found_instead_of_created_counts() {
    stays_within_its_bound(|user| {
        let on_existing = OnExisting::Return;
        Request::Create(CreateSession { on_existing, ..creation(user, "s") })
    })
    .await;
}

#[tokio::test]
async fn a_user_whose_state_does_not_change_counts() {
    stays_within_its_bound(|user| Request::UpdateState(change(user_scope(user), Delta::default())))
        .await;
}

#[tokio::test]
async fn what_is_written_counts() {
    let large = format!("\"{}\"", "x".repeat(200_000));
    stays_within_its_bound(|user| {
        let state = vec![(key("large"), json(&large))];
        Request::Create(CreateSession { state, ..creation(user, "new") })
    })
    .await;
}

/// Sends many small requests to a writer with a small bound. How many sessions and addresses it keeps.
async fn kept_of_many(request: impl Fn(&str) -> Request) -> (usize, usize) {
    let (_fixture, direct) = filled().await;
    let mut writer = direct.writer();
    for number in 0..3000 {
        execute_one(&mut writer, request(&format!("s{number}"))).unwrap();
        writer.shrink(64 << 10);
    }
    (writer.loaded.sessions.len(), writer.loaded.addresses.len())
}

#[tokio::test]
async fn created_sessions_without_state_count() {
    let (sessions, _) = kept_of_many(|session| Request::Create(creation("u", session))).await;
    assert!((1..200).contains(&sessions), "{sessions}");
}

#[tokio::test]
async fn addresses_without_a_session_count() {
    let delete = |session: &str| Request::Delete(address(session).into());
    let (sessions, addresses) = kept_of_many(delete).await;
    assert!(sessions == 0 && addresses < 1200, "{addresses}");
}

/// They count with the unindexed rows of their logs, which are looked at when a session ends.
#[tokio::test]
async fn addresses_of_swept_sessions_count() {
    let (fixture, direct) = filled().await;
    let expiration = Some(Expiration::At(at(50)));
    let creations = (0..1500)
        .map(|session| CreateSession { expiration, ..creation("u", &format!("s{session}")) });
    execute(&mut direct.writer(), creations.map(Request::Create).collect());
    fixture.clock.set(100);
    // It remembers nothing of the creations.
    let mut writer = direct.writer();
    let mut swept = 0;
    while swept < 1500 {
        execute_one(&mut writer, Request::Sweep).unwrap();
        swept = fixture.count("SELECT 1500 - count(*) FROM session WHERE user_id = 'u'");
        writer.shrink(64 << 10);
        let addresses = writer.loaded.addresses.len();
        assert!(addresses < 400, "after {swept}: {addresses}");
    }
}

#[tokio::test]
async fn what_was_forgotten_is_loaded_again() {
    let (_fixture, direct) = filled().await;
    let mut writer = direct.writer();
    for round in 1..=3 {
        for user in ["u0", "u1"] {
            let mut append = one("s", &round.to_string(), &[("k", "1"), ("app:k", "1")]);
            append.session = of_user(user, "s");
            let appended = execute_one(&mut writer, Request::Append(append));
            assert_eq!(sequence(&appended), Ok(round));
            writer.shrink(0);
            assert!(writer.loaded.sessions.is_empty() && writer.loaded.scopes.is_empty());
        }
    }
}

#[tokio::test]
async fn a_user_whose_request_is_refused_counts() {
    let (_fixture, direct) = filled().await;
    for fingerprint in [1, 2] {
        // The second writer remembers nothing of the first, and stops where the request turns out to have been another one.
        let mut writer = direct.writer();
        let id = RequestId::new("r").unwrap();
        let request = Some(RequestKey { id, fingerprint: Fingerprint(fingerprint) });
        let update = StateUpdate { request, ..change(user_scope("u0"), Delta::default()) };
        let answer = execute_one(&mut writer, Request::UpdateState(update));
        assert_eq!(answer.is_ok(), fingerprint == 1);
        assert!(writer.grown >= 200_000, "{}", writer.grown);
    }
}
