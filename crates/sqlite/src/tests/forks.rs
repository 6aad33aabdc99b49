//! Events that are copied, a piece at a time.

use super::{
    leftovers::{fill, rows_left, sweep},
    *,
};

#[tokio::test]
async fn a_fork_takes_over_what_its_own_group_appended() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    fixture.append("s", "1", &[("k", "1")]).await;
    fixture.store.close().await;
    {
        let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
        let mut writer = direct.writer();
        let group = vec![
            Request::Append(one("s", "2", &[("k", "2")])),
            Request::Fork(fork_of("s", "t", None)),
        ];
        let fork = fork_begun(execute(&mut writer, group).0.remove(1));
        assert_eq!(fork.up_to, 2);
        copy_all(&mut writer, &fork);
        // Another append of the last group is not the fork's.
        let group = vec![Request::Append(one("s", "3", &[("k", "3")])), Request::FinishFork(fork)];
        let (info, state) = forked(execute(&mut writer, group).0.remove(1)).unwrap();
        assert_eq!(info.last_sequence, 2);
        assert_eq!(shown(&state), ["k=2@2"]);
    }
    fixture.reopen().await;
    assert_eq!(fixture.state("t", Some(1)).await, ["k=1@1"]);
    assert_eq!(fixture.state("t", None).await, ["k=2@2"]);
}

#[tokio::test]
async fn a_fork_of_a_long_log_is_its_equal() {
    let mut fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    let (info, _) = fixture.store().fork_session(&call(), fork_of("s", "t", None)).await.unwrap();
    assert_eq!(info.last_sequence, 5201);
    for _ in 0..2 {
        for sequence in
            [0, 1, 63, 64, 255, 256, 257, 700, 1023, 1024, 4095, 4096, 4097, 5184, 5200, 5201]
        {
            let of_s = fixture.state("s", Some(sequence)).await;
            let of_t = fixture.state("t", Some(sequence)).await;
            assert_eq!(of_s, of_t, "as of {sequence}");
        }
        assert_eq!(fixture.state("s", None).await, fixture.state("t", None).await);
        let (of_s, of_t) = (fixture.events("s").await, fixture.events("t").await);
        assert_eq!(of_s.events.len(), 700);
        assert_eq!(of_s, of_t);
        fixture.reopen().await;
    }
    for id in ["00000", "00600", "01023", "04095", "04096", "05119", "05190"] {
        let replay = fixture.append("t", id, &[]).await;
        assert!(replay.events[0].replayed, "{id}");
    }
    assert_eq!(fixture.append("t", "z", &[]).await.info.last_sequence, 5202);
}

#[tokio::test]
async fn a_fork_whose_source_goes_meanwhile_is_refused_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let mut writer = direct.writer();
    let fork = begin(&mut writer, "s", "t");
    let after = copy(&mut writer, &fork, 0).unwrap();
    // The sweep spares what is being copied.
    assert!(matches!(execute_one(&mut writer, Request::Sweep), Ok(Answer::Swept(false))));
    let delete = Request::Delete(address("s").into());
    assert!(matches!(execute_one(&mut writer, delete), Ok(Answer::Deleted(Some(_)))));
    assert_eq!(copy(&mut writer, &fork, after), Err(Error::not_found(&address("s"))));
    let finish = Request::FinishFork(fork);
    let refused = forked(execute_one(&mut writer, finish));
    assert_eq!(refused.unwrap_err(), Error::not_found(&address("s")));
    fixture.clock.set(5000);
    sweep(&mut writer);
    assert_eq!(rows_left(&direct.connection), []);
}

