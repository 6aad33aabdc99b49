//! Several hosts, of which the first says nothing: neither that it is there nor that it is not.

use std::{net::SocketAddr, sync::atomic::Ordering::Relaxed};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

use super::*;
use crate::postgres_store::open_with;
use sessiond_store::{SessionQuery, Store};

/// A port whose queue of connections is full, so that the kernel answers no further one.
async fn silent() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(500), TcpStream::connect(address)).await
    {
        waiting.push(connected.unwrap());
    }
    (address, listener, waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_first_host_is_passed_by_writes_and_reads() {
    let (silent, _listener, _waiting) = silent().await;
    let first = |options: PostgresOptions| {
        let url = options.url.replace("@127.0.0.1:", &format!("@{silent},127.0.0.1:"));
        assert_ne!(url, options.url);
        PostgresOptions { url, ..options }
    };
    let Some(fixture) = Fixture::with(first).await else { return };
    let opened = open_with(fixture.shared.options.clone(), MIGRATIONS).await.unwrap();
    assert_eq!(opened.shared.address.last.load(Relaxed), 1);
    let store: Arc<dyn Store> = Arc::new(opened);
    store.create_session(&call(), creation("s")).await.unwrap();
    let query = SessionQuery::info(SessionRef::Full(super::address("s")));
    assert_eq!(store.read_session(query).await.unwrap().info.last_sequence, 0);
    store.close().await;
}

/// As a server does whose machine stands still: the kernel takes connections.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_first_host_delays_nothing() {
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = frozen.local_addr().unwrap();
    let first = |options: PostgresOptions| {
        let url = options.url.replace("@127.0.0.1:", &format!("@{address},127.0.0.1:"));
        let join = if url.contains('?') { '&' } else { '?' };
        // Only another host that is tried at the same time answers before the test gives up.
        PostgresOptions { url: format!("{url}{join}connect_timeout=3600"), ..options }
    };
    let Some(fixture) = Fixture::with(first).await else { return };
    let opened = open_with(fixture.shared.options.clone(), MIGRATIONS);
    let store = timeout(Duration::from_secs(60), opened).await.expect("nothing waits").unwrap();
    assert_eq!(store.shared.address.last.load(Relaxed), 1);
    let store: Arc<dyn Store> = Arc::new(store);
    store.create_session(&call(), creation("s")).await.unwrap();
    store.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_takes_connections_and_never_answers_is_a_failed_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://me@{}/x", listener.local_addr().unwrap());
    let shared = Shared::new(PostgresOptions::new(url, StoreId([7; 16]))).unwrap();
    let attempt = timeout(Duration::from_secs(3600), shared.connect());
    assert!(attempt.await.expect("an attempt has a limit of its own").is_err());
    assert_eq!(shared.options.metrics.postgres().failed_connects.get(), 1);
}
