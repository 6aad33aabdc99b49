//! Requests that are complete at once, in parts, late or never.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use futures_util::{Stream, StreamExt as _, stream};
use prost::Message as _;
use tokio::time::Instant;
use tonic_types::StatusExt as _;

use super::*;
use crate::{
    domain::error::Reason,
    proto::v1::{AppendEventsRequest, Event},
    rpc::methods,
    store::account::Account,
};

const UNARY: &str = "/sessiond.v1.EventService/AppendEvents";
const STREAM: &str = "/sessiond.v1.EventService/AppendEventStream";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// The bytes that an account has, of which a connection may hold a quarter.
const ACCOUNT: usize = 400 << 20;

fn method(path: &str) -> Arc<Method> {
    methods().into_iter().find(|method| method.path == path).unwrap().into()
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag], &length[..], message].concat()
}

/// One that is skipped by the decoder.
fn message(length: usize) -> Vec<u8> {
    // An unknown field of bytes.
    let mut field = vec![0xfa, 0x7f];
    prost::encoding::encode_varint(length as u64, &mut field);
    [field, vec![7; length]].concat()
}

fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(message).unwrap();
    encoder.finish().unwrap()
}

fn body(parts: impl Stream<Item = Vec<u8>> + Send + 'static) -> Body {
    Body::new(axum::body::Body::from_stream(parts.map(|part| Ok::<_, Status>(Bytes::from(part)))))
}

fn parts(bytes: &[u8], size: usize) -> impl Stream<Item = Vec<u8>> + Send + use<> {
    stream::iter(bytes.chunks(size).map(<[u8]>::to_vec).collect::<Vec<_>>())
}

struct Fixture {
    account: Account,
    call: CallAccount,
}

fn fixture() -> Fixture {
    let account = Account::new(ACCOUNT, || {});
    let call = account.connection(true).call().unwrap();
    Fixture { account, call }
}

impl Fixture {
    fn messages(&self, path: &str, body: Body, phase: Option<watch::Receiver<Phase>>) -> Messages {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-encoding", "gzip".parse().unwrap());
        Messages::new(body, &headers, method(path), self.call.clone(), phase)
    }

    async fn one(&self, body: Body) -> Result<Vec<u8>, Status> {
        let body = self.messages(UNARY, body, None).one().await?;
        Ok(body.collect().await?.to_bytes().to_vec())
    }

    /// What is charged beside the call itself.
    fn held(&self) -> usize {
        self.account.bytes() - crate::store::account::CALL_BYTES
    }
}

/// The phase of a server that shuts down.
fn stopping() -> watch::Receiver<Phase> {
    watch::channel(Phase::Draining).1
}

fn reason(refusal: &Status) -> String {
    refusal.get_details_error_info().unwrap().reason
}

#[tokio::test]
async fn a_message_stays_what_it_was_however_it_comes_and_is_charged_until_its_answer() {
    for (length, size) in [(0, 1), (300, 1), (300, 4), (300, 1000), ((4 << 20) - 7, 16 << 10)] {
        let fixture = fixture();
        let sent = framed(0, &message(length));
        assert_eq!(fixture.one(body(parts(&sent, size))).await.unwrap(), sent);
        assert!(fixture.held() >= sent.len(), "{}", fixture.held());
        drop(fixture.call);
        assert_eq!(fixture.account.bytes(), 0);
    }
    let refusal = fixture().one(Body::empty()).await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::BadMessage.as_str(), "a message is missing");
}

#[tokio::test]
async fn a_compressed_message_is_charged_as_what_it_becomes() {
    let fixture = fixture();
    let message = message(3 << 20);
    let sent = framed(1, &gzip(&message));
    assert!(sent.len() < 10_000);
    assert_eq!(fixture.one(body(parts(&sent, 1000))).await.unwrap(), framed(0, &message));
    assert!(fixture.held() >= 3 << 20);
    let refusal = fixture.one(body(parts(&framed(1, b"not gzip"), 100))).await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::BadMessage.as_str());
}

#[tokio::test]
async fn a_wrong_compression_flag_is_named() {
    let fixture = fixture();
    let refusal = fixture.one(body(parts(&framed(2, b""), 9))).await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::BadMessage.as_str());
    let sent = body(parts(&framed(1, &gzip(b"")), 100));
    let (method, account) = (method(UNARY), fixture.call.clone());
    let plain = Messages::new(sent, &HeaderMap::new(), method, account, None);
    assert_eq!(reason(&plain.one().await.unwrap_err()), Reason::BadMessage.as_str());
}

#[tokio::test]
async fn what_a_message_is_decoded_into_is_charged() {
    let fixture = fixture();
    let events = vec![Event::default(); 1000];
    let message = AppendEventsRequest { events, ..AppendEventsRequest::default() };
    fixture.one(body(parts(&framed(0, &message.encode_to_vec()), 1000))).await.unwrap();
    assert!(fixture.held() > 1000 * size_of::<Event>() / 2, "{}", fixture.held());
    let events = vec![Event::default(); 500_000];
    let message = AppendEventsRequest { events, ..AppendEventsRequest::default() };
    let refusal = fixture.one(body(parts(&framed(0, &message.encode_to_vec()), 1 << 20))).await;
    assert_eq!(reason(&refusal.unwrap_err()), Reason::BadMessage.as_str());
}