#[tokio::test]
async fn a_fork_that_a_crash_cut_off_is_swept_after_its_lease() {
    let mut fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    fixture.clock.set(100);
    {
        let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
        let mut writer = direct.writer();
        let fork = begin(&mut writer, "s", "t");
        assert_eq!(copy(&mut writer, &fork, 0), Ok(256));
    }
    let copied = "SELECT count(*) FROM event WHERE session IN (SELECT id FROM tombstone)";
    assert_eq!(fixture.count(copied), 256);
    fixture.reopen().await;
    assert!(fixture.store.read_session(query("t")).await.is_err());
    fixture.clock.set(159);
    assert!(!fixture.store().sweep().await.unwrap());
    assert_eq!(fixture.count(copied), 256);
    fixture.clock.set(160);
    fixture.sweep().await;
    assert_eq!(fixture.count("SELECT count(*) FROM tombstone"), 0);
    fixture.delete("s").await;
    fixture.sweep().await;
    fixture.store.close().await;
    assert_eq!(rows_left(&fixture.tables()), []);
}

/// Between two pieces the process may have been suspended for longer than the lease.
#[tokio::test]
async fn a_fork_that_the_sweep_has_touched_is_refused() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let mut writer = direct.writer();
    let lost = Err(Error::StoreUnavailable(Cause::new("any")));
    for is_swept_whole in [false, true] {
        let fork = begin(&mut writer, "s", "t");
        let after = copy(&mut writer, &fork, 0).unwrap();
        fixture.clock.set(fixture.clock.now().secs() + 61);
        execute_one(&mut writer, Request::Sweep).unwrap();
        if is_swept_whole {
            sweep(&mut writer);
        }
        assert_eq!(copy(&mut writer, &fork, after), lost);
        let finish = Request::FinishFork(fork);
        let refused = forked(execute_one(&mut writer, finish));
        assert_eq!(refused.map(|_| 0), lost.clone().map(|_: u64| 0));
    }
    // One that paused for longer is refused also where no sweep has come yet, and with the sweep in its group.
    let fork = begin(&mut writer, "s", "t");
    copy_all(&mut writer, &fork);
    fixture.clock.set(fixture.clock.now().secs() + 61);
    let group = vec![Request::FinishFork(fork), Request::Sweep];
    let refused = forked(execute(&mut writer, group).0.remove(0));
    assert_eq!(refused.map(|_| 0), lost.map(|_: u64| 0));
    sweep(&mut writer);
    let of_t = "SELECT count(*) FROM event WHERE session NOT IN (SELECT id FROM session)";
    let events: i64 = direct.connection.query_row(of_t, (), |row| row.get(0)).unwrap();
    assert_eq!(events, 0);
}

#[tokio::test]
async fn a_fork_that_is_deleted_by_the_group_that_finishes_it_leaves_nothing() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let mut writer = direct.writer();
    let fork = begin(&mut writer, "s", "t");
    copy_all(&mut writer, &fork);
    let delete = |session| Request::Delete(address(session).into());
    let group = vec![Request::FinishFork(fork), delete("t"), delete("s")];
    let answers = execute(&mut writer, group).0;
    assert!(matches!(answers[1], Ok(Answer::Deleted(Some(_)))), "{:?}", answers[1]);
    sweep(&mut writer);
    assert_eq!(rows_left(&direct.connection), []);
}

fn begin(writer: &mut Writer, source: &str, target: &str) -> Fork {
    fork_begun(execute_one(writer, Request::Fork(fork_of(source, target, None))))
}

fn fork_begun(answer: Result<Answer, Error>) -> Fork {
    match answer {
        Ok(Answer::ForkBegun(fork)) => fork,
        other => panic!("{other:?}"),
    }
}

/// Copies one piece. The last event that is copied then.
fn copy(writer: &mut Writer, fork: &Fork, after: u64) -> Result<u64, Error> {
    match execute_one(writer, Request::CopyEvents(fork.clone(), after))? {
        Answer::Copied(up_to) => Ok(up_to),
        other => panic!("{other:?}"),
    }
}

fn copy_all(writer: &mut Writer, fork: &Fork) {
    let mut after = 0;
    while after < fork.up_to {
        after = copy(writer, fork, after).unwrap();
    }
}

fn forked(answer: Result<Answer, Error>) -> Result<(SessionInfo, State), Error> {
    match answer? {
        Answer::Forked(forked) => Ok(forked),
        other => panic!("{other:?}"),
    }
}
