//! Groups of many requests.

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
