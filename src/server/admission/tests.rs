//! Calls that take permits, and refusals.

use std::{
    convert::Infallible,
    iter,
    task::{Context, Poll},
};

use futures_util::stream::pending;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    time::pause,
};
use tonic::{
    Code, Status,
    codegen::{self, BoxFuture, Bytes, Service, StdError},
};

use super::*;
use crate::access::{Identity, Principal};
use crate::server::connections::http;

#[tokio::test]
async fn a_message_of_a_refused_call_is_not_converted() {
    let (meter, mut request) = (Meter::default(), Request::new(Body::empty()));
    request.extensions_mut().insert(meter.clone());
    after_rest(request, Response::new(Body::empty())).await;
    assert!(meter.is_refused());
}

#[test]
fn a_caller_leaves_permits_to_others() {
    let admission = Admission::default();
    let identified = |name: &str| Principal::Identified(Arc::new(Identity::new(name)));
    let caller = |name: &str| CallerId::new(&identified(name), 1);
    // A connection without an identity is a caller as well.
    let [flood, modest, new] =
        [caller("flood"), CallerId::new(&Principal::Local, 1), CallerId::new(&Principal::Local, 2)];
    let take = |caller: CallerId, most: usize| {
        iter::from_fn(|| admission.permit(caller)).take(most).collect::<Vec<_>>()
    };
    let mut flooding = take(flood, MOST_CALLS);
    assert_eq!(flooding.len(), MOST_CALLS * 3 / 4, "the last quarter is for others");
    let others = take(modest, MOST_CALLS);
    assert_eq!(others.len(), MOST_CALLS / 4);
    assert!(admission.permit(new).is_none(), "all are taken");
    flooding.truncate(1);
    assert!(admission.permit(flood).is_some(), "many are free again");
    drop((flooding, others));
    let flooding = take(flood, MOST_CALLS);
    assert_eq!(flooding.len(), MOST_CALLS * 3 / 4, "and no caller is left");
    drop(flooding);
    let callers: Vec<_> = (0..MOST_CALLS).map(|number| caller(&number.to_string())).collect();
    let permits: Vec<_> = callers.iter().filter_map(|it| admission.permit(*it)).collect();
    assert_eq!(permits.len(), MOST_CALLS, "however many callers there are");
}

/// A service that refuses every call.
#[derive(Clone)]
struct Refusing(Arc<Admission>);

impl<B> Service<Request<B>> for Refusing
where
    B: codegen::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let refused = self.0.refuse(request.map(Body::new));
        Box::pin(async move { Ok(refused.await) })
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Kinds and payloads of the frames in these bytes.
fn frames(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        frames.push((head[3], &rest[..length]));
        bytes = &rest[length..];
    }
    frames
}

#[tokio::test]
async fn a_connection_outlives_refusals_whose_messages_come_late() {
    const CALLS: u32 = 250;
    const ROUNDS: u32 = 12;
    pause();
    let refuse = TowerToHyperService::new(Refusing(Arc::default()));
    let (mut client, server) = duplex(1 << 20);
    let served = tokio::spawn(async move {
        http(true)
            .serve_connection(TokioIo::new(server), refuse)
            .await
            .map_err(|error| error.to_string())
    });
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    let mut answered = Vec::new();
    for round in 0..ROUNDS {
        let streams = (0..CALLS).map(|call| 2 * (round * CALLS + call) + 1);
        let ask: Vec<_> =
            streams.clone().flat_map(|stream| frame(HEADERS, 4, stream, b"\x83\x86\x84")).collect();
        let message: Vec<_> = streams.flat_map(|stream| frame(DATA, 1, stream, b"late")).collect();
        for part in [ask, message] {
            client.write_all(&part).await.unwrap();
            // Until the server has nothing left to do: only then the clock moves.
            while let Ok(read) = timeout(REST / 2, client.read_buf(&mut answered)).await {
                assert_ne!(read.unwrap(), 0, "{:?}", served.is_finished());
            }
        }
    }
    let frames = frames(&answered);
    let kinds = |kind| frames.iter().filter(|frame| frame.0 == kind).count();
    assert_eq!((kinds(HEADERS), kinds(GOAWAY)), ((CALLS * ROUNDS) as usize, 0));
}

#[tokio::test]
async fn a_refusal_does_not_wait_for_a_stream_without_end() {
    pause();
    let admission = Admission::default();
    let endless = axum::body::Body::from_stream(pending::<Result<Bytes, Infallible>>());
    let refused = admission.refuse(Request::new(Body::new(endless)));
    let refused = timeout(REST * 2, refused).await.unwrap();
    let status = Status::from_header_map(refused.headers()).unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted);
}
