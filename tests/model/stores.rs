//! Every store: after each group of writes of a random history, their answers and everything that can be read are compared with the
//! naive model, and the logs with the state.

use std::{cell::Cell, path::PathBuf, sync::Arc};

use futures_util::future::join_all;
use proptest::{
    collection::vec,
    test_runner::{Config, TestCaseError, TestRunner},
};
use sessiond::{
    commit::{Answer, Request},
    domain::error::Error,
    store::{RequestContext, Store},
};
use sessiond_test_support::TestClock;
use tempfile::TempDir;

use crate::{
    LONGEST,
    backends::{self, Backend},
    fold,
    history::{Step, Write, histories},
    naive::NaiveStore,
    observe::{Observer, observe},
    requests::{Names, address, request, start, text},
};

/// Cases of proptest for each history: reading everything after every write takes long.
const CASES: u32 = 8;

/// Histories of a run, at least. Five runs of four had 71 accepted and 72 refused writes once.
const MIN_HISTORIES: u32 = 12;

/// Runs until more writes are accepted than refused, at most.
const RUNS: u32 = 5;

backends::for_each_backend!(agrees_with_the_naive_model_and_with_itself,);

fn agrees_with_the_naive_model_and_with_itself(backend: &'static Backend) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config::default();
    let cases = config.cases.div_ceil(CASES * backend.cost).max(MIN_HISTORIES);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..config });
    let written = Cell::new([0usize; 2]);
    // Mostly three of five writes are accepted. The few histories of a slow store may have less than a half: then some more.
    for _ in 0..RUNS {
        let result = runner.run(&(histories(LONGEST), vec(1..5usize, 1..6)), |(history, sizes)| {
            let [accepted, refused] = runtime.block_on(run(backend, &history, &sizes))?;
            let [all_accepted, all_refused] = written.get();
            written.set([all_accepted + accepted, all_refused + refused]);
            Ok(())
        });
        if let Err(failure) = result {
            panic!("{}: {failure}", backend.name);
        }
        let [accepted, refused] = written.get();
        if accepted > refused {
            break;
        }
    }
    // A test whose writes are all refused would prove nothing.
    let [accepted, refused] = written.get();
    assert!(
        accepted > refused && refused > accepted / 50,
        "{accepted} accepted, {refused} refused"
    );
}

/// Submits a history in groups of these sizes, over and over. How many writes were accepted, and how many refused.
async fn run(
    backend: &'static Backend,
    history: &[Step],
    sizes: &[usize],
) -> Result<[usize; 2], TestCaseError> {
    let folder = TempDir::new().unwrap();
    let clock = TestClock::at(start());
    let open = || (backend.open)(PathBuf::from(folder.path()), clock.clone());
    let mut model = Observer {
        store: Arc::new(NaiveStore::new(clock.clone())),
        now: start(),
        names: Names::default(),
        pages: false,
    };
    let mut store =
        Observer { store: open().await, now: start(), names: Names::default(), pages: true };
    let mut counts = [0; 2];
    let mut sizes = sizes.iter().cycle();
    let mut rest = history;
    let mut round = 0;
    while !rest.is_empty() {
        let size = if backend.in_order { *sizes.next().unwrap() } else { 1 };
        let together = rest.iter().take(size).take_while(|step| is_one(step));
        let (group, behind) = rest.split_at(together.count().max(1));
        rest = behind;
        round += 1;
        let wait_secs = group.iter().map(|step| step.wait_secs).sum();
        let now = store.now.plus(wait_secs, 1).unwrap();
        clock.set_time(now);
        (store.now, model.now) = (now, now);
        let requests: Vec<Request> =
            group.iter().filter_map(|step| request(&step.write, now)).collect();
        if requests.is_empty() && backend.durable {
            store.store.close().await;
            store.store = open().await;
        }
        // Those that are submitted together take effect in the order of submission, in one commit or in several.
        // One that changes nothing comes before several: they are mostly one group then, for the writer is busy when they come.
        let first = (requests.len() > 1).then(delete_nothing);
        let submitted = first.iter().chain(&requests);
        let answers = join_all(submitted.map(|it| commit(&*store.store, it.clone()))).await;
        for (answer, request) in answers.into_iter().skip(first.iter().len()).zip(requests) {
            counts[usize::from(answer.is_err())] += 1;
            let expected = commit(&*model.store, request).await;
            let expected = text(expected, &mut model.names);
            same(&text(answer, &mut store.names), &expected, round)?;
        }
        let expected = observe(&mut model, round).await;
        let seen = observe(&mut store, round).await;
        for (seen, expected) in seen.iter().zip(&expected) {
            same(seen, expected, round)?;
        }
        same(&seen.len().to_string(), &expected.len().to_string(), round)?;
        if matches!(group[0].write, Write::Rewind { .. } | Write::Fork { .. }) {
            fold::check(&store).await;
        }
    }
    fold::check(&store).await;
    store.store.close().await;
    Ok(counts)
}

/// Deletes a session that no history has.
fn delete_nothing() -> Request {
    Request::Delete(address("nobody/nobody/nothing").into())
}

/// Whether a write is one request. Others are not submitted together with any.
fn is_one(step: &Step) -> bool {
    !matches!(step.write, Write::Fork { .. } | Write::Sweep | Write::Restart)
}

async fn commit(store: &dyn Store, request: Request) -> Result<Answer, Error> {
    let context = RequestContext::internal();
    match request {
        Request::Fork(fork) => store.fork_session(&context, fork).await.map(Answer::Forked),
        Request::Sweep => {
            while store.sweep().await.unwrap() {}
            Ok(Answer::Swept(false))
        }
        request => store.commit(&context, request).await,
    }
}

/// Compares what a store says with what it should say, and shows where the two differ first.
fn same(found: &str, expected: &str, round: usize) -> Result<(), TestCaseError> {
    if found == expected {
        return Ok(());
    }
    let pairs = found.chars().zip(expected.chars());
    let equal = pairs.take_while(|(found, expected)| found == expected).count();
    let around =
        |text: &str| -> String { text.chars().skip(equal.saturating_sub(120)).take(200).collect() };
    Err(TestCaseError::fail(format!(
        "group {round}: {}\nfound    … {} …\nexpected … {} …",
        expected.chars().take(40).collect::<String>(),
        around(found),
        around(expected)
    )))
}
