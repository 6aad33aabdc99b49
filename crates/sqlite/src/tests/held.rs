//! A WAL that a reader of another program needs.

use std::{
    io::{Read as _, Seek as _},
    time::Duration,
};

use super::{
    super::{checkpoint::Checkpoints, connection::LOCK_WAIT},
    *,
};
use sessiond_store::spans;

#[test]
fn a_reader_of_another_program_holds_up_no_writes_and_is_told_once_a_minute() {
    let folder = TempDir::new().unwrap();
    let clock = TestClock::new(1);
    let direct = DirectWriter::open(folder.path(), &clock);
    let writer = direct.writer();
    let mut checkpoints = Checkpoints::new(Arc::clone(&direct.lock), &direct.options);
    checkpoints.max_pages = 4_000;
    let mut file = tempfile::tempfile().unwrap();
    let log = Arc::new(file.try_clone().unwrap());
    let subscriber = tracing_subscriber::fmt().with_writer(log).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut lengthen = |secs| {
        clock.set(secs);
        lengthen_wal(&writer.tables.0);
        checkpoints.after_commit(&writer.tables);
        // The checkpointer works. The WAL is so long that the writer waits for it, and begins the WAL anew.
        let began = spans::now();
        checkpoints.after_commit(&writer.tables);
        began.elapsed()
    };

    let reader = Connection::open(&direct.options.path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session;").unwrap();
    // As long as the work takes. With the wait for other programs' locks it would be longer than that each time.
    let waited: Option<Duration> = [1, 60, 61].map(&mut lengthen).into_iter().min();
    assert!(waited < Some(LOCK_WAIT), "{waited:?}");
    let pages = writer.tables.wal_pages();
    assert!(pages > 12_000, "{pages}");

    reader.execute_batch("COMMIT").unwrap();
    lengthen(130);
    writer.tables.0.execute_batch("PRAGMA user_version = 1").unwrap();
    assert_eq!(writer.tables.wal_pages(), 1);
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("end the backup").count(), 2, "{text}");
}

#[test]
fn checkpoints_that_fail_are_told_once_a_minute_with_their_number() {
    let folder = TempDir::new().unwrap();
    let clock = TestClock::new(1);
    let direct = DirectWriter::open(folder.path(), &clock);
    let mut checkpoints = Checkpoints::new(Arc::clone(&direct.lock), &direct.options);
    let mut file = tempfile::tempfile().unwrap();
    let log = Arc::new(file.try_clone().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // It may not write.
    let reader = Tables::reader(&direct.options.path).unwrap();
    for secs in [1, 5, 60, 61, 130, 131] {
        clock.set(secs);
        checkpoints.at_once(&reader);
    }
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("a checkpoint failed")).collect();
    let told: Vec<_> =
        lines.iter().map(|line| line.split("failures=").nth(1).unwrap().trim()).collect();
    assert_eq!(told, ["1", "3", "1"], "{text}");
}

#[test]
fn a_disk_that_is_full_counts_the_writes_that_it_refuses_from_the_second_on() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut file = tempfile::tempfile().unwrap();
    let log = Arc::new(file.try_clone().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut disk = Disk::new(Arc::clone(&direct.lock), false);
    let (metrics, at) = (Metrics::default(), |secs| Time::new(secs, 0).unwrap());
    assert!(disk.failed(&Error::DiskFull, at(100)));
    let mut told = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut told).unwrap();
    assert!(told.contains("the disk is full") && !told.contains("refused="), "{told}");
    // In the same second nobody looks for space again.
    let (mut group, _answers) = submissions(vec![Request::Create(creation("u", "s"))]);
    disk.admit(&mut group, at(100), &metrics.writes);
    assert!(disk.is_full() && group.is_empty());
    // A minute later, when the next write finds the disk as full as before.
    assert!(disk.failed(&Error::DiskFull, at(160)));
    told.clear();
    file.rewind().unwrap();
    file.read_to_string(&mut told).unwrap();
    assert!(told.contains("refused=1"), "{told}");
}
