//! Failures of the disk, of a commit and of the code: callers get an error, and the store goes on.

use std::{
    collections::VecDeque,
    fs::{self, File},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use tokio::time::timeout;

use super::{
    super::{checkpoint::Checkpoints, connection::Tables, readers::Readers},
    *,
};
use sessiond_core::commit::{ChangeSet, ReadSet, WorkingSet};
use sessiond_metrics::CheckpointThread;
use sessiond_store::{CallerId, Condition};

fn append(id: &str, value: &str) -> Request {
    Request::Append(one("s", id, &[("k", value), ("app:k", value)]))
}

#[test]
fn a_full_disk_refuses_the_group_and_space_heals_it() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    assert_eq!(sequence(&execute_one(&mut writer, append("1", "1"))), Ok(1));

    let pages: i64 =
        direct.connection.query_row("PRAGMA page_count", (), |row| row.get(0)).unwrap();
    let limit = |writer: &Writer, pages: i64| {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        writer.tables.0.query_row(&pragma, (), |_| Ok(())).unwrap();
    };
    limit(&writer, pages);
    let large = format!("\"{}\"", "x".repeat(100_000));
    let group = vec![append("2", "2"), append("3", &large), append("4", "4")];
    for answer in execute(&mut writer, group).0 {
        assert_eq!(sequence(&answer), Err(Error::DiskFull));
    }
    assert!(writer.tables.0.is_autocommit());

    limit(&writer, 1_000_000);
    assert_eq!(sequence(&execute_one(&mut writer, append("2", "2"))), Ok(2));
    // The versions of the application go on where the last commit left them.
    let version = "SELECT max(version) FROM scope_log";
    let version: i64 = direct.connection.query_row(version, (), |row| row.get(0)).unwrap();
    assert_eq!(version, 2);
}

#[test]
fn the_outcome_of_a_failed_commit_is_unknown() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let fails = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&fails);
    let mut writer = direct.writer_with(move || hook.load(Ordering::SeqCst));
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    fails.store(true, Ordering::SeqCst);
    let answer = execute_one(&mut writer, append("1", "1"));
    assert_eq!(sequence(&answer), Err(Error::OutcomeUnknown(Cause::new("any"))));
    assert!(writer.broken, "the connection is to be replaced");
}

#[test]
fn a_commit_into_a_file_that_is_lost_meanwhile_is_not_acknowledged() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let (path, moved) = (direct.options.path.clone(), folder.path().join("moved.db"));
    let moves = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&moves);
    let mut writer = direct.writer_with(move || {
        if hook.swap(false, Ordering::SeqCst) {
            std::fs::rename(&path, &moved).unwrap();
        }
        false
    });
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    moves.store(true, Ordering::SeqCst);
    let answer = execute_one(&mut writer, append("1", "1"));
    assert_eq!(sequence(&answer), Err(Error::OutcomeUnknown(Cause::new("any"))));
    assert_eq!(sequence(&execute_one(&mut writer, append("2", "2"))), Err(Error::FileLost));
}

#[test]
fn a_folder_that_is_moved_is_a_lost_file() {
    for (moved, copied) in [("above/own", false), ("above", false), ("above", true)] {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("above/own")).unwrap();
        let direct = DirectWriter::open(&folder.path().join("above/own"), &TestClock::new(1));
        let mut writer = direct.writer();
        execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
        fs::rename(folder.path().join(moved), folder.path().join("elsewhere")).unwrap();
        if copied {
            let own = folder.path().join("above/own");
            fs::create_dir_all(&own).unwrap();
            fs::copy(folder.path().join("elsewhere/own/test.db"), own.join("test.db")).unwrap();
            assert_eq!(direct.lock.connect().err(), Some(Error::FileLost));
        }
        let answer = execute_one(&mut writer, append("1", "1"));
        assert_eq!(sequence(&answer), Err(Error::FileLost), "{moved}");
    }
}

