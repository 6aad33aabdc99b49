//! When the disk is full, a commit fails or the code does: who is told what, and that it goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    command::{Trouble, carry_out},
    writer::{GroupEnd, Writer},
    *,
};

fn create(session: &str) -> (Command, Answer<Created>) {
    let (reply, answer) = oneshot::channel();
    (Command::Create(creation("u", session, 1), reply), answer)
}

fn append(session: &str, id: &str, value: &str) -> (Command, Answer<Appended>) {
    let (reply, answer) = oneshot::channel();
    (Command::Append(one(session, id, &[("k", value), ("app:k", value)]), reply), answer)
}

fn sequence(mut answer: Answer<Appended>) -> Result<u64, Error> {
    answer.try_recv().unwrap().map(|appended| appended.info.last_sequence)
}

#[test]
fn a_full_disk_refuses_the_group_and_space_heals_it() {
    let folder = TempDir::new().unwrap();
    let mut bench = Bench::open(folder.path());
    let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
    let (command, mut created) = create("s");
    assert_eq!(writer.group(&mut vec![command], &mut bench.shared), GroupEnd::Committed);
    created.try_recv().unwrap().unwrap();
    let (command, answer) = append("s", "1", "1");
    assert_eq!(writer.group(&mut vec![command], &mut bench.shared), GroupEnd::Committed);
    assert_eq!(sequence(answer), Ok(1));

    let pages: i64 = bench.connection.query_row("PRAGMA page_count", (), |row| row.get(0)).unwrap();
    let limit = |pages: i64| {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        bench.connection.query_row(&pragma, (), |_| Ok(())).unwrap();
    };
    limit(pages);
    let (small, of_small) = append("s", "2", "2");
    let large = format!("\"{}\"", "x".repeat(100_000));
    let (large, of_large) = append("s", "3", &large);
    let (behind, of_behind) = append("s", "4", "4");
    let mut group = vec![small, large, behind];
    assert_eq!(writer.group(&mut group, &mut bench.shared), GroupEnd::RolledBack);
    for answer in [of_small, of_large, of_behind] {
        assert_eq!(sequence(answer), Err(Error::StoreUnavailable));
    }
    assert!(bench.connection.is_autocommit());
    writer.forget_all(&bench.shared).unwrap();

    limit(1_000_000);
    let (again, of_again) = append("s", "2", "2");
    assert_eq!(writer.group(&mut vec![again], &mut bench.shared), GroupEnd::Committed);
    assert_eq!(sequence(of_again), Ok(2));
}

#[test]
fn nobody_knows_what_a_failed_commit_left() {
    let folder = TempDir::new().unwrap();
    let mut bench = Bench::open(folder.path());
    let fails = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&fails);
    bench.connection.commit_hook(Some(move || hook.load(Ordering::SeqCst))).unwrap();
    let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
    let (command, _created) = create("s");
    assert_eq!(writer.group(&mut vec![command], &mut bench.shared), GroupEnd::Committed);
    fails.store(true, Ordering::SeqCst);
    let (command, answer) = append("s", "1", "1");
    assert_eq!(writer.group(&mut vec![command], &mut bench.shared), GroupEnd::Unknown);
    assert_eq!(sequence(answer), Err(Error::OutcomeUnknown));
}

#[test]
fn code_that_panics_is_told_from_a_store_that_fails() {
    let (reply, mut answer) = oneshot::channel::<Result<(), Error>>();
    let (ready, trouble) = carry_out(reply, || panic!("a defect"));
    assert!(matches!(trouble, Some(Trouble::Panic)));
    ready(Some(Error::StoreUnavailable));
    assert!(matches!(answer.try_recv().unwrap(), Err(Error::Internal(_))));

    let (reply, mut answer) = oneshot::channel::<Result<(), Error>>();
    let (ready, trouble) = carry_out(reply, || Ok(()));
    assert!(trouble.is_none());
    ready(Some(Error::OutcomeUnknown));
    assert_eq!(answer.try_recv().unwrap(), Err(Error::OutcomeUnknown));
}

#[tokio::test]
async fn a_read_that_panics_costs_its_caller_alone() {
    let fixture = Fixture::with(|options| SqliteOptions { readers: 1, ..options }).await;
    fixture.create("u", "s", 1).await;
    let read = fixture.store.readers.read(|_| -> fault::Outcome<()> { panic!("a defect") });
    assert!(matches!(read.await, Err(Error::Internal(_))));
    assert_eq!(fixture.store.read_session(query("s")).await.unwrap().info.last_sequence, 0);
}

#[tokio::test]
async fn a_full_queue_says_so_at_once() {
    let fixture = Fixture::with(|options| SqliteOptions { queue_commands: 1, ..options }).await;
    fixture.create("u", "s", 1).await;
    // While somebody else writes, the writer holds one group at most and the queue one command.
    let other = fixture.tables();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let appends = (0..10).map(|number| fixture.store.append(one("s", &number.to_string(), &[])));
    let let_go = async { other.execute_batch("COMMIT").unwrap() };
    let (answers, ()) = tokio::join!(biased; join_all(appends), let_go);
    let stored = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(error, Error::Overloaded { what: Bounded::WriteQueue, .. }), "{error}");
    }
    assert!((1..=2).contains(&stored), "{stored}");
    let info = fixture.store.read_session(query("s")).await.unwrap().info;
    assert_eq!(info.last_sequence, stored);
}

/// Polls all futures at once.
async fn join_all<F: Future<Output = T> + Send, T>(futures: impl Iterator<Item = F>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, answer) in &mut futures {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *answer = Some(value),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    futures.into_iter().filter_map(|(_, answer)| answer).collect()
}
