//! Append streams of a caller with a credential: responses that the client does not read, and items that stay incomplete.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sessiond::{
    cli::Failure,
    proto::v1::{AppendEventRequest, AppendEventStreamRequest, JsonForm},
};

use super::requests::{append, create, event, key};
use crate::fairness::{
    attacker::{Attacker, Held, path},
    raw::{Windows, frame, prefix},
    server::SHOP,
};

const METHOD: &str = "EventService/AppendEventStream";

/// A session whose answers have 3 MiB of state.
pub async fn set_up_large_state(it: Arc<Attacker>) -> Result<(), Failure> {
    it.ask(&create(&it.app, "large", "{}")).await?;
    let requests = ["app:", "user:", ""].map(|prefix| {
        let keys = (0..4).map(|key| format!("\"{prefix}k{key}\":\"{}\"", "x".repeat(255_000)));
        let state = format!("{{{}}}", keys.collect::<Vec<_>>().join(","));
        append(&it.app, "large", vec![event(&state)])
    });
    it.make(1, requests.len(), move |number| requests[number].clone()).await;
    Ok(())
}

pub async fn unread_answers(it: Arc<Attacker>) -> Result<(), Failure> {
    let append = AppendEventRequest {
        key: Some(key(&it.app, "large")),
        event: Some(event("{}")),
        return_state: true,
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    let item = frame(&AppendEventStreamRequest { append: Some(append) });
    it.hold(Held {
        path: path(METHOD),
        token: Some(SHOP),
        connections: 1,
        streams_each: 120,
        windows: Windows::Zero,
        bytes: Bytes::from(item.repeat(16)),
        ends: false,
    })
    .await
}

/// Items of 4 MiB less 200 bytes, of which the last byte is missing.
pub async fn half_items(it: Arc<Attacker>) -> Result<(), Failure> {
    let bytes = (4 << 20) - 200;
    let mut item: BytesMut = prefix(bytes);
    item.resize(5 + bytes - 1, 0);
    it.hold(Held {
        path: path(METHOD),
        token: Some(SHOP),
        connections: 2,
        streams_each: 150,
        windows: Windows::Usual,
        bytes: item.freeze(),
        ends: false,
    })
    .await
}

/// As many as a client without a credential may try, of a caller that has one.
pub async fn empty_streams(it: Arc<Attacker>) -> Result<(), Failure> {
    it.hold(Held {
        path: path(METHOD),
        token: Some(SHOP),
        connections: 20,
        streams_each: 4000,
        windows: Windows::Usual,
        bytes: Bytes::new(),
        ends: false,
    })
    .await
}