#[tokio::test]
async fn a_larger_message_is_refused_by_its_header() {
    let largest = framed(0, &message(MESSAGE_BYTES - 6));
    assert_eq!(largest.len(), HEADER + MESSAGE_BYTES);
    assert!(fixture().one(body(parts(&largest, 1 << 20))).await.is_ok());
    let header = [&[0][..], &(MESSAGE_BYTES as u32 + 1).to_be_bytes()].concat();
    let endless = body(parts(&header, 5).chain(stream::pending()));
    let refusal = fixture().one(endless).await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::MessageTooLarge.as_str());
    let compressed = framed(1, &gzip(&message(MESSAGE_BYTES)));
    let refusal = fixture().one(body(parts(&compressed, 1000))).await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::MessageTooLarge.as_str());
    let open = body(parts(&framed(0, &message(OPEN_REQUEST_BYTES)), 1000));
    let refusal = fixture().messages(HEALTH, open, None).one().await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::MessageTooLarge.as_str());
}

#[tokio::test]
async fn a_unary_request_is_one_message() {
    let two = framed(0, &message(1)).repeat(2);
    for size in [1, 1000] {
        let refusal = fixture().one(body(parts(&two, size))).await.unwrap_err();
        assert_eq!(reason(&refusal), Reason::BadMessage.as_str());
    }
    let cut = body(parts(&two[..7], 1000));
    assert_eq!(reason(&fixture().one(cut).await.unwrap_err()), Reason::BadMessage.as_str());
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the test looks how long a request is waited for")]
async fn the_rest_of_a_message_has_to_come_in_time() {
    for (path, begun) in [(UNARY, &b""[..]), (UNARY, &[0, 0]), (STREAM, &[0, 0])] {
        let (fixture, began) = (fixture(), Instant::now());
        let begun = body(parts(begun, 5).chain(stream::pending()));
        let messages = fixture.messages(path, begun, None);
        let refusal = match path {
            UNARY => messages.one().await.unwrap_err(),
            _ => messages.stream().collect().await.unwrap_err(),
        };
        assert_eq!(began.elapsed(), TIMEOUT, "{path}");
        assert_eq!(reason(&refusal), Reason::BadMessage.as_str());
    }
    let fixture = fixture();
    let whole = body(parts(&framed(0, b""), 9).chain(stream::pending()));
    let mut silent = fixture.messages(STREAM, whole, None).stream();
    silent.frame().await.unwrap().unwrap();
    assert!(tokio::time::timeout(TIMEOUT * 100, silent.frame()).await.is_err(), "it may be silent");
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_the_rest_of_a_request() {
    let begun = || body(parts(b"\0\0\0", 5).chain(stream::pending()));
    let fixture = fixture();
    let refusal = fixture.messages(UNARY, begun(), Some(stopping())).one().await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::Draining.as_str());
    let whole = body(parts(&framed(0, b""), 9));
    assert!(fixture.messages(UNARY, whole, Some(stopping())).one().await.is_ok(), "it has come");
}

#[tokio::test]
async fn an_item_is_charged_until_the_next_one_is_asked_for() {
    let fixture = fixture();
    let items = [framed(0, &message(1000)), framed(0, &message(10))].concat();
    let mut items = fixture.messages(STREAM, body(parts(&items, 900)), None).stream();
    let mut next = async || items.frame().await.transpose().unwrap();
    next().await.unwrap();
    assert!(fixture.held() >= 1000);
    next().await.unwrap();
    assert!((10..1000).contains(&fixture.held()), "{}", fixture.held());
    assert!(next().await.is_none());
    assert_eq!(fixture.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_compressed_item_waits_before_it_is_decompressed() {
    let fixture = fixture();
    let full = fixture.call.item();
    full.take(ACCOUNT / 4 - crate::store::account::CALL_BYTES - MESSAGE_BYTES).unwrap();
    let sent = framed(1, &gzip(&message(3 << 20)));
    let before = fixture.held();
    let mut items = fixture.messages(STREAM, body(parts(&sent, 1000)), None).stream();
    assert!(tokio::time::timeout(TIMEOUT / 2, items.frame()).await.is_err());
    assert_eq!(fixture.held(), before + sent.len());
    drop(full);
    assert_eq!(
        items.frame().await.unwrap().unwrap().into_data().unwrap(),
        framed(0, &message(3 << 20))
    );
    assert!((3 << 20..4 << 20).contains(&fixture.held()), "{}", fixture.held());
}

#[tokio::test(start_paused = true)]
async fn without_capacity_a_request_is_refused_and_a_stream_waits() {
    let fixture = fixture();
    let full = fixture.call.item();
    full.take(ACCOUNT / 4 - crate::store::account::CALL_BYTES - 100).unwrap();
    let sent = framed(0, &message(1000));
    let refusal = fixture.one(body(parts(&sent, 1000))).await.unwrap_err();
    assert_eq!(reason(&refusal), Reason::Overloaded.as_str());
    let mut items = fixture.messages(STREAM, body(parts(&sent, 1000)), None).stream();
    assert!(tokio::time::timeout(TIMEOUT / 2, items.frame()).await.is_err());
    drop(full);
    assert!(items.frame().await.unwrap().is_ok());
}
