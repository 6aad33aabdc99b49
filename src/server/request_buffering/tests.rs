//! Request bodies that are complete at once, in parts, late or never.

use futures_util::{
    Stream, StreamExt as _,
    future::{pending, ready},
    stream,
};
use tokio::time::Instant;
use tonic_types::StatusExt as _;

use super::*;

type Part = Result<Bytes, Status>;

fn request(parts: impl Stream<Item = Part> + Send + 'static) -> Request<Body> {
    Request::new(Body::new(axum::body::Body::from_stream(parts)))
}

fn parts(sizes: &[usize]) -> impl Stream<Item = Part> + Send + use<> {
    stream::iter(sizes.to_vec()).map(|size| Ok(Bytes::from(vec![7; size])))
}

fn held(buffers: &RequestBuffers) -> usize {
    buffers.0.load(Relaxed)
}

fn reason(refusal: &Status) -> String {
    refusal.get_details_error_info().unwrap().reason
}

#[tokio::test]
async fn a_request_stays_what_it_was_and_is_held_until_its_answer() {
    for sizes in [&[][..], &[5], &[3, 0, 4], &[MESSAGE_BYTES, 5], &[REQUEST_BYTES]] {
        let buffers = RequestBuffers::default();
        let (request, call) = buffers.whole(request(parts(sizes)), pending()).await.unwrap();
        let all: usize = sizes.iter().sum();
        assert_eq!(held(&buffers), all);
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), all);
        drop(call);
        assert_eq!(held(&buffers), 0);
    }
}

#[tokio::test]
async fn a_larger_request_is_not_read_to_its_end() {
    let buffers = RequestBuffers::default();
    let larger = request(parts(&[REQUEST_BYTES, 1]));
    assert!(buffers.whole(larger, pending()).await.is_err());
    let endless = request(stream::repeat_with(|| Ok(Bytes::from(vec![7; MESSAGE_BYTES]))));
    let refusal = buffers.whole(endless, pending()).await.err().unwrap();
    assert_eq!(reason(&refusal), Reason::MessageTooLarge.as_str());
    assert_eq!(held(&buffers), 0);
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the test looks how long a request is waited for")]
async fn the_rest_of_a_request_has_to_come_in_time() {
    let (buffers, began) = (RequestBuffers::default(), Instant::now());
    let begun = request(parts(&[5]).chain(stream::pending()));
    let refusal = buffers.whole(begun, pending()).await.err().unwrap();
    assert_eq!(began.elapsed(), TIMEOUT);
    assert_eq!(reason(&refusal), Reason::BadMessage.as_str());
    assert_eq!(held(&buffers), 0);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_the_rest_of_a_request() {
    let buffers = RequestBuffers::default();
    let begun = request(parts(&[5]).chain(stream::pending()));
    let refusal = buffers.whole(begun, ready(())).await.err().unwrap();
    assert_eq!(reason(&refusal), Reason::Draining.as_str());
    let (_, call) = buffers.whole(request(parts(&[5])), ready(())).await.unwrap();
    assert_eq!(call.bytes, 5, "one that has come is served");
}

#[tokio::test]
async fn what_all_requests_hold_is_bounded() {
    let (buffers, mut calls) = (RequestBuffers::default(), Vec::new());
    let refusal = loop {
        match buffers.whole(request(parts(&[MESSAGE_BYTES])), pending()).await {
            Ok((_, call)) => calls.push(call),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(reason(&refusal), Reason::Overloaded.as_str());
    assert_eq!(held(&buffers), ALL_BYTES, "the refused one holds nothing");
    calls.pop();
    assert!(buffers.whole(request(parts(&[1])), pending()).await.is_ok());
}
