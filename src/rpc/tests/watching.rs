//! Watches over a socket.

use std::sync::{Arc, atomic::Ordering};

use tokio_stream::StreamExt;
use tonic::{Code, Streaming};
use tonic_types::StatusExt;

use super::{Server, gated::GatedStore, key, refusal, serve, server};
use crate::{
    proto::v1::{
        JsonForm, Scope, WatchRequest, WatchResponse, WatchStart, state_snapshot::StateForm,
        watch_response::Kind,
    },
    rpc::{BareIds, status::reason},
};

fn scope(session: &str) -> Option<Scope> {
    let crate::proto::v1::SessionKey { app_name, user_id, session_id } = key(session);
    Some(Scope { app_name, user_id, session_id })
}

async fn watch(server: &Server, request: WatchRequest) -> Streaming<WatchResponse> {
    let json_form = JsonForm::Text.into();
    let request = WatchRequest { scope: scope("s"), json_form, ..request };
    server.watches().watch(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<WatchResponse>) -> (Kind, String) {
    let message = stream.next().await.unwrap().unwrap();
    (message.kind.unwrap(), message.cursor)
}

fn sequence(kind: &Kind) -> i64 {
    match kind {
        Kind::Event(event) => event.sequence,
        other => panic!("no event: {other:?}"),
    }
}

#[tokio::test]
async fn a_watch_begins_with_the_state_and_goes_on_from_its_cursor() {
    let server = server().await;
    let session = server.create("s", "{\"a\":1.0}").await;
    let mut stream = watch(&server, WatchRequest::default()).await;
    let (Kind::Snapshot(snapshot), _) = next(&mut stream).await else { panic!("no snapshot") };
    assert_eq!(snapshot.state_form, Some(StateForm::StateJson("{\"a\":1.0}".into())));
    let (caught_up, cursor) = next(&mut stream).await;
    assert!(matches!(caught_up, Kind::CaughtUp(_)));
    server.append(&session, "e1", "{}").await;
    server.append(&session, "e2", "{}").await;
    assert_eq!(sequence(&next(&mut stream).await.0), 1);
    assert_eq!(sequence(&next(&mut stream).await.0), 2);
    let mut resumed = watch(&server, WatchRequest { cursor, ..Default::default() }).await;
    assert_eq!(sequence(&next(&mut resumed).await.0), 1);
    assert_eq!(sequence(&next(&mut resumed).await.0), 2);
}

#[tokio::test]
async fn a_watch_ends_when_the_server_stops_with_the_cursor_to_come_back_with() {
    let server = server().await;
    let session = server.create("s", "{}").await;
    let start = WatchStart::Now.into();
    let mut stream = watch(&server, WatchRequest { start, ..Default::default() }).await;
    assert!(matches!(next(&mut stream).await.0, Kind::CaughtUp(_)));
    server.append(&session, "e1", "{}").await;
    let (_, cursor) = next(&mut stream).await;
    server.engine.drain();
    let status = stream.next().await.unwrap().unwrap_err();
    assert_eq!((status.code(), reason(&status).as_deref()), (Code::Unavailable, Some("DRAINING")));
    assert_eq!(status.get_details_error_info().unwrap().metadata["cursor"], cursor);
    assert!(stream.next().await.is_none());
    let late = WatchRequest { scope: scope("s"), ..Default::default() };
    let refused = server.watches().watch(late).await;
    assert_eq!(refusal(refused), (Code::Unavailable, "DRAINING".into()));
}

#[tokio::test]
async fn a_watch_that_ends_before_its_first_message_has_the_cursor_of_its_start() {
    let store = Arc::new(GatedStore::new());
    store.open(2);
    let server = serve(store.clone(), BareIds::Allowed).await;
    server.create("s", "{}").await;
    let start = WatchStart::Now.into();
    let now = WatchRequest { start, ..Default::default() };
    let (_, cursor) = next(&mut watch(&server, now.clone()).await).await;
    // Nothing can be read.
    store.busy.store(u64::MAX, Ordering::SeqCst);
    let mut stream = watch(&server, now).await;
    server.engine.drain();
    let status = stream.next().await.unwrap().unwrap_err();
    assert_eq!(reason(&status).as_deref(), Some("DRAINING"));
    assert_eq!(status.get_details_error_info().unwrap().metadata["cursor"], cursor);
}

#[tokio::test]
async fn a_watch_of_a_session_that_goes_says_so_and_ends() {
    let server = server().await;
    let session = server.create("s", "{}").await;
    let start = WatchStart::Now.into();
    let mut stream = watch(&server, WatchRequest { start, ..Default::default() }).await;
    assert!(matches!(next(&mut stream).await.0, Kind::CaughtUp(_)));
    let request = crate::proto::v1::DeleteSessionRequest {
        key: Some(session),
        allow_missing: false,
        ..Default::default()
    };
    server.sessions().delete_session(request).await.unwrap();
    assert!(matches!(next(&mut stream).await.0, Kind::SessionDeleted(_)));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_watch_that_cannot_begin_is_refused_by_the_call() {
    let server = server().await;
    let missing = WatchRequest { scope: scope("missing"), ..Default::default() };
    let refused = server.watches().watch(missing).await;
    assert_eq!(refusal(refused), (Code::NotFound, "SESSION_NOT_FOUND".into()));
    server.create("s", "{}").await;
    let cursor = "nonsense".to_owned();
    let bad = WatchRequest { scope: scope("s"), cursor, ..Default::default() };
    let refused = server.watches().watch(bad).await;
    assert_eq!(refusal(refused), (Code::InvalidArgument, "BAD_CURSOR".into()));
}

#[tokio::test]
async fn a_watch_waits_while_the_queue_of_reads_is_full() {
    let store = Arc::new(GatedStore::new());
    store.open(2);
    let server = serve(store.clone(), BareIds::Allowed).await;
    let session = server.create("s", "{}").await;
    let start = WatchStart::Now.into();
    let mut stream = watch(&server, WatchRequest { start, ..Default::default() }).await;
    assert!(matches!(next(&mut stream).await.0, Kind::CaughtUp(_)));
    store.busy.store(2, Ordering::SeqCst);
    server.append(&session, "e1", "{}").await;
    assert_eq!(sequence(&next(&mut stream).await.0), 1);
    assert_eq!(store.busy.load(Ordering::SeqCst), 0);
    // It says that it lives meanwhile.
    store.busy.store(u64::MAX, Ordering::SeqCst);
    server.append(&session, "e2", "{}").await;
    assert!(matches!(next(&mut stream).await.0, Kind::Heartbeat(_)));
    store.busy.store(0, Ordering::SeqCst);
    assert_eq!(sequence(&next(&mut stream).await.0), 2);
}
