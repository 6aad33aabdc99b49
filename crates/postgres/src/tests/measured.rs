//! Metrics of statements and of the tables.

use super::*;
use crate::postgres_store::open;
use sessiond_metrics::SqlError;
use sessiond_store::Store;

#[tokio::test]
async fn errors_are_counted_by_their_state() {
    let Some(fixture) = Fixture::new().await else { return };
    let connection = fixture.shared.connect().await.unwrap();
    let metrics = fixture.shared.options.metrics.postgres();
    let counts = || {
        let errors = [
            SqlError::SerializationFailure,
            SqlError::Deadlock,
            SqlError::UniqueViolation,
            SqlError::Other,
        ];
        errors.map(|error| metrics.error(error).get())
    };
    assert_eq!(counts(), [0; 4]);
    for state in ["40001", "40P01", "23505", "22012"] {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$");
        connection.batch(&raise).await.unwrap_err();
    }
    assert_eq!(counts(), [1; 4]);
    let lost = metrics.error(SqlError::ConnectionLost);
    connection.batch("SELECT pg_terminate_backend(pg_backend_pid())").await.unwrap_err();
    assert_eq!(lost.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_sessions_are_counted_until_they_are_swept() {
    let Some(fixture) = Fixture::new().await else { return };
    let options = fixture.shared.options.clone();
    let metrics = Arc::clone(&options.metrics);
    let store = open(options).await.unwrap();
    let store: &dyn Store = &store;
    let waiting = async || {
        metrics.scrape().await.unwrap();
        metrics.reads.expired_sessions.get()
    };
    let expiration = Some(sessiond_core::domain::session::Expiration::At(at(10)));
    for id in ["a", "b"] {
        let creation = CreateSession { expiration, ..creation(id) };
        store.create_session(&call(), creation).await.unwrap();
    }
    assert_eq!(waiting().await, 0);
    fixture.set_clock(10);
    assert_eq!(waiting().await, 2);
    while store.sweep().await.unwrap() {}
    assert_eq!(waiting().await, 0);
    assert!(metrics.reads.store_bytes.get() > 8192);
    store.close().await;
}