#[tokio::test]
async fn after_a_failed_flush_of_the_database_nothing_is_committed_and_the_wal_has_everything() {
    let folder = TempDir::new().unwrap();
    let mut direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    // A file that cannot be flushed.
    Arc::get_mut(&mut direct.lock).unwrap().database = File::open("/dev/null").unwrap();
    let queue = Arc::new(direct.queue());
    let mut writer = direct.writer_of(Arc::clone(&queue));
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    assert_eq!(sequence(&execute_one(&mut writer, append("1", "1"))), Ok(1));
    let metrics = &direct.options.metrics;
    let (readers, threads) = Readers::start(&direct.lock, 1, &metrics.reads).unwrap();
    assert_eq!(readers.read(|_| Ok(())).await, Ok(()));
    let path = direct.options.path.clone();
    let before = fs::read(&path).unwrap();

    let mut checkpoints = Checkpoints::new(Arc::clone(&direct.lock), &direct.options);
    lengthen_wal(&writer.tables.0);
    checkpoints.after_commit(&writer.tables);
    // Waits for the checkpointer.
    checkpoints.at_once(&writer.tables);
    assert_eq!(*direct.lock.condition.borrow(), Condition::FileLost);
    assert!(!checkpoints.empty(&writer.tables));
    let by_writer = metrics.sqlite().checkpoint(CheckpointThread::Writer);
    assert_eq!(by_writer.get_sample_count(), 0);
    assert_eq!(readers.read(|_| Ok(())).await, Err(Error::FileLost));

    // Whatever a writer does now, it adds nothing to the WAL, and leaves it.
    let (group, answers) = submissions([append("2", "2"), Request::Sweep]);
    group.into_iter().for_each(|submission| queue.push(CallerId::INTERNAL, submission, 0).unwrap());
    queue.close();
    readers.close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop((direct, checkpoints, readers));
    writer.run();
    for mut answer in answers {
        assert_eq!(answer.try_recv().unwrap().err(), Some(Error::FileLost));
    }
    // The disk has lost what was moved.
    assert_ne!(fs::read(&path).unwrap(), before);
    fs::write(&path, before).unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    assert_eq!(sequence(&execute_one(&mut writer, append("2", "2"))), Ok(2));
}

/// A writer whose n-th decision panics.
struct PanickingWriter<'w> {
    writer: &'w mut Writer,
    decisions: usize,
}

impl group::Backend for PanickingWriter<'_> {
    fn loaded(&mut self) -> &mut WorkingSet {
        self.decisions = self.decisions.wrapping_sub(1);
        assert_ne!(self.decisions, 0, "a defect");
        self.writer.loaded()
    }

    async fn load(&mut self, needs: &[ReadSet<'_>]) -> Result<usize, group::Failure> {
        self.writer.load(needs).await
    }

    async fn commit(&mut self, changes: &ChangeSet) -> Result<Option<Instant>, group::Failure> {
        self.writer.commit(changes).await
    }

    async fn roll_back(&mut self, changed: bool) {
        self.writer.roll_back(changed).await;
    }
}

#[test]
fn a_decision_that_panics_refuses_what_came_before_it_and_not_what_follows() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    let (mut group, mut answers) = submissions(["1", "2", "3"].map(|id| append(id, id)));
    let mut panicking = PanickingWriter { writer: &mut writer, decisions: 2 };
    let failed = execute_group(&mut panicking, &mut group);
    assert!(matches!(failed, Err(Error::Internal(_))));
    assert!(matches!(answers[0].try_recv().unwrap(), Err(Error::StoreUnavailable(_))));
    assert!(matches!(answers[1].try_recv().unwrap(), Err(Error::Internal(_))));
    assert_eq!(group.len(), 1);
    assert_eq!(execute_group(&mut panicking, &mut group), Ok(()));
    assert_eq!(sequence(&answers[2].try_recv().unwrap()), Ok(1));
}

/// A writer whose first commits fail, each with an error of its own.
struct FailingWriter<'w> {
    writer: &'w mut Writer,
    errors: VecDeque<Option<Error>>,
}

impl group::Backend for FailingWriter<'_> {
    fn loaded(&mut self) -> &mut WorkingSet {
        self.writer.loaded()
    }

    async fn load(&mut self, needs: &[ReadSet<'_>]) -> Result<usize, group::Failure> {
        self.writer.load(needs).await
    }

    async fn commit(&mut self, changes: &ChangeSet) -> Result<Option<Instant>, group::Failure> {
        match self.errors.pop_front().flatten() {
            Some(error) => Err(error.into()),
            None => self.writer.commit(changes).await,
        }
    }

    async fn roll_back(&mut self, changed: bool) {
        self.writer.roll_back(changed).await;
    }
}

