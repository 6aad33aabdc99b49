//! Tests of what is special to this store: its statements, its rows, and commits without an answer.

mod groups;
mod hosts;
mod lanes;
mod measured;
mod migrations;
mod others;
mod outcomes;
mod places;
mod plans;
mod reads;
mod requests;
mod rows;

use std::{
    io::{Write as _, stderr},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use self::requests::*;
use super::{
    migrate::migrate, options::PostgresOptions, prelude::*, schema::MIGRATIONS, shared::Shared,
    write::writer::Writer,
};
use sessiond_core::{
    commit::{
        Answer, Append, CreateSession, ForkSession, Request, RequestKey, SessionUpdate, StateUpdate,
    },
    domain::{delta::Delta, event::NewEvent, scope::Scope},
};
use sessiond_metrics::Metrics;
use sessiond_store::{
    Clock,
    group::execute,
    tests::{
        TestClock, address, at, batch, call, change, delta, json, key, rewind, submissions,
        user_scope,
    },
};

/// The server that `tests/tools/postgres` has started. `None`: the test is skipped, and the reason is printed. CI forbids that.
#[expect(clippy::disallowed_methods, reason = "tests/tools/postgres names its server to tests")]
fn server() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let url = variable("SESSIOND_TEST_POSTGRES");
    if url.is_none() {
        assert!(variable("CI").is_none_or(|ci| ci == "false"), "no PostgreSQL");
        writeln!(stderr(), "skipped: SESSIOND_TEST_POSTGRES names no server").unwrap();
    }
    url
}

/// What a store has of a schema that is dropped with the test.
struct Fixture {
    server: String,
    schema: String,
    shared: Arc<Shared>,
    clock: Arc<TestClock>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let (url, sql) = (self.server.clone(), format!("DROP SCHEMA {} CASCADE", self.schema));
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(execute_at(&url, &sql));
        });
        drop(dropping.join());
    }
}

/// Executes SQL on a connection of its own.
async fn execute_at(url: &str, sql: &str) {
    let shared = Shared::new(PostgresOptions::new(url, StoreId([7; 16]))).unwrap();
    shared.connect().await.unwrap().batch(sql).await.unwrap();
}

/// The server gathers statistics when it pleases, and with those of a few rows the planner scans.
const NO_STATISTICS: &str = "DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT relname FROM pg_class
        WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name);
    END LOOP;
END $$";

impl Fixture {
    async fn new() -> Option<Self> {
        Self::with(|options| options).await
    }

    /// With tables of as many partitions.
    async fn of_partitions(number: &str) -> Option<Self> {
        Self::with(|mut options| {
            options.settings.partitions = Some(number.parse().unwrap());
            options
        })
        .await
    }

