//! PostgreSQL for tests: databases on the server that `tests/tools/postgres` has started, and servers of a test's own.
//!
//! Nothing here touches a server that the script or the test did not start.

mod database;
mod server;

use std::{thread, time::Duration};

use tokio_postgres::{Error, NoTls, SimpleQueryMessage};

pub use database::{Database, database_of, pooled_database_of, sessions_ended};
pub use server::{Cluster, Stop};

use crate::{is_ci, variable};

/// Longer than anything here takes on a slow machine, the restart of a server included. It decides nothing but when to give up.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The URL of the shared server, as a superuser. `None`: a test that needs it is skipped, which CI forbids.
pub fn shared_server() -> Option<String> {
    url("SESSIOND_TEST_POSTGRES", "PostgreSQL")
}

/// The URL of the shared server through pgbouncer in transaction mode. `None`: a test that needs it is skipped, which CI forbids.
pub fn pooled_server() -> Option<String> {
    url("SESSIOND_TEST_PGBOUNCER", "pgbouncer")
}

fn url(name: &str, of: &str) -> Option<String> {
    let url = variable(name);
    assert!(url.is_some() || !is_ci(), "no {of}. Run the tests with tests/tools/postgres.");
    url
}

/// Executes SQL on a connection of its own. The first column of all rows, `""` for NULL.
pub async fn query(url: &str, sql: &str) -> Result<Vec<String>, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let answer = async move {
        let messages = client.simple_query(sql).await?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        Ok(rows.collect())
    };
    // The client goes with the answer, which ends the connection.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

/// The same, from any thread: one that runs tasks must not block on another runtime.
fn query_blocking(url: &str, sql: &str) -> Result<Vec<String>, Error> {
    let execute = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(query(url, sql))
    };
    thread::scope(|scope| scope.spawn(execute).join().unwrap())
}
