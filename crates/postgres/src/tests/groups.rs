//! Groups of many requests.

use sessiond_core::{
    commit::{WorkingSet, read_set},
    domain::event::{Fingerprint, NewEvent},
};
use sessiond_store::group::Backend as _;

use super::*;

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

/// The number of the first requests that fit into a group, and what was loaded of their events: the ids of those that are whole.
async fn load(writer: &mut Writer, requests: &[Request]) -> (usize, Vec<String>) {
    let needs: Vec<_> = requests.iter().map(read_set).collect();
    let count = writer.load(&needs).await.unwrap();
    let loaded: &mut WorkingSet = writer.loaded();
    let stored = loaded.events.iter().filter_map(|((_, id), stored)| Some((id, stored.as_ref()?)));
    let whole = stored.filter(|(_, stored)| stored.event.is_some());
    let mut whole: Vec<String> = whole.map(|(id, _)| id.to_string()).collect();
    whole.sort();
    writer.roll_back(false).await;
    (count, whole)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_loads_as_much_as_it_may_whatever_is_sent() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = fixture.writer();
    let text = format!("\"{}\"", "x".repeat(225_000));
    let keys: Vec<(&str, &str)> = ["a", "b", "c", "d"].map(|name| (name, text.as_str())).into();
    let names: Vec<String> = (0..12).map(|at| format!("s{at}")).collect();
    for name in &names {
        commit_one(&fixture, &mut writer, Request::Create(creation(name))).await.unwrap();
        commit_one(&fixture, &mut writer, Request::Append(one(name, "1", &keys))).await.unwrap();
    }
    let appends = |keys: &[(&str, &str)], return_state| -> Vec<Request> {
        let append = |name| Append { return_state, ..one(name, "2", keys) };
        names.iter().map(|name| Request::Append(append(name))).collect()
    };
    assert_eq!(load(&mut writer, &appends(&[("a", "1")], false)).await.0, 12);
    assert_eq!(load(&mut writer, &appends(&[], true)).await.0, 9);
    // All keys of eleven sessions, and one key of the last one by the first request.
    let mut mixed = appends(&[("a", "1")], false);
    mixed.truncate(1);
    mixed.extend(appends(&[], true).into_iter().rev());
    assert_eq!(load(&mut writer, &mixed).await.0, 9);
    let named = ["a", "b", "c", "d"].map(|name| (name, "1"));
    assert_eq!(load(&mut writer, &appends(&named, false)).await.0, 9);
    // The state as it was, too: the second past is over the bound.
    let rewinds: Vec<Request> = names.iter().map(|name| Request::Rewind(rewind(name, 1))).collect();
    assert_eq!(load(&mut writer, &rewinds).await.0, 9);
    let answers = commit(&fixture, &mut writer, rewinds).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_other_content_are_not_loaded() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = fixture.writer();
    commit_one(&fixture, &mut writer, Request::Create(creation("s"))).await.unwrap();
    let ids: Vec<String> = (0..20).map(|id| format!("{id:02}")).collect();
    let body = json(&format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000)));
    for id in &ids {
        let event = NewEvent { body: Some(body.clone()), ..sessiond_store::tests::event(id, &[]) };
        commit_one(&fixture, &mut writer, Request::Append(batch("s", [event]))).await.unwrap();
    }
    let replay = |ids: &[String], fingerprint| {
        let events =
            ids.iter().map(|id| NewEvent { fingerprint, ..sessiond_store::tests::event(id, &[]) });
        Request::Append(batch("s", events))
    };
    let (other, same) = (Fingerprint(2), Fingerprint(1));
    assert_eq!(load(&mut writer, &[replay(&ids, other)]).await, (1, vec![]));
    assert_eq!(load(&mut writer, &[replay(&ids, same)]).await, (1, ids[..12].to_vec()));
    // Behind the first request, the event ends the group.
    let singles: Vec<Request> =
        ids.iter().map(|id| replay(std::slice::from_ref(id), same)).collect();
    assert_eq!(load(&mut writer, &singles).await, (8, ids[..8].to_vec()));
    let both = [replay(&ids[..1], other), replay(&ids[..1], same)];
    assert_eq!(load(&mut writer, &both).await, (2, ids[..1].to_vec()));
    let answers = commit(
        &fixture,
        &mut writer,
        vec![replay(&ids, other), replay(&ids, same), replay(&ids[..2], same)],
    )
    .await;
    assert!(matches!(answers[0], Err(Error::EventIdReused(_))), "{answers:?}");
    assert!(matches!(answers[1], Err(Error::Invalid(_))), "{answers:?}");
    assert!(
        matches!(&answers[2], Ok(Answer::Appended(replayed)) if replayed.events.iter().all(|it| it.replayed))
    );
}
