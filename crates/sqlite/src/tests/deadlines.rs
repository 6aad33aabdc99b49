//! A call whose caller has stopped waiting is not executed.

use std::{
    pin::pin,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use tokio::time::Instant;

use super::*;

#[expect(clippy::disallowed_methods, reason = "deadlines are of the caller's clock")]
fn after(duration: Duration) -> Instant {
    Instant::now() + duration
}

fn appends() -> [Request; 3] {
    ["1", "2", "3"].map(|id| Request::Append(one("s", id, &[])))
}

#[tokio::test]
async fn a_write_whose_deadline_passes_in_the_queue_is_not_applied() {
    let fixture = Fixture::with(|options| SqliteOptions { group_requests: 1, ..options }).await;
    fixture.create("u", "s").await;
    // The first write waits for the lock of another connection, the second one behind it in the queue.
    let other = fixture.tables();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // It reaches the queue in time; its turn comes later.
    let expiring = RequestContext { deadline: Some(after(Duration::ZERO)), ..call() };
    let patient = call();
    let first = fixture.store().append(&patient, one("s", "1", &[("k", "1")]));
    let second = fixture.store().append(&expiring, one("s", "2", &[("k", "2")]));
    let let_go = async { other.execute_batch("COMMIT").unwrap() };
    let (first, second, ()) = tokio::join!(biased; first, second, let_go);
    assert_eq!(first.unwrap().info.last_sequence, 1);
    assert_eq!(second.unwrap_err(), Error::ExpiredInQueue);
    assert_eq!(fixture.state("s", None).await, ["k=1@1"]);
    // Its id was not used.
    let again = fixture.append("s", "2", &[]).await;
    assert!(!again.events[0].replayed);
}

#[tokio::test(start_paused = true)]
async fn only_the_expired_requests_of_a_group_are_dropped() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    let (mut group, mut answers) = submissions(appends());
    for (submission, seconds) in group.iter_mut().zip([1, 3]) {
        submission.context.deadline = Some(after(Duration::from_secs(seconds)));
    }
    tokio::time::advance(Duration::from_secs(2)).await;
    execute_group(&mut writer, &mut group).unwrap();
    let answers: Vec<_> =
        answers.iter_mut().map(|answer| sequence(&answer.try_recv().unwrap())).collect();
    assert_eq!(answers, [Err(Error::ExpiredInQueue), Ok(1), Ok(2)]);
}

#[tokio::test]
async fn a_write_whose_caller_has_left_is_not_applied() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    execute_one(&mut writer, Request::Create(creation("u", "s"))).unwrap();
    let (mut group, mut answers) = submissions(appends());
    drop(answers.remove(1));
    execute_group(&mut writer, &mut group).unwrap();
    let answers: Vec<_> =
        answers.iter_mut().map(|answer| sequence(&answer.try_recv().unwrap())).collect();
    assert_eq!(answers, [Ok(1), Ok(2)]);
    // Its id was not used.
    let again = execute_one(&mut writer, Request::Append(one("s", "2", &[])));
    assert_eq!(sequence(&again), Ok(3));
}

#[tokio::test]
async fn a_read_whose_caller_has_left_is_not_begun() {
    let fixture = Fixture::with(|options| SqliteOptions { readers: 1, ..options }).await;
    let readers = &fixture.store.readers;
    let (let_go, held) = mpsc::channel::<()>();
    let mut first = pin!(readers.read(move |_| {
        held.recv().unwrap();
        Ok(())
    }));
    assert!(first.as_mut().now_or_never().is_none());
    let begun = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&begun);
    let left = readers.read(move |_| {
        mark.store(true, Ordering::Relaxed);
        Ok(())
    });
    assert!(left.now_or_never().is_none(), "it waits behind the first");
    let_go.send(()).unwrap();
    first.await.unwrap();
    readers.read(|_| Ok(())).await.unwrap();
    assert!(!begun.load(Ordering::Relaxed));
}
