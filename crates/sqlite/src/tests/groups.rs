//! Several requests in one transaction: each sees what those before it did.

use sessiond_core::{
    commit::{REPLAY_BYTES, read_set},
    domain::delta::Operation,
};
use sessiond_store::{
    CallerId,
    group::{Backend as _, GROUP_BYTES, put_back},
};

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

/// A list of 240 KB, and batches that append to it.
fn long_list(writer: &mut Writer) {
    execute_one(writer, Request::Create(creation("u", "s"))).unwrap();
    let list = format!("[\"{}\"]", "x".repeat(240_000));
    execute_one(writer, Request::Append(one("s", "0", &[("l", &list)]))).unwrap();
}

fn to_long_list(id: usize) -> Request {
    let append = Operation::ListAppend { values: json("[1]"), max_length: 0 };
    let delta = || Delta { operations: vec![(key("l"), append.clone())], ..Delta::default() };
    Request::Append(batch("s", (0..12).map(|event| event_of(&format!("{id}-{event}"), delta()))))
}

#[test]
fn a_group_ends_when_its_requests_have_worked_enough() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    long_list(&mut writer);
    let (answers, groups) = execute(&mut writer, (0..9).map(to_long_list).collect());
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // Each reads and writes 2.9 MB.
    assert_eq!(groups, 3);
}

/// Sessions of 0.9 MB of state each.
fn large_sessions(direct: &DirectWriter, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|at| format!("s{at}")).collect();
    let text = format!("\"{}\"", "x".repeat(225_000));
    let keys: Vec<(&str, &str)> = ["a", "b", "c", "d"].map(|name| (name, text.as_str())).into();
    for name in &names {
        let mut writer = direct.writer();
        execute_one(&mut writer, Request::Create(creation("u", name))).unwrap();
        execute_one(&mut writer, Request::Append(one(name, "1", &keys))).unwrap();
    }
    names
}

#[tokio::test(start_paused = true)]
async fn a_group_loads_as_much_as_it_may_whatever_is_sent() {
    let (_folder, direct) = direct();
    let names = large_sessions(&direct, 12);
    let rewinds: Vec<Request> = names.iter().map(|name| Request::Rewind(rewind(name, 1))).collect();
    let needs: Vec<_> = rewinds.iter().map(read_set).collect();
    let mut writer = direct.writer();
    // Each loads its state as it is and as it was; the fifth is too much beside others.
    assert_eq!(writer.load(&needs).await.unwrap(), 4);
    assert!(writer.grown + writer.passing < GROUP_BYTES + (2 << 20));
    writer.roll_back(true).await;
    assert_eq!(writer.load(&needs[..1]).await.unwrap(), 1);
}

#[test]
fn events_of_other_content_are_not_loaded() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    let ids: Vec<String> = (0..20).map(|id| id.to_string()).collect();
    let body = json(&format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000)));
    for id in &ids {
        let event = NewEvent { body: Some(body.clone()), ..event(id, &[]) };
        execute_one(&mut writer, Request::Append(batch("s", [event]))).unwrap();
    }
    let mut replay = |ids: &[String], fingerprint| {
        let before = writer.passing;
        let events = ids.iter().map(|id| NewEvent { fingerprint, ..event(id, &[]) });
        let answer = execute_one(&mut writer, Request::Append(batch("s", events)));
        (answer.map(drop), writer.passing - before)
    };
    let (other, same) = (Fingerprint(2), Fingerprint(1));
    let reused = Error::EventIdReused(EventId::new("0").unwrap());
    assert_eq!(replay(&ids, other), (Err(reused), 0));
    let (answer, bytes) = replay(&ids[..3], same);
    assert_eq!((answer, bytes / 1_000_000), (Ok(()), 3));
    let (answer, bytes) = replay(&ids, same);
    assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    assert!(bytes < REPLAY_BYTES + 1_000_000, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn what_a_group_leaves_waits_behind_the_turns_of_others() {
    let (_folder, direct) = direct();
    let mut writer = direct.writer();
    long_list(&mut writer);
    execute_one(&mut writer, Request::Create(creation("u", "t"))).unwrap();
    let queue = direct.queue();
    let mut requests: Vec<Request> = (0..5).map(to_long_list).collect();
    requests.push(Request::Append(one("t", "1", &[])));
    let (submissions, mut answers) = submissions(requests);
    let [heavy, light] = [1, 2].map(|connection| CallerId::new(&call().principal, connection));
    for (at, mut submission) in submissions.into_iter().enumerate() {
        submission.context.caller = if at < 5 { heavy } else { light };
        queue.push(submission.context.caller, submission, 1).unwrap();
    }
    let mut groups = Vec::new();
    while queue.waiting().0 > 0 {
        let mut group = Vec::new();
        queue.take(&mut group, 10, GROUP_BYTES, false);
        execute_group(&mut writer, &mut group).unwrap();
        put_back(&queue, &mut group);
        let answered = answers.iter_mut().map(|answer| answer.try_recv().is_ok());
        groups.push(answered.map(u8::from).collect::<Vec<_>>());
    }
    assert_eq!(groups[0][5], 1, "{groups:?}");
    let order: Vec<usize> =
        groups.iter().flat_map(|group| (0..5).filter(|at| group[*at] == 1)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}
