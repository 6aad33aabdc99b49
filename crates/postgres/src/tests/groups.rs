//! Groups whose decisions reach more than was locked for them.

use super::*;
use sessiond_core::commit::needs;
use sessiond_store::{group::Backend as _, tests::sight_of};

/// What a bare id means was looked up before the session was there, so its user and its application are not locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_bare_id_may_mean_a_session_of_its_own_group() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = fixture.writer();
    let set = [("k", "1"), ("app:a", "1"), ("user:u", "1")];
    let by_id = |event_id: &str| {
        let session = SessionRef::bare(SessionId::new("s").unwrap());
        Request::Append(Append { session, ..one("s", event_id, &set) })
    };
    let create = || Request::Create(creation("s"));
    let requests = vec![
        create(),
        by_id("1"),
        Request::Delete(address("s").into()),
        by_id("2"),
        create(),
        by_id("3"),
        Request::Append(one("s", "4", &[])),
    ];
    let answers = commit(&fixture, &mut writer, requests).await;
    let text = |answer: &Result<Answer, Error>| match answer {
        Ok(Answer::Appended(appended)) => appended.info.last_sequence.to_string(),
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string(),
    };
    let answers: Vec<String> = answers.iter().map(text).collect();
    let not_found = Error::not_found_bare(&SessionId::new("s").unwrap()).to_string();
    assert_eq!(answers, ["ok", "1", "ok", &not_found, "ok", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_means_many_sessions_locks_a_few_of_them() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    let users = (0..20)
        .map(|at| Request::Create(sessiond_store::tests::creation(&format!("u{at:02}"), "main")));
    commit(&fixture, writer, users.collect()).await;
    let bare = |id: &str| {
        let session = SessionRef::bare(SessionId::new("main").unwrap());
        Request::Append(Append { session, ..one("main", id, &[("user:k", "1")]) })
    };
    // The row of one of them is locked by another.
    let connection = fixture.shared.connect().await.unwrap();
    connection.begin().await.unwrap();
    connection.batch("SELECT 1 FROM session WHERE user_id = 'u19' FOR UPDATE").await.unwrap();
    let refused = commit_one(&fixture, writer, bare("1")).await.unwrap_err();
    assert_eq!(refused, Error::AmbiguousSessionId(SessionId::new("main").unwrap()));
    connection.roll_back().await.unwrap();
    // With one left it is found, also in the group that deletes the others.
    let gone = (1..20).map(|at| {
        let user_id = UserId::new(format!("u{at:02}")).unwrap();
        Request::Delete(SessionKey { user_id, ..address("main") }.into())
    });
    let answers = commit(&fixture, writer, gone.chain([bare("1")]).collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// Of 600 sessions of one id a group keeps a few for each caller, and finds the last one for the caller that sees no other.
#[tokio::test(flavor = "multi_thread")]
async fn callers_that_see_different_sessions_of_an_id_share_a_group() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    let users = (0..600).map(|at| format!("u{at:03}")).chain(["zoe".to_owned()]);
    let creations =
        users.map(|user| Request::Create(sessiond_store::tests::creation(&user, "main")));
    commit(&fixture, writer, creations.collect()).await;
    let id = SessionId::new("main").unwrap();
    let bare = |sight: Visibility, event: &str| {
        let session = SessionRef::Bare(SessionId::new("main").unwrap(), sight);
        Request::Append(Append { session, ..one("main", event, &[]) })
    };
    let sights = [Visibility::EVERYTHING, sight_of("zoe"), sight_of("u007"), sight_of("nobody")];
    let requests: Vec<Request> = sights.into_iter().map(|sight| bare(sight, "1")).collect();
    let needs: Vec<_> = requests.iter().map(needs).collect();
    writer.load(&needs).await.unwrap();
    let kept = writer.loaded().sessions.len();
    writer.roll_back(false).await;
    assert!(kept <= 10, "{kept}");
    let answers = commit(&fixture, writer, requests).await;
    let ambiguous = Error::AmbiguousSessionId(id.clone());
    assert_eq!(answers[0].as_ref().unwrap_err(), &ambiguous);
    assert!(answers[1].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(answers[3].as_ref().unwrap_err(), &Error::not_found_bare(&id));
    // Those that have expired do not count. They give way to those that live longer.
    let connection = fixture.shared.connect().await.unwrap();
    let expire = "UPDATE session SET expire_secs = 50, expire_nanos = 0 WHERE user_id < 'u599'";
    connection.batch(expire).await.unwrap();
    fixture.set_clock(49);
    let answer = commit_one(&fixture, writer, bare(Visibility::EVERYTHING, "2")).await;
    assert_eq!(answer.unwrap_err(), ambiguous);
    fixture.set_clock(50);
    let answer = commit_one(&fixture, writer, bare(Visibility::EVERYTHING, "2")).await;
    assert_eq!(answer.unwrap_err(), ambiguous, "two of them live");
    let delete = Request::Delete(sessiond_store::tests::of_user("u599", "main").into());
    let answers = commit(&fixture, writer, vec![delete, bare(Visibility::EVERYTHING, "3")]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_takes_as_many_statements_whatever_its_size() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = fixture.writer();
    let names: Vec<String> = (0..40).map(|at| format!("s{at}")).collect();
    let creations = names.iter().map(|name| Request::Create(creation(name))).collect();
    commit(&fixture, &mut writer, creations).await;
    let statements = &fixture.shared.options.metrics.postgres().statements;
    let mut counts = Vec::new();
    // The first one prepares the statements. Together they stay below the 64 versions after which a snapshot is written.
    for (round, size) in [40, 2, 20].into_iter().enumerate() {
        let set = [("k", "1"), ("app:a", "1"), ("user:u", "1")];
        let append = |name: &String| Request::Append(one(name, &round.to_string(), &set));
        let before = statements.get();
        let group = names[..size].iter().map(append).collect();
        let answers = commit(&fixture, &mut writer, group).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        counts.push(statements.get() - before);
    }
    assert!(counts[1] > 0 && counts[1] == counts[2], "{counts:?}");
}
