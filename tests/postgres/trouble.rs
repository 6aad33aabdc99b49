//! A database that goes away: nothing that was acknowledged is lost, nothing is applied twice, and the store comes back by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sessiond::{
    domain::{
        error::Error,
        token::{Digest, StoreId},
    },
    engine::{Engine, EngineOptions, Watch, WatchFrom, WatchItem},
    store::{
        Append, Appended, Condition, RequestContext, Store, accept_loss,
        postgres::{self, PostgresOptions, PostgresSettings},
    },
};
use tokio::{
    sync::watch,
    task::{JoinSet, yield_now},
    time::timeout,
};

use crate::{
    becomes,
    cluster::{Cluster, PATIENCE, Stop, query},
    proxy::{Fault, Proxy},
    requests::*,
};

const WRITERS: usize = 6;

async fn open(url: &str) -> Arc<dyn Store> {
    let mut options = PostgresOptions::new(url, StoreId([7; 16]));
    (options.readers, options.settings.writers) = (2, 2);
    options.settings.statement_timeout = Duration::from_secs(5);
    Arc::new(postgres::open(options).await.unwrap())
}

async fn put(store: &Arc<dyn Store>, append: Append) -> Result<Appended, Error> {
    store.append(&RequestContext::internal(), append).await
}

/// Appends as a client does: by the same event id, until there is an answer. An error has to be one that tells to send it again.
async fn put_until_done(store: &Arc<dyn Store>, path: &str, id: &str) {
    loop {
        let delta = add("n", 1).add("user:n", 1).add("app:n", 1);
        match put(store, append(path, [event(id, delta)])).await {
            Ok(_) => return,
            Err(
                Error::StoreUnavailable(_) | Error::OutcomeUnknown(_) | Error::Overloaded { .. },
            ) => {
                yield_now().await;
                becomes(store, Condition::Ready).await;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Writers that go on until they are told to stop.
struct Load {
    writers: JoinSet<u64>,
    stop: Arc<AtomicBool>,
    written: watch::Sender<u64>,
}

impl Load {
    async fn start(replicas: &[Arc<dyn Store>]) -> Self {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), watch::Sender::new(0));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let path = format!("a/u{}/s{writer}", writer % 2);
            let context = RequestContext::internal();
            replicas[0].create_session(&context, create(&path, &[])).await.unwrap();
            let store = Arc::clone(&replicas[writer % replicas.len()]);
            let (stop, written) = (Arc::clone(&stop), written.clone());
            writers.spawn(async move {
                let mut events = 0;
                while !stop.load(Ordering::SeqCst) {
                    put_until_done(&store, &path, &format!("{writer}.{events}")).await;
                    events += 1;
                    written.send_modify(|written| *written += 1);
                }
                events
            });
        }
        let load = Self { writers, stop, written };
        load.more(50).await;
        load
    }

    /// Waits until the writers have appended `events` more.
    async fn more(&self, events: u64) {
        let mut written = self.written.subscribe();
        let enough = *written.borrow() + events;
        let waiting = written.wait_for(|written| *written >= enough);
        timeout(PATIENCE, waiting).await.expect("the writers go on").unwrap();
    }

    /// Stops the writers. What every one of them was acknowledged is there, once.
    async fn check(self, store: &Arc<dyn Store>) {
        self.stop.store(true, Ordering::SeqCst);
        let joined = timeout(PATIENCE, self.writers.join_all()).await.expect("they end");
        let total: u64 = joined.iter().sum();
        assert_eq!(total, *self.written.borrow());
        let mut sequences = 0;
        for writer in 0..WRITERS {
            let path = format!("a/u{}/s{writer}", writer % 2);
            let view = store.read_state(read_state(&path)).await.unwrap();
            let text = view.state.to_json().into_string();
            let own = view.position.sequence;
            assert!(text.contains(&format!(r#""n":{own}"#)), "{text}");
            assert!(text.contains(&format!(r#""app:n":{total}"#)), "{text} of {total}");
            sequences += own;
        }
        assert_eq!(sequences, total);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_database_under_load_loses_and_doubles_nothing() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let replicas = [open(&cluster.url()).await, open(&cluster.url()).await];
    let load = Load::start(&replicas).await;
    for how in [Stop::Fast, Stop::Immediate] {
        cluster.stop(how);
        becomes(&replicas[0], Condition::Unreachable).await;
        cluster.start_again();
        becomes(&replicas[0], Condition::Ready).await;
        load.more(50).await;
    }
    cluster.kill();
    cluster.start_again();
    load.more(50).await;
    load.check(&replicas[1]).await;
    for replica in replicas {
        replica.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_promotion_of_a_standby_under_load_loses_and_doubles_nothing() {
    let Some((primary, standby)) = Cluster::start_with_standby(&[]) else { return };
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port(),
        standby.port()
    );
    let replicas = [open(&url).await, open(&url).await];
    let load = Load::start(&replicas).await;
    primary.kill();
    standby.promote();
    load.more(50).await;
    load.check(&replicas[1]).await;
    for replica in replicas {
        replica.close().await;
    }
}

/// A primary and a standby that does not hold up commits, with the URL of both.
fn asynchronous() -> Option<(Cluster, Cluster, String)> {
    let primary = Cluster::start(&[])?;
    let standby = primary.standby();
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
        primary.port(),
        standby.port()
    );
    Some((primary, standby, url))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_went_back_is_not_used_until_it_has_every_acknowledged_commit() {
    let Some((primary, standby, url)) = asynchronous() else { return };
    let [writing, other] = [open(&url).await, open(&url).await];
    let context = RequestContext::internal();
    writing.create_session(&context, create("a/u/s", &[])).await.unwrap();
    let mut watch = watching(&other, "a/u/s").await;
    // The standby is away when these are acknowledged.
    standby.stop(Stop::Fast);
    for id in 1..=20 {
        put_until_done(&writing, "a/u/s", &id.to_string()).await;
    }
    sees(&mut watch, "20").await;
    // By then all of them are announced, and this comes behind.
    let told = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle' AND query LIKE '%NOTIFY%, ''________________m________________%'";
    let tells = async {
        while query(&primary.url(), told).await.unwrap().is_empty() {
            yield_now().await
        }
    };
    timeout(PATIENCE, tells).await.expect("a replica tells the numbers of its commits");
    // The other replica has them, because it hears of this later on the same channel.
    put_until_done(&writing, "a/u/s", "21").await;
    sees(&mut watch, "21").await;
    primary.kill();
    standby.start_again();
    standby.promote();
    for replica in [&writing, &other] {
        becomes(replica, Condition::Behind).await;
        let refused = put(replica, append("a/u/s", [event("22", add("n", 1))])).await;
        assert_eq!(refused.unwrap_err(), Error::StoreBehind);
        let refused = replica.read_state(read_state("a/u/s")).await;
        assert_eq!(refused.unwrap_err(), Error::StoreBehind);
    }
    drop(watch);
    // The server that has them comes back, beside the one that lacks them.
    primary.start_again();
    for replica in [&writing, &other] {
        becomes(replica, Condition::Ready).await;
        put_until_done(replica, "a/u/s", "22").await;
        assert_eq!(replica.read_state(read_state("a/u/s")).await.unwrap().position.sequence, 22);
    }
    standby.stop(Stop::Fast);
    for replica in [writing, other] {
        put_until_done(&replica, "a/u/s", "23").await;
        assert_eq!(replica.read_state(read_state("a/u/s")).await.unwrap().position.sequence, 23);
        replica.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_was_accepted_gives_the_database_another_identity() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let store = open(&cluster.url()).await;
    let (context, before) = (RequestContext::internal(), store.id());
    store.create_session(&context, create("a/u/s", &[])).await.unwrap();
    store.close().await;
    let accept = |url: String| async move {
        accept_loss(&url, StoreId([9; 16]), PostgresSettings::default()).await
    };
    accept(cluster.url()).await.unwrap();
    let store = open(&cluster.url()).await;
    assert_eq!((before, store.id()), (StoreId([7; 16]), StoreId([9; 16])));
    store.read_state(read_state("a/u/s")).await.unwrap();
    store.close().await;
    query(&cluster.url(), "CREATE DATABASE empty").await.unwrap();
    let empty = cluster.url().strip_suffix("postgres").unwrap().to_owned() + "empty";
    let error = accept(empty).await.unwrap_err();
    assert!(error.contains("another program's"), "{error}");
    let error = accept("sqlite:x.db".to_owned()).await.unwrap_err();
    assert!(error.starts_with("Only a PostgreSQL database"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_outlives_a_restart_of_the_database() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let proxy = Proxy::start(&cluster.url()).await;
    let store = open(&proxy.url).await;
    store.create_session(&RequestContext::internal(), create("a/u/s", &[])).await.unwrap();
    let mut watch = watching(&store, "a/u/s").await;
    // It is woken, and reads while no read has a connection. Each is tried twice.
    proxy.plan(|it| it.sql.starts_with("BEGIN ISOLATION").then_some(Fault::CutBefore));
    store.notifier().wake_all([Digest::of_scope(&scope("a/u/s"))]);
    let reads = async {
        while proxy.faults() < 4 {
            yield_now().await
        }
    };
    tokio::select! {
        early = watch.next() => panic!("{early:?}"),
        read = timeout(PATIENCE, reads) => read.expect("it reads again"),
    }
    cluster.stop(Stop::Immediate);
    becomes(&store, Condition::Unreachable).await;
    cluster.start_again();
    proxy.plan(|_| None);
    put_until_done(&store, "a/u/s", "1").await;
    sees(&mut watch, "1").await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_ahead_of_its_session_ends() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let store = open(&cluster.url()).await;
    store.create_session(&RequestContext::internal(), create("a/u/s", &[])).await.unwrap();
    for id in ["1", "2"] {
        put(&store, append("a/u/s", [event(id, add("n", 1))])).await.unwrap();
    }
    let mut watch = watching(&store, "a/u/s").await;
    let mut seen = 0;
    while seen < 2 {
        let next = timeout(PATIENCE, watch.next()).await.unwrap().unwrap().unwrap();
        seen += u64::from(matches!(next.0, WatchItem::Event(_)));
    }
    // As after a loss.
    let back = "DELETE FROM event WHERE sequence = 2; UPDATE session SET last_sequence = 1";
    query(&cluster.url(), back).await.unwrap();
    store.notifier().wake_all([Digest::of_scope(&scope("a/u/s"))]);
    let ended = async {
        loop {
            if let Err(error) = watch.next().await.unwrap() {
                return error;
            }
        }
    };
    let error = timeout(PATIENCE, ended).await.unwrap();
    assert_eq!(error, Error::cursor_ahead());
    store.close().await;
}

async fn watching(store: &Arc<dyn Store>, path: &str) -> Watch {
    let engine = Arc::new(Engine::new(Arc::clone(store), EngineOptions::default()));
    engine.watch(&RequestContext::internal(), scope(path), WatchFrom::Beginning).await.unwrap()
}

/// Waits until a watch sees an event.
async fn sees(watch: &mut Watch, id: &str) {
    let seen = async {
        loop {
            let next = watch.next().await.unwrap().unwrap().0;
            if matches!(next, WatchItem::Event(event) if event.event_id.as_str() == id) {
                return;
            }
        }
    };
    timeout(PATIENCE, seen).await.expect("the watch goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_survives_the_loss_of_its_connection() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let store = open(&cluster.url()).await;
    let context = RequestContext::internal();
    store.create_session(&context, create("a/u/s", &[("k", "1")])).await.unwrap();
    store.read_state(read_state("a/u/s")).await.unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    crate::cluster::query(&cluster.url(), others).await.unwrap();
    let state = store.read_state(read_state("a/u/s")).await.unwrap().state;
    assert_eq!(state.to_json().as_str(), r#"{"k":1}"#);
    put_until_done(&store, "a/u/s", "1").await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_certainly_not_applied() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    // What does not wait for the lock has to end within the limit, on a busy machine as well.
    let store = open(&cluster.url()).await;
    let context = RequestContext::internal();
    store.create_session(&context, create("a/u/s", &[])).await.unwrap();
    let (holder, connection) =
        tokio_postgres::connect(&cluster.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    holder.batch_execute("BEGIN; SELECT 1 FROM session FOR UPDATE").await.unwrap();
    let refused = put(&store, append("a/u/s", [event("1", add("n", 1))])).await;
    assert!(matches!(refused, Err(Error::StoreUnavailable(_))), "{refused:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    let appended = put(&store, append("a/u/s", [event("1", add("n", 1))])).await.unwrap();
    assert!(!appended.events[0].replayed);
    store.close().await;
}
