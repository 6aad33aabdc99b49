//! Every statement of every kind of write, each in turn failed or cut on its way: the write is applied once, and its caller is told so.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use sessiond::{
    domain::{error::Error, token::StoreId},
    store::{
        RequestContext, Store,
        postgres::{self, PostgresOptions},
    },
};

use crate::{
    cluster::{Database, shared_server},
    proxy::{Execution, Fault, Proxy},
    requests::*,
};

/// No look at versions: its statements would be among those of the writes.
const NEVER: Duration = Duration::from_secs(86_400);

/// A store whose connections go through a proxy, and the event that its session and shared scopes count.
struct Faulty {
    store: Arc<dyn Store>,
    proxy: Proxy,
    _database: Database,
}

impl Faulty {
    async fn open() -> Option<Self> {
        shared_server()?;
        let database = Database::create();
        let proxy = Proxy::start(&database.url).await;
        let mut options = PostgresOptions::new(&*proxy.url, StoreId([7; 16]));
        (options.readers, options.settings.writers, options.look_every) = (1, 1, NEVER);
        let store: Arc<dyn Store> = Arc::new(postgres::open(options).await.unwrap());
        store.create_session(&context(), create(PATH, &[])).await.unwrap();
        Some(Self { store, proxy, _database: database })
    }

    async fn append(&self, id: &str) -> Result<(), Error> {
        let delta = add("n", 1).add("user:n", 1).add("app:n", 1);
        let appended = self.store.append(&context(), append(PATH, [event(id, delta)])).await?;
        assert!(!appended.events[0].replayed);
        Ok(())
    }

    /// One write of each kind. `turn` makes what is new.
    async fn write(&self, kind: usize, turn: u64) -> Result<(), Error> {
        let (store, new) = (&self.store, format!("a/u/s{kind}.{turn}"));
        match kind {
            0 => self.append(&format!("e{turn}")).await,
            1 => store.create_session(&context(), create(&new, &[("k", "1")])).await.map(drop),
            2 => store.update_session(&context(), touch(PATH)).await.map(drop),
            3 => store.update_state(&context(), update("a/u", add("user:m", 1))).await.map(drop),
            4 => store
                .fork_session(&context(), fork(PATH, None, &format!("f{turn}")))
                .await
                .map(drop),
            5 => {
                let rewind = rewind("a/u/rewound", 1, &format!("r{turn}"));
                store.rewind_session(&context(), rewind).await.map(drop)
            }
            _ => {
                let key = address(&format!("a/u/d{turn}"));
                assert!(store.delete_session(&context(), key.into()).await?.is_some());
                Ok(())
            }
        }
    }

    /// What a write of a kind needs.
    async fn prepare(&self, kind: usize, turn: u64) {
        self.proxy.plan(|_| None);
        let path = match kind {
            5 => "a/u/rewound".to_owned(),
            6 => format!("a/u/d{turn}"),
            _ => return,
        };
        if kind == 6 || turn == 1 {
            self.store.create_session(&context(), create(&path, &[])).await.unwrap();
        }
        // There is something to rewind and to delete.
        for id in ["p1", "p2"] {
            let event = event(&format!("{id}.{turn}"), add("n", 1));
            self.store.append(&context(), append(&path, [event])).await.unwrap();
        }
    }

    /// Lets a fault happen to the `n`-th statement of the next write, counted from its BEGIN. Whether there was such a statement comes
    /// from [`Proxy::faults`].
    fn plan(&self, fault: Fault, n: u64) {
        let (mut writer, mut seen) = (None, 0);
        self.proxy.plan(move |execution| {
            if is_begin(execution) {
                writer.get_or_insert(execution.connection);
            }
            seen += u64::from(writer == Some(execution.connection));
            (writer == Some(execution.connection) && seen == n).then_some(fault)
        });
    }

    /// The transactions that were begun since the plan was made.
    fn begun(&self) -> usize {
        self.proxy.executions().iter().filter(|execution| is_begin(execution)).count()
    }

    async fn state(&self, path: &str) -> String {
        let view = self.store.read_state(read_state(path)).await.unwrap();
        view.state.to_json().into_string()
    }
}

/// Of a transaction of a write. A notification follows some commits, when it pleases.
fn is_begin(execution: &Execution) -> bool {
    execution.sql.starts_with("BEGIN")
        && !execution.sql.contains("READ ONLY")
        && !is_notification(execution)
}

fn is_notification(execution: &Execution) -> bool {
    execution.sql.contains("NOTIFY")
}

const PATH: &str = "a/u/s";
const KINDS: usize = 7;

