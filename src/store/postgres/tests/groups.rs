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
