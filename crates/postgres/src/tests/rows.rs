//! Rows that other rows have to agree with.

use super::*;

/// Count rows of the list, and names, that differ from the sessions.
const DIFFERENCES: [&str; 2] = [
    "SELECT count(*) FROM session s FULL JOIN session_list l ON l.place = s.place AND l.app_name = s.app_name
     AND l.user_id = s.user_id AND l.session_id = s.session_id AND l.period = s.last_event_secs / 10
     WHERE s.incarnation IS NULL OR l.app_name IS NULL OR s.app_name IS NULL",
    "SELECT count(*) FROM session s FULL JOIN session_name n ON n.session_place = s.place
     AND n.app_name = s.app_name AND n.user_id = s.user_id AND n.session_id = s.session_id
     WHERE n.place IS NULL OR s.place IS NULL",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_list_and_the_names_agree_with_the_sessions() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    live(&fixture, writer).await;
    assert_eq!(fixture.count("SELECT count(*) FROM session").await, 3);
    let expiring = "SELECT count(*) FROM session WHERE expire_secs IS NOT NULL";
    assert_eq!(fixture.count(expiring).await, 1);
    for differences in DIFFERENCES {
        assert_eq!(fixture.count(differences).await, 0, "{differences}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_leaves_no_row() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    live(&fixture, writer).await;
    for id in ["s", "t", "fork"] {
        commit_one(&fixture, writer, Request::Delete(address(id).into())).await.unwrap();
    }
    sweep(&fixture, writer).await;
    for table in
        ["session", "session_list", "session_name", "event", "marker", "request", "tombstone"]
    {
        assert_eq!(fixture.count(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    for table in ["state", "snapshot"] {
        let sql = format!("SELECT count(*) FROM {table} WHERE incarnation != 0");
        assert_eq!(fixture.count(&sql).await, 0, "{table}");
    }
    assert_eq!(fixture.count("SELECT count(*) FROM scope").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_takes_many_short_sessions() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    let names: Vec<String> = (0..200).map(|at| format!("s{at}")).collect();
    let create = |name: &String| CreateSession {
        expiration: Some(Expiration::After { secs: 1, nanos: 0 }),
        ..creation(name)
    };
    let creations = names.iter().map(|name| Request::Create(create(name))).collect();
    commit(&fixture, writer, creations).await;
    let append = |name: &String| Request::Append(one(name, "1", &[("k", "1")]));
    commit(&fixture, writer, names.iter().map(append).collect()).await;
    // Too many rows to go with others.
    let keys: Vec<String> = (0..100).map(|key| key.to_string()).collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "1")).collect();
    commit_one(&fixture, writer, Request::Append(one("s7", "2", &keys))).await.unwrap();
    fixture.set_clock(100);
    // One ends them, one removes those with few rows, and some the other one, the user and the application.
    let mut pieces = 0;
    while matches!(commit_one(&fixture, writer, Request::Sweep).await, Ok(Answer::Swept(true))) {
        pieces += 1;
        if pieces == 2 {
            assert!(fixture.count("SELECT count(*) FROM tombstone").await <= 2);
        }
    }
    assert!(pieces < 12, "{pieces}");
    for table in ["event", "state", "snapshot", "tombstone"] {
        assert_eq!(fixture.count(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_taken_at_creation_and_every_64_versions() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    live(&fixture, writer).await;
    // 70 events for `s` and `t`, and the rewind and the removal for `s` and its fork. The user's and the application's versions rise by
    // two with each round.
    let of_sessions = "SELECT count(*) FROM snapshot WHERE incarnation != 0 AND version = $";
    for version in ["0", "64"] {
        let sql = of_sessions.replace('$', version);
        assert_eq!(fixture.count(&sql).await, 3, "{version}");
    }
    let of_user = "SELECT count(*) FROM snapshot WHERE incarnation = 0 AND user_id = 'u'";
    assert_eq!(fixture.count(of_user).await, 2);
    let newest = "SELECT count(*) FROM session WHERE snapshot_version = 64";
    assert_eq!(fixture.count(newest).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_removed_keys_make_snapshots_rare() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    commit_one(&fixture, writer, Request::Create(creation("s"))).await.unwrap();
    // Names that cannot be compressed.
    const PRIME: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let name = |number: u64| format!("{:032x}", u128::from(number).wrapping_mul(PRIME));
    let job = |number: u64| {
        let mut delta = delta(&[(&name(number), "1")]);
        delta.remove.extend((number > 1).then(|| key(&name(number - 1))));
        Request::Append(append("s", &number.to_string(), delta))
    };
    for step in 0..67 {
        let requests = (1..=64).map(|number| job(step * 64 + number));
        commit(&fixture, writer, requests.collect()).await;
    }
    // The second is the first with more than 4,096 bytes of names: 4,096 versions pass until the next.
    let taken = "SELECT count(*) FROM snapshot WHERE version IN (64, 128, 4224)";
    assert_eq!(fixture.count(taken).await, 3);
    assert_eq!(fixture.count("SELECT count(*) FROM snapshot").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_state_has_empty_snapshots() {
    let Some(fixture) = Fixture::new().await else { return };
    let writer = &mut fixture.writer();
    let mut requests = vec![Request::Create(creation("s"))];
    requests.extend((0..65).map(|at| Request::Append(one("s", &at.to_string(), &[]))));
    commit(&fixture, writer, requests).await;
    let sql = "SELECT count(*) FROM snapshot WHERE version = 65 AND key_names = '{}'";
    assert_eq!(fixture.count(sql).await, 1);
}
