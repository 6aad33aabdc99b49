//! Metrics of the file.

use super::{super::checkpoint::Checkpoints, *};
use sessiond_core::domain::session::Expiration;
use sessiond_metrics::CheckpointThread;

#[tokio::test]
async fn expired_sessions_are_counted_until_they_are_swept() {
    let fixture = Fixture::new().await;
    let metrics = Arc::clone(&fixture.options.metrics);
    let waiting = async || {
        metrics.scrape().await.unwrap();
        metrics.reads.expired_sessions.get()
    };
    let expiration = Some(Expiration::At(at(10)));
    for id in ["a", "b"] {
        let creation = CreateSession { expiration, ..creation("u", id) };
        fixture.store().create_session(&call(), creation).await.unwrap();
    }
    fixture.clock.set(9);
    assert_eq!(waiting().await, 0);
    fixture.clock.set(10);
    assert_eq!(waiting().await, 2);
    fixture.sweep().await;
    assert_eq!(waiting().await, 0);
    let pages = fixture.count("PRAGMA page_count");
    assert_eq!(metrics.reads.store_bytes.get(), pages * 4096);
}

#[test]
fn what_is_not_in_the_database_is_measured_after_commits_and_checkpoints() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    let metrics = direct.options.metrics.sqlite();
    let mut checkpoints = Checkpoints::new(Arc::clone(&direct.lock), &direct.options);
    checkpoints.after_commit(&writer.tables);
    let logged = metrics.log_bytes.get();
    assert!(logged > 4096 && metrics.uncheckpointed_bytes.get() == logged);
    checkpoints.at_once(&writer.tables);
    assert_eq!((metrics.log_bytes.get(), metrics.uncheckpointed_bytes.get()), (logged, 0));
    assert_eq!(metrics.checkpoint(CheckpointThread::Writer).get_sample_count(), 1);
}

#[test]
fn a_long_wal_is_moved_by_the_checkpointer_or_else_by_the_writer() {
    for checkpointer in [true, false] {
        let folder = TempDir::new().unwrap();
        let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
        let writer = direct.writer();
        let options = SqliteOptions { checkpointer, ..direct.options.clone() };
        let mut checkpoints = Checkpoints::new(Arc::clone(&direct.lock), &options);
        lengthen_wal(&writer.tables.0);
        checkpoints.after_commit(&writer.tables);
        let metrics = direct.options.metrics.sqlite();
        let by_writer = metrics.checkpoint(CheckpointThread::Writer).get_sample_count();
        assert_eq!(by_writer, u64::from(!checkpointer));
        checkpoints.close(&writer.tables);
        let by_checkpointer = metrics.checkpoint(CheckpointThread::Checkpointer);
        assert_eq!(by_checkpointer.get_sample_count(), u64::from(checkpointer));
        assert_eq!(metrics.uncheckpointed_bytes.get(), 0);
    }
}

#[tokio::test]
async fn appends_for_which_the_disk_has_no_space_have_failed() {
    let metrics = Metrics::default();
    let requests = [Request::Append(one("s", "1", &[])), Request::Delete(address("s").into())];
    let (mut group, mut answers) = submissions(requests);
    assert_eq!(group::refuse_without_space(&metrics.writes, &mut group), 1);
    assert!(matches!(group[..], [Submission { request: Request::Delete(_), .. }]));
    assert!(matches!(answers[0].try_recv(), Ok(Err(Error::DiskFull))));
    let text = metrics.scrape().await.unwrap();
    assert!(text.contains("sessiond_appends_total{outcome=\"failed\"} 1\n"), "{text}");
}