#[test]
fn damage_costs_its_request_alone_and_another_failure_leaves_those_behind_it() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    let damaged = || Some(Error::damaged(Damage::Pages, "a page"));
    // The group's, and then those of its requests.
    let errors = [damaged(), None, damaged(), None, Some(Error::DiskFull)];
    let mut failing = FailingWriter { writer: &mut writer, errors: errors.into() };
    let (mut group, mut answers) = submissions(["1", "2", "3", "4", "5"].map(|id| append(id, id)));
    assert_eq!(execute_group(&mut failing, &mut group), Err(Error::DiskFull));
    assert_eq!(sequence(&answers[0].try_recv().unwrap()), Ok(1));
    assert!(matches!(answers[1].try_recv().unwrap(), Err(Error::Damaged(..))));
    assert_eq!(sequence(&answers[2].try_recv().unwrap()), Ok(2));
    assert_eq!(sequence(&answers[3].try_recv().unwrap()), Err(Error::DiskFull));
    assert_eq!(group.len(), 1);
    assert_eq!(execute_group(&mut failing, &mut group), Ok(()));
    assert_eq!(sequence(&answers[4].try_recv().unwrap()), Ok(3));
}

/// A clock that panics when it is asked for the n-th time.
#[derive(Debug, Default)]
struct PanickingClock(AtomicUsize);

impl Clock for PanickingClock {
    fn now(&self) -> Time {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
        assert_ne!(left, 1, "a defect");
        at(1)
    }
}

#[tokio::test]
async fn the_writer_outlives_a_panic_before_and_after_a_group() {
    // Without a cache the clock is asked before a group, in it and after it.
    for (asked, is_answered) in [(1, false), (3, true)] {
        let clock = Arc::new(PanickingClock::default());
        let cloned = Arc::clone(&clock);
        let options = |options| SqliteOptions { clock: cloned, cache_bytes: 0, ..options };
        let fixture = Fixture::with(options).await;
        clock.0.store(asked, Ordering::SeqCst);
        let first = fixture.store().create_session(&call(), creation("u", "1")).await;
        assert_eq!(first.is_ok(), is_answered, "{first:?}");
        let context = call();
        let second = fixture.store().create_session(&context, creation("u", "2"));
        let second = timeout(Duration::from_secs(60), second).await.expect("the writer has ended");
        assert!(second.is_ok(), "{second:?}");
        assert!(clock.0.load(Ordering::SeqCst) == 0, "it has panicked");
    }
}

#[tokio::test]
async fn a_statement_that_fails_costs_its_group_alone() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let trigger = "CREATE TRIGGER fails BEFORE INSERT ON event WHEN NEW.event_id = 'bad'
        BEGIN SELECT RAISE(ABORT, 'a defect'); END";
    fixture.tables().execute_batch(trigger).unwrap();
    let failed = fixture.store().append(&call(), one("s", "bad", &[("k", "1")])).await;
    assert_eq!(failed.unwrap_err(), Error::StoreUnavailable(Cause::new("any")));
    assert_eq!(fixture.append("s", "good", &[("k", "2")]).await.info.last_sequence, 1);
    assert_eq!(fixture.state("s", None).await, ["k=2@1"]);
}

#[tokio::test]
async fn a_read_that_panics_costs_its_caller_alone() {
    let fixture = Fixture::with(|options| SqliteOptions { readers: 1, ..options }).await;
    fixture.create("u", "s").await;
    let read = fixture.store.readers.read(|_| -> Result<(), Error> { panic!("a defect") });
    assert!(matches!(read.await, Err(Error::Internal(_))));
    assert_eq!(fixture.store.read_session(query("s")).await.unwrap().info.last_sequence, 0);
}

#[tokio::test]
async fn a_full_queue_says_so_at_once() {
    let fixture = Fixture::with(|options| SqliteOptions { queue_requests: 1, ..options }).await;
    fixture.create("u", "s").await;
    // While another connection writes, the writer holds one group at most and the queue one request.
    let other = fixture.tables();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let context = call();
    let appends =
        (0..10).map(|number| fixture.store().append(&context, one("s", &number.to_string(), &[])));
    let let_go = async { other.execute_batch("COMMIT").unwrap() };
    let (answers, ()) = tokio::join!(biased; futures_util::future::join_all(appends), let_go);
    let stored = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(error, Error::Overloaded { what: Bounded::WriteQueue, .. }), "{error}");
    }
    assert!((1..=2).contains(&stored), "{stored}");
    let info = fixture.store.read_session(query("s")).await.unwrap().info;
    assert_eq!(info.last_sequence, stored);
}

/// A page of a mapped file that the disk cannot read ends the process.
#[test]
fn readers_do_not_map_the_file() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let reader = Tables::reader(&direct.options.path).unwrap();
    let mapped: i64 = reader.0.query_row("PRAGMA mmap_size", (), |row| row.get(0)).unwrap();
    assert_eq!(mapped, 0);
}
