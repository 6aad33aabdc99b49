//! Servers and databases of tests: what they promise to the tests that use them.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls, types::Type};

use crate::cluster::{
    Cluster, Database, PATIENCE, Stop, database_of, pooled_database_of, pooled_server, query,
    shared_server,
};

async fn one(url: &str, sql: &str) -> String {
    query(url, sql).await.unwrap().concat()
}

/// Waits until a query finds nothing. Another test may have begun to drop what a folder had, and not be done with it.
async fn finds_nothing(url: &str, sql: &str) {
    let gone = async { while !query(url, sql).await.unwrap().is_empty() {} };
    timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{sql} finds something"));
}

const CREATE: &str = "CREATE TABLE t (v int); INSERT INTO t VALUES (1)";
const COUNT: &str = "SELECT count(*) FROM t";

#[tokio::test]
async fn a_database_is_empty_and_goes_with_its_value() {
    let Some(server) = shared_server() else { return };
    let database = Database::create();
    one(&database.url, CREATE).await;
    assert_eq!(one(&database.url, COUNT).await, "1");
    let other = Database::create();
    assert!(query(&other.url, COUNT).await.is_err());
    let name = one(&database.url, "SELECT current_database()").await;
    let open = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    drop(database);
    let left = format!("SELECT datname FROM pg_database WHERE datname = '{name}'");
    assert_eq!(one(&server, &left).await, "");
    drop(open);
}

#[tokio::test]
async fn a_folder_keeps_its_database_until_it_goes() {
    let Some(server) = shared_server() else { return };
    let folder = TempDir::new().unwrap();
    let url = database_of(folder.path());
    one(&url, CREATE).await;
    assert_eq!(database_of(folder.path()), url);
    assert_eq!(one(&url, COUNT).await, "1");
    let other = TempDir::new().unwrap();
    assert!(query(&database_of(other.path()), COUNT).await.is_err());
    let name = one(&url, "SELECT current_schema()").await;
    drop(folder);
    database_of(other.path());
    finds_nothing(&server, &format!("SELECT nspname FROM pg_namespace WHERE nspname = '{name}'"))
        .await;
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn behind_the_pooler_a_folder_has_a_schema_and_a_role() {
    if pooled_server().is_none() {
        return;
    }
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let url = pooled_database_of(folder.path());
    one(&url, CREATE).await;
    assert_eq!(pooled_database_of(folder.path()), url);
    assert_eq!(one(&url, COUNT).await, "1");
    assert_eq!(one(&database_of(folder.path()), COUNT).await, "1");
    let other_url = pooled_database_of(other.path());
    assert!(query(&other_url, COUNT).await.is_err());
    one(&other_url, "CREATE TABLE t (v int)").await;
    assert_eq!(one(&other_url, COUNT).await, "0");
    assert_eq!(one(&url, COUNT).await, "1");

    let name = one(&url, "SELECT current_user").await;
    assert!(query(&other_url, &format!("SELECT FROM {name}.t")).await.is_err());
    drop(folder);
    pooled_database_of(other.path());
    let left = format!(
        "SELECT nspname FROM pg_namespace WHERE nspname = '{name}' \
         UNION ALL SELECT rolname FROM pg_roles WHERE rolname = '{name}'"
    );
    finds_nothing(&shared_server().unwrap(), &left).await;
}

#[tokio::test]
async fn behind_the_pooler_clients_share_connections() {
    if pooled_server().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let url = pooled_database_of(folder.path());
    let clients = join_all((0..20).map(|_| connect(&url))).await;
    let pids = clients.iter().map(|it| it.query_typed("SELECT pg_backend_pid()", &[]));
    let pids: BTreeSet<i32> =
        join_all(pids).await.into_iter().map(|rows| rows.unwrap()[0].get(0)).collect();
    assert!(pids.len() < clients.len(), "{} connections", pids.len());
    assert!(clients.iter().all(|client| !client.is_closed()));
}

#[tokio::test]
async fn behind_the_pooler_statements_have_no_names() {
    if pooled_server().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let url = pooled_database_of(folder.path());
    let (client, other) = (connect(&url).await, connect(&url).await);
    let sql = "SELECT $1::int + 1";
    let statement = client.prepare_typed(sql, &[Type::INT4]).await.unwrap();
    // Takes the pool's only connection, so the client gets another one.
    other.batch_execute("BEGIN").await.unwrap();
    let error = client.query_one(&statement, &[&1]).await.unwrap_err();
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::INVALID_SQL_STATEMENT_NAME));
    for _ in 0..2 {
        let row = client.query_typed(sql, &[(&1, Type::INT4)]).await.unwrap();
        assert_eq!(row[0].get::<_, i32>(0), 2);
    }
    other.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn names_are_not_sorted_by_bytes_unless_asked() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    assert_eq!(one(&database.url, "SELECT 'a' < 'B'").await, "t");
    assert_eq!(one(&database.url, "SELECT 'a' < 'B' COLLATE \"C\"").await, "f");
}

