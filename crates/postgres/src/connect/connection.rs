//! A connection: its settings, the statements that it keeps prepared, and the shapes in which statements are executed on it.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{Client, SimpleQueryMessage, Statement, types::ToSql};
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{prelude::*, row::rows},
    error::{is_lost, kind},
};
use sessiond_metrics::{PostgresMetrics, SqlError};
use sessiond_store::group::Failure;

/// A setting of every connection.
const DURABLE: &str = "synchronous_commit = on";

/// Settings of PostgreSQL's planner, for engines that have them. Tables grow faster than the planner's figures of them: its guesses must
/// not make it read a table whole.
const PLANNER: [(&str, &str); 6] = [
    (STEADY, "off"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
];

/// Off in transactions that see one point in time: rows come in the order of an index, and only ties are sorted, however few rows the
/// planner expects. A transaction that locks would read a whole index for the order of a few rows.
const STEADY: &str = "enable_sort";

/// Time that the end of a connection may take.
const CLOSING: Duration = Duration::from_secs(1);

/// A connection to a database with the tables of this version.
pub(in super::super) struct Connection {
    client: Client,
    /// Sends and receives for the client, and ends after it.
    driver: JoinHandle<()>,
    /// `None`: a pooler gives every transaction another connection, so that nothing can be kept on one.
    prepared: Option<Mutex<HashMap<Box<str>, Statement>>>,
    /// Executed with the beginning of each transaction, if nothing can be kept.
    settings: String,
    /// Begins a transaction that sees one point in time.
    begin_snapshot: String,
    /// An error showed it, which is sooner than the client sees it.
    lost: AtomicBool,
    /// An error of the transaction says that another attempt may succeed.
    again: AtomicBool,
    metrics: PostgresMetrics,
}

impl Connection {
    /// Takes over a new connection.
    pub(in super::super) async fn new(
        client: Client,
        driver: JoinHandle<()>,
        statement_timeout_millis: u128,
        unnamed_statements: bool,
        metrics: PostgresMetrics,
    ) -> Result<Self> {
        // A caller that gives up waiting leaves no task that waits for the answer.
        let driver = AbortOnDropHandle::new(driver);
        // A transaction whose client is gone may not keep its locks either.
        let limits = ["statement_timeout", "idle_in_transaction_session_timeout"];
        let is_steady = |setting: &String| setting.starts_with(STEADY);
        let (steady, mut settings): (Vec<_>, Vec<_>) =
            known(&client).await?.into_iter().partition(is_steady);
        settings.push(DURABLE.to_owned());
        settings.extend(limits.map(|limit| format!("{limit} = {statement_timeout_millis}")));
        let local = |settings: &[String]| -> String {
            settings.iter().map(|it| format!("; SET LOCAL {it}")).collect()
        };
        let (prepared, settings) = if unnamed_statements {
            (None, local(&settings))
        } else {
            client.batch_execute(&format!("SET {}", settings.join("; SET "))).await?;
            (Some(Mutex::default()), String::new())
        };
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let begin_snapshot = format!("{begin}{}{settings}", local(&steady));
        let driver = driver.detach();
        let (lost, again) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { client, driver, prepared, settings, begin_snapshot, lost, again, metrics })
    }

    /// Ends the connection, and waits until the database has been told.
    pub(in super::super) async fn close(self) {
        let Self { client, driver, .. } = self;
        drop(client);
        drop(timeout(CLOSING, driver).await);
    }

    /// Whether it cannot be used any more.
    pub(in super::super) fn is_closed(&self) -> bool {
        self.lost.load(Ordering::Relaxed) || self.client.is_closed()
    }

    /// It leads to a database that cannot be used.
    pub(in super::super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// The failure of a transaction by an error of the read kernel, which knows the domain's errors only.
    pub(in super::super) fn failure(&self, error: Error) -> Failure {
        match self.again.load(Ordering::Relaxed) {
            true => Failure::Again(Cause::new(error)),
            false => Failure::Error(error),
        }
    }

    /// Waits for answers. A connection that stays silent for longer than `limit` is lost.
    pub(in super::super) async fn within<T, E>(
        &self,
        limit: Duration,
        answers: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        E: From<Fault>,
    {
        timeout(limit, answers).await.unwrap_or_else(|elapsed| {
            self.metrics.error(SqlError::ConnectionLost).inc();
            self.lost.store(true, Ordering::Relaxed);
            // It would wait for the answers, and keep the socket open.
            self.driver.abort();
            Err(Fault::from(elapsed).into())
        })
    }

    /// Notes whether an error says that the connection is lost.
    fn checked<T>(&self, answer: Result<T, tokio_postgres::Error>) -> Result<T> {
        self.metrics.statements.inc();
        let answer = answer.inspect_err(|error| {
            let kind = kind(error);
            self.metrics.error(kind).inc();
            self.again.fetch_or(kind != SqlError::Other, Ordering::Relaxed);
            self.lost.fetch_or(is_lost(error), Ordering::Relaxed);
        });
        Ok(answer?)
    }

    /// Prepares a statement that is sent in a pipeline: preparing it there would change the order.
    pub(in super::super) async fn prepare(&self, sql: &str, types: &[Type]) -> Result<()> {
        self.statement(sql, types).await.map(drop)
    }

    async fn statement(&self, sql: &str, types: &[Type]) -> Result<Option<Statement>> {
        let Some(prepared) = &self.prepared else { return Ok(None) };
        let known = || prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = known().get(sql) {
            return Ok(Some(statement.clone()));
        }
        let statement = self.checked(self.client.prepare_typed(sql, types).await)?;
        known().insert(sql.into(), statement.clone());
        Ok(Some(statement))
    }

    /// Begins a transaction that writes.
    pub(in super::super) async fn begin(&self) -> Result<()> {
        self.again.store(false, Ordering::Relaxed);
        self.batch(&format!("BEGIN{}", self.settings)).await
    }

    /// Begins a transaction that sees one point in time.
    pub(in super::super) async fn begin_snapshot(&self) -> Result<()> {
        self.batch(&self.begin_snapshot).await
    }

    pub(in super::super) async fn commit(&self) -> Result<()> {
        self.batch("COMMIT").await
    }

    pub(in super::super) async fn roll_back(&self) -> Result<()> {
        self.batch("ROLLBACK").await
    }

    /// Every row of a query.
    pub(in super::super) async fn all(
        &self,
        sql: &str,
        types: &[Type],
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let answer = match self.statement(sql, types).await? {
            Some(statement) => self.client.query(&statement, values).await,
            None => {
                let typed = values.iter().copied().zip(types.iter().cloned());
                self.client.query_typed(sql, &typed.collect::<Vec<_>>()).await
            }
        };
        self.checked(answer).map(rows)
    }

    /// The first row of a query without parameters.
    pub(in super::super) async fn one(&self, sql: &str) -> Result<Option<Row>> {
        Ok(self.all(sql, &[], &[]).await?.into_iter().next())
    }

    /// Executes SQL without parameters, some statements at once.
    pub(in super::super) async fn batch(&self, sql: &str) -> Result<()> {
        self.checked(self.client.batch_execute(sql).await)
    }
}

/// Those of [`PLANNER`] that the engine has, as `name = value`. Asking for one that it does not have may be an error.
async fn known(client: &Client) -> Result<Vec<String>> {
    let names = PLANNER.map(|(name, _)| format!("'{name}'")).join(", ");
    let query = format!("SELECT name FROM pg_settings WHERE name IN ({names})");
    let answers = client.simple_query(&query).await?;
    let is_known = |name: &str| {
        answers
            .iter()
            .any(|it| matches!(it, SimpleQueryMessage::Row(row) if row.get(0) == Some(name)))
    };
    let known = PLANNER.into_iter().filter(|(name, _)| is_known(name));
    Ok(known.map(|(name, value)| format!("{name} = {value}")).collect())
}

#[cfg(test)]
mod tests;
