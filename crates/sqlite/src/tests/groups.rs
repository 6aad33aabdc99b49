//! Several requests in one transaction: each sees what those before it did.

use super::*;

fn direct() -> (TempDir, DirectWriter) {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    (folder, direct)
}

fn sequences(answers: &[Result<Answer, Error>]) -> Vec<u64> {
    let appended = answers.iter().filter(|answer| matches!(answer, Ok(Answer::Appended(_))));
    appended.map(|answer| sequence(answer).unwrap()).collect()
}

#[test]
fn a_group_may_create_a_session_and_write_to_it() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    let (answers, groups) = execute(
        &mut writer,
        vec![
            Request::Create(creation("u", "s")),
            Request::Append(one("s", "1", &[("k", "1"), ("user:k", "1"), ("app:k", "1")])),
            Request::Append(one("s", "1", &[])),
            Request::Append(Append { return_state: true, ..one("s", "2", &[("k", "2")]) }),
        ],
    );
    assert_eq!((sequences(&answers), groups), (vec![1, 1, 2], 1));
    let Ok(Answer::Appended(last)) = &answers[3] else { panic!("{answers:?}") };
    let state = last.state.as_ref().unwrap();
    assert_eq!(shown(state), ["app:k=1@1", "user:k=1@1", "k=2@2"]);
}

/// A rewind to an event of its own group is loaded again, and what came behind it comes behind it.
#[test]
fn a_request_that_is_loaded_again_keeps_its_place() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    execute_one(&mut writer, Request::Append(one("s", "1", &[("k", "1")]))).unwrap();
    let (answers, groups) = execute(
        &mut writer,
        vec![
            Request::Append(one("s", "2", &[("k", "2")])),
            Request::Rewind(rewind("s", 2)),
            Request::Append(Append { return_state: true, ..one("s", "3", &[("l", "3")]) }),
        ],
    );
    assert_eq!((sequences(&answers), groups), (vec![2, 3, 4], 2));
    let Ok(Answer::Appended(last)) = &answers[2] else { panic!("{answers:?}") };
    assert_eq!(shown(last.state.as_ref().unwrap()), ["k=2@2", "l=3@4"]);
}

#[test]
fn an_update_without_a_session_keeps_the_version_of_the_application() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    let app = || Scope::Application(AppName::new("a").unwrap());
    for version in 1..=3 {
        let updates = [
            Request::UpdateState(change(app(), delta(&[("app:k", "1")]))),
            Request::UpdateState(change(user_scope("u"), delta(&[("user:k", "1")]))),
        ];
        let (answers, _) = execute(&mut writer, updates.into());
        let Ok(Answer::StateUpdated(updated)) = &answers[1] else { panic!("{answers:?}") };
        let expected = [format!("app:k=1@{version}"), format!("user:k=1@{version}")];
        assert_eq!(shown(&updated.state), expected);
    }
}

#[test]
fn an_address_is_free_within_the_group_that_deletes_its_session() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    let delete = || Request::Delete(address("s").into());
    let create = || Request::Create(creation("u", "s"));
    let (answers, _) = execute(
        &mut writer,
        vec![
            create(),
            Request::Append(one("s", "1", &[("k", "1")])),
            delete(),
            create(),
            Request::Append(one("s", "1", &[])),
        ],
    );
    assert_eq!(sequences(&answers), [1, 1]);
    // In the tables, too: a writer without a cache finds the second one.
    let mut other = direct.writer();
    let again = execute_one(&mut other, Request::Append(one("s", "2", &[])));
    assert_eq!(sequence(&again), Ok(2));
    let count = "SELECT count(*) FROM session";
    let sessions: i64 = direct.connection.query_row(count, (), |row| row.get(0)).unwrap();
    assert_eq!(sessions, 1);
}