#[tokio::test]
async fn a_cluster_keeps_its_data_and_its_port_however_it_ends() {
    let Some(cluster) = Cluster::start(&["work_mem=5MB"]) else { return };
    let url = cluster.url();
    assert_eq!(one(&url, "SHOW work_mem").await, "5MB");
    assert_eq!(one(&url, "SHOW fsync").await, "on");
    one(&url, CREATE).await;
    let ends: [fn(&Cluster); 3] =
        [Cluster::kill, |it| it.stop(Stop::Fast), |it| it.stop(Stop::Immediate)];
    for (before, end) in ends.iter().enumerate() {
        end(&cluster);
        assert!(query(&url, COUNT).await.is_err());
        cluster.start_again();
        assert_eq!(one(&url, COUNT).await, (before + 1).to_string());
        one(&url, "INSERT INTO t VALUES (1)").await;
    }
}

#[tokio::test]
async fn a_promoted_standby_has_every_commit() {
    let Some((primary, standby)) = Cluster::start_with_standby(&[]) else { return };
    one(&primary.url(), CREATE).await;
    assert_eq!(one(&primary.url(), "SELECT sync_state FROM pg_stat_replication").await, "sync");
    assert_eq!(one(&standby.url(), "SELECT pg_is_in_recovery()").await, "t");
    assert!(query(&standby.url(), "INSERT INTO t VALUES (2)").await.is_err());
    primary.kill();
    standby.promote();
    assert_eq!(one(&standby.url(), COUNT).await, "1");
    one(&standby.url(), "INSERT INTO t VALUES (2)").await;
    assert_eq!(one(&standby.url(), COUNT).await, "2");
}

#[test]
fn a_cluster_ends_with_a_test_that_panics() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let (port, folder) = (cluster.port(), cluster.folder().to_owned());
    let ended = catch_unwind(AssertUnwindSafe(|| {
        assert!(cluster.is_running());
        let _cluster = cluster;
        panic!("as a test does");
    }));
    assert!(ended.is_err());
    assert!(!folder.exists());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_script_that_is_killed_leaves_no_server() {
    if shared_server().is_none() {
        return;
    }
    let tell = "echo $SESSIOND_TEST_POSTGRES_HOME $SESSIOND_TEST_POSTGRES $SESSIOND_TEST_PGBOUNCER
        exec sleep 120";
    let mut script = Command::new("tests/tools/postgres")
        .args(["sh", "-c", tell])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(script.stdout.take().unwrap());
    let told = stdout.by_ref().lines().map(Result::unwrap).find(|line| line.starts_with('/'));
    let told = told.expect("the command runs");
    let (home, urls) = told.split_once(' ').unwrap();
    let addresses: Vec<_> =
        urls.split(' ').map(|url| url.split(['@', '/']).nth(3).unwrap().to_owned()).collect();
    for address in &addresses {
        TcpStream::connect(address).unwrap();
    }
    script.kill().unwrap();
    script.wait().unwrap();
    // The command and what cleans up have it open until they end.
    stdout.read_to_string(&mut String::new()).unwrap();
    assert!(!Path::new(home).exists());
    // The pooler has its signal, and may not have run since.
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        addresses.iter().for_each(|address| while TcpStream::connect(address).is_ok() {});
        ended.send(())
    });
    end.recv_timeout(PATIENCE).expect("a server goes on");
}