    async fn with(choose: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Option<Self> {
        let (server, schema) = (server()?, format!("lanes_{:016x}", fastrand::u64(..)));
        execute_at(&server, &format!("CREATE SCHEMA {schema}")).await;
        let separator = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{separator}options=-csearch_path%3D{schema}");
        let clock = TestClock::new(1);
        let options = PostgresOptions {
            clock: Some(Arc::clone(&clock) as Arc<dyn Clock>),
            ..PostgresOptions::new(url, StoreId([7; 16]))
        };
        let shared = Arc::new(Shared::new(choose(options)).unwrap());
        let connection = shared.connect().await.unwrap();
        let partitions = shared.options.settings.partitions;
        migrate(&connection, MIGRATIONS, StoreId([7; 16]), partitions).await.unwrap();
        connection.batch(NO_STATISTICS).await.unwrap();
        Some(Self { server, schema, shared, clock })
    }

    fn set_clock(&self, secs: i64) {
        self.clock.set(secs);
    }

    fn writer(&self) -> Writer {
        let mut writer = Writer::new(Arc::clone(&self.shared), Arc::new(AtomicU64::new(0)));
        writer.begin_group();
        writer
    }

    /// The number that a statement answers.
    async fn count(&self, sql: &str) -> i64 {
        let connection = self.shared.connect().await.unwrap();
        connection.one(sql).await.unwrap().unwrap().try_get(0).unwrap()
    }
}

/// Executes requests as one group.
async fn commit(
    fixture: &Fixture,
    writer: &mut Writer,
    requests: Vec<Request>,
) -> Vec<Result<Answer, Error>> {
    let (mut group, answers) = submissions(requests);
    let metrics = Metrics::default();
    while !group.is_empty() {
        drop(
            execute(writer, &mut group, &fixture.shared.notifier, &metrics.writes, &|_, _| ())
                .await,
        );
    }
    futures_util::future::join_all(answers).await.into_iter().map(Result::unwrap).collect()
}

async fn commit_one(
    fixture: &Fixture,
    writer: &mut Writer,
    request: Request,
) -> Result<Answer, Error> {
    commit(fixture, writer, vec![request]).await.remove(0)
}

/// Everything that a session can go through. Leaves the sessions `s`, `t` and `fork`.
async fn live(fixture: &Fixture, writer: &mut Writer) {
    let commit_all = async |writer: &mut Writer, requests: Vec<Request>| {
        for answer in commit(fixture, writer, requests).await {
            answer.unwrap();
        }
    };
    let state = vec![(key("k"), json("0")), (key("app:a"), json("0")), (key("user:u"), json("0"))];
    let creations = ["s", "t", "gone", "expiring"].map(|id| {
        let expiration = (id == "expiring").then_some(Expiration::At(at(50)));
        let creation = CreateSession { state: state.clone(), expiration, ..creation(id) };
        Request::Create(creation)
    });
    commit_all(writer, creations.into()).await;
    for round in 0..70 {
        let set = [("k", "1"), ("app:a", "2"), ("user:u", "3")];
        let appends = ["s", "t"].map(|id| Request::Append(one(id, &round.to_string(), &set)));
        commit_all(writer, appends.into()).await;
    }
    let mut asked = one("t", "asked", &[]);
    asked.request =
        Some(RequestKey { id: RequestId::new("r").unwrap(), fingerprint: Fingerprint(2) });
    let update = SessionUpdate {
        key: address("t"),
        display_name: None,
        labels: None,
        expiration: Some(Some(Expiration::At(at(500)))),
        precondition: Default::default(),
    };
    let removal = Delta { remove: vec![key("k")], ..Delta::default() };
    let requests = vec![
        Request::Rewind(rewind("s", 3)),
        Request::Append(append("s", "removal", removal)),
        Request::Append(asked),
        Request::Update(update),
        Request::UpdateState(of_user(&[("user:u", "4"), ("app:b", "1")])),
        Request::Delete(address("gone").into()),
    ];
    commit_all(writer, requests).await;
    fork(fixture, writer).await;
    fixture.set_clock(100);
    sweep(fixture, writer).await;
}

/// Makes `fork` of `s`.
async fn fork(fixture: &Fixture, writer: &mut Writer) {
    let session_id = SessionId::new("fork").unwrap();
    let fork = ForkSession {
        source: address("s"),
        up_to: None,
        session_id,
        precondition: Default::default(),
    };
    let Answer::ForkBegun(fork) = commit_one(fixture, writer, Request::Fork(fork)).await.unwrap()
    else {
        panic!("a fork")
    };
    let mut after = 0;
    while after < fork.up_to {
        let piece = Request::CopyEvents(fork.clone(), after);
        let Answer::Copied(end) = commit_one(fixture, writer, piece).await.unwrap() else {
            panic!("a piece")
        };
        after = end;
    }
    commit_one(fixture, writer, Request::FinishFork(fork)).await.unwrap();
}

/// Sweeps until nothing is left to do.
async fn sweep(fixture: &Fixture, writer: &mut Writer) {
    while matches!(commit_one(fixture, writer, Request::Sweep).await, Ok(Answer::Swept(true))) {}
}
