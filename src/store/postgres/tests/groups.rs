//! Groups whose decisions reach more than was locked for them.

use super::*;

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
        Request::Delete(address("s")),
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
        .map(|at| Request::Create(crate::store::tests::creation(&format!("u{at:02}"), "main")));
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
        Request::Delete(SessionKey { user_id, ..address("main") })
    });
    let answers = commit(&fixture, writer, gone.chain([bare("1")]).collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}