fn context() -> RequestContext {
    RequestContext::internal()
}

/// Tries each kind of write with the fault at each of its statements, until it has no more of them. A write with a fault takes as many
/// more transactions: one, or two if it also has to find out whether it was committed. Returns how often each kind was tried.
async fn at_every_statement(
    faulty: &Faulty,
    fault: Fault,
    retries: RangeInclusive<usize>,
) -> [u64; KINDS] {
    let mut turns = [0; KINDS];
    for (kind, turns) in turns.iter_mut().enumerate() {
        let mut begun = Vec::new();
        while faulty.proxy.faults() > 0 || *turns == 0 {
            *turns += 1;
            faulty.prepare(kind, *turns).await;
            faulty.plan(fault, *turns);
            let written = faulty.write(kind, *turns).await;
            begun.push(faulty.begun());
            let executions = faulty.proxy.executions();
            let own: Vec<_> = executions.iter().map(|it| (it.connection, &it.sql)).collect();
            assert_eq!(written, Ok(()), "write {kind}, statement {turns} of {own:#?}");
        }
        let undisturbed = begun.pop().unwrap();
        assert!(*turns > 4, "a write has a few statements");
        let retried = |begun: &usize| retries.contains(&(begun - undisturbed));
        assert!(begun.iter().all(retried), "write {kind}: {begun:?}, {undisturbed} without faults");
    }
    turns
}

async fn assert_applied_once(faulty: &Faulty, turns: &[u64; KINDS]) {
    let (appends, updates) = (turns[0], turns[3]);
    let state = faulty.state(PATH).await;
    for counted in [format!(r#""n":{appends}"#), format!(r#""user:m":{updates}"#)] {
        assert!(state.contains(&counted), "{counted}: {state}");
    }
    assert!(state.contains(&format!(r#""app:n":{appends}"#)), "{state}");
    let view = faulty.store.read_session(read(PATH)).await.unwrap();
    assert_eq!(view.info.last_sequence, appends);
    // The first session, one to rewind, and those that were created and forked.
    let listed = faulty.store.list_sessions(sessions("a")).await.unwrap();
    assert_eq!(listed.sessions.len() as u64, 2 + turns[1] + turns[4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_of_any_statement_is_tried_again() {
    let Some(faulty) = Faulty::open().await else { return };
    let turns = at_every_statement(&faulty, Fault::Fail("40001"), 1..=1).await;
    assert_applied_once(&faulty, &turns).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_before_any_statement_is_replaced() {
    let Some(faulty) = Faulty::open().await else { return };
    let turns = at_every_statement(&faulty, Fault::CutBefore, 1..=2).await;
    assert_applied_once(&faulty, &turns).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_after_any_statement_is_replaced() {
    let Some(faulty) = Faulty::open().await else { return };
    let turns = at_every_statement(&faulty, Fault::CutAfter, 1..=2).await;
    assert_applied_once(&faulty, &turns).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_answer_is_lost_is_not_applied_twice() {
    let Some(faulty) = Faulty::open().await else { return };
    let turns = at_every_statement(&faulty, Fault::LoseAnswer, 1..=2).await;
    assert_applied_once(&faulty, &turns).await;
}

/// What an engine says that lost the server of a transaction in its commit. This one was not applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_completion_is_unknown_is_looked_up() {
    let Some(faulty) = Faulty::open().await else { return };
    for (id, code) in [("1", "40003"), ("2", "08007")] {
        faulty.proxy.once(Fault::Fail(code), |it| it.is_commit() && !is_notification(it));
        faulty.append(id).await.unwrap();
        assert_eq!(
            (faulty.proxy.faults(), faulty.state(PATH).await.contains(&format!("\"n\":{id}"))),
            (1, true)
        );
    }
    faulty.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_always_fails_is_given_up_and_not_applied() {
    let Some(faulty) = Faulty::open().await else { return };
    faulty.append("first").await.unwrap();
    let of_write = |it: &Execution| it.is_commit() && !is_notification(it);
    faulty.proxy.plan(move |it| of_write(it).then_some(Fault::Fail("40001")));
    let error = faulty.append("second").await.unwrap_err();
    assert!(matches!(error, Error::StoreUnavailable(_)), "{error:?}");
    let begun = faulty.begun() as u64;
    assert!(begun > 2 && faulty.proxy.faults() == begun, "{begun} {}", faulty.proxy.faults());
    faulty.proxy.plan(|_| None);
    assert!(faulty.state(PATH).await.contains(r#""n":1"#));
    faulty.append("second").await.unwrap();
    assert!(faulty.state(PATH).await.contains(r#""n":2"#));
}
