//! Several requests in one transaction: each sees what those before it did.

use super::*;
use sessiond_core::{
    commit::SessionUpdate,
    domain::{
        permission::{Listed, Permissions, Right, Visibility},
        session::Expiration,
    },
};

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
fn a_bare_id_of_a_caller_without_rights_is_not_looked_up() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    let nothing = Listed { principal: "jwt:nobody".to_owned(), permissions: Vec::new() };
    let nothing = Permissions::Listed(Arc::new(nothing));
    let with = |permissions, id: &str| {
        let sight = Visibility::new(permissions, Right::Write, false);
        let session = SessionRef::Bare(SessionId::new("s").unwrap(), sight);
        Request::Append(Append { session, ..one("s", id, &[]) })
    };
    let id = SessionId::new("s").unwrap();
    let group = vec![with(nothing.clone(), "1")];
    assert_eq!(sequence(&execute(&mut writer, group).0[0]), Err(Error::not_found_bare(&id)));
    assert!(writer.loaded.bare.is_empty());
    // The others of the group find it.
    let group = vec![with(nothing, "1"), with(Permissions::Everything, "2")];
    let answers = execute(&mut writer, group).0;
    assert_eq!(sequence(&answers[0]), Err(Error::not_found_bare(&id)));
    assert_eq!(sequence(&answers[1]), Ok(1));
}

/// 300 sessions of one id, and one more of the user `zoe` behind them.
fn many_of_one_id(direct: &DirectWriter) {
    let users = (0..300).map(|at| format!("u{at:03}")).chain(["zoe".to_owned()]);
    let requests = users.map(|user| Request::Create(creation(&user, "main")));
    execute(&mut direct.writer(), requests.collect());
}

fn by_id(sight: &Visibility, event_id: &str) -> Request {
    let session = SessionRef::Bare(SessionId::new("main").unwrap(), sight.clone());
    Request::Append(Append { session, ..one("main", event_id, &[]) })
}

#[test]
fn an_id_that_means_many_sessions_loads_a_few_of_them() {
    let (_folder, direct) = direct();
    many_of_one_id(&direct);
    let id = SessionId::new("main").unwrap();
    let callers = [
        (Visibility::EVERYTHING, Err(Error::AmbiguousSessionId(id.clone()))),
        (sight_of("zoe"), Ok(1)),
        (sight_of("u007"), Ok(1)),
        (sight_of("nobody"), Err(Error::not_found_bare(&id))),
    ];
    // All of them are in one group, in either order.
    for is_reversed in [false, true] {
        let mut callers = callers.clone().to_vec();
        if is_reversed {
            callers.reverse();
        }
        let mut writer = direct.writer();
        let requests = callers.iter().map(|(sight, _)| by_id(sight, "1"));
        let (answers, groups) = execute(&mut writer, requests.collect());
        let answered: Vec<_> = answers.iter().map(sequence).collect();
        let expected: Vec<_> = callers.into_iter().map(|(_, answer)| answer).collect();
        assert_eq!((answered, groups), (expected, 1));
        let (sessions, addresses) = (writer.loaded.sessions.len(), writer.loaded.addresses.len());
        assert!(sessions <= 10 && addresses <= 10, "{sessions} {addresses}");
    }
}

#[test]
fn an_id_that_means_many_sessions_is_looked_up_again_when_the_few_are_gone() {
    let (_folder, direct) = direct();
    many_of_one_id(&direct);
    let mut writer = direct.writer();
    let gone = |user: u64| Request::Delete(of_user(&format!("u{user:03}"), "main").into());
    let ask = || by_id(&Visibility::EVERYTHING, "1");
    let requests = (0..150).map(gone).chain([ask()]).chain((150..300).map(gone)).chain([ask()]);
    let (answers, groups) = execute(&mut writer, requests.collect());
    let ambiguous = Error::AmbiguousSessionId(SessionId::new("main").unwrap());
    assert_eq!(sequence(&answers[150]), Err(ambiguous));
    assert_eq!((sequence(&answers[301]), groups), (Ok(1), 3));
}

#[test]
fn expired_sessions_of_an_id_are_not_loaded() {
    let (folder, clock) = (TempDir::new().unwrap(), TestClock::new(1));
    let direct = DirectWriter::open(folder.path(), &clock);
    many_of_one_id(&direct);
    let expiration = Some(Some(Expiration::At(at(50))));
    let update = |user| {
        let key = of_user(&format!("u{user:03}"), "main");
        Request::Update(SessionUpdate {
            key,
            display_name: None,
            labels: None,
            expiration,
            precondition: Default::default(),
        })
    };
    execute(&mut direct.writer(), (0..300).map(update).collect());
    clock.set(100);
    let mut writer = direct.writer();
    assert_eq!(sequence(&execute_one(&mut writer, by_id(&Visibility::EVERYTHING, "1"))), Ok(1));
    assert_eq!(writer.loaded.sessions.len(), 1);
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
