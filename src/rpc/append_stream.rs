//! AppendEventStream: items are passed to the store as they arrive, and answered in that order while later ones are still being
//! committed.

use std::{future::poll_fn, task::Poll};

use futures_util::{
    future::{BoxFuture, ready},
    stream::{FuturesOrdered, unfold},
};
use prost::Message;
use tokio_stream::{Stream, StreamExt};
use tonic::{Status, Streaming};

use super::{Handlers, call::Call, large::encoded, prelude::*};
use crate::{
    engine::dropped_keys,
    proto::v1::{
        AppendEventStreamRequest, AppendEventStreamResponse, append_event_stream_response::Outcome,
    },
    store::account::CallAccount,
};

/// Items of one stream in flight: enough to fill the commits of a disk, few enough that one stream does not fill the store's queue.
const IN_FLIGHT: usize = 256;

/// Bytes of a stream's items in flight, requests and answers: four of the largest messages.
const IN_FLIGHT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that count for the state in an answer, whose size is not known yet. The account bounds what it becomes.
const STATE_BYTES: usize = 1024 * 1024;

/// Bytes in memory of the shortest item, with its call and its answer.
const ITEM_BYTES: usize = 4 * 1024;

/// The answers to a stream of appends.
pub fn answers(
    handlers: Handlers,
    call: Call,
    items: Streaming<AppendEventStreamRequest>,
) -> impl Stream<Item = Result<AppendEventStreamResponse, Status>> + Send {
    let pipeline = Pipeline {
        handlers,
        call,
        items,
        next_index: 0,
        held: None,
        in_flight: FuturesOrdered::new(),
        bytes: 0,
        late: Vec::new(),
        open: true,
        failure: None,
    };
    unfold(pipeline, |mut pipeline| async move {
        let answer = pipeline.next().await?;
        Some((answer, pipeline))
    })
}

/// An item that has been read.
struct Item {
    index: i64,
    bytes: usize,
    call: Call,
    append: Result<(Append, Mode), Error>,
}

/// The answer to an item, with what counts for it until it is sent.
struct Answered {
    bytes: usize,
    _account: CallAccount,
    response: AppendEventStreamResponse,
}

struct Pipeline {
    handlers: Handlers,
    call: Call,
    items: Streaming<AppendEventStreamRequest>,
    next_index: i64,
    /// An item that has to wait for an earlier one of its session.
    held: Option<Item>,
    in_flight: FuturesOrdered<BoxFuture<'static, Answered>>,
    bytes: usize,
    /// Index and session of items in flight that may reach the store later than their first poll.
    late: Vec<(i64, SessionId)>,
    /// Whether further items are read.
    open: bool,
    /// Follows the last answer.
    failure: Option<Status>,
}

impl Pipeline {
    /// The next answer; `None` at the end.
    async fn next(&mut self) -> Option<Result<AppendEventStreamResponse, Status>> {
        loop {
            if let Some(item) = self.held.take() {
                self.start(item).await;
            }
            if !self.open && self.in_flight.is_empty() {
                return self.failure.take().map(Err);
            }
            let full = self.in_flight.len() >= IN_FLIGHT || self.bytes >= IN_FLIGHT_BYTES;
            let wants = self.open && !full && self.held.is_none();
            let has_capacity = self.call.context.account.check().is_ok();
            let reads = wants && has_capacity;
            // Reading comes before answering, so that the store has work while answers are sent.
            tokio::select! {
                biased;
                () = self.handlers.engine.draining.cancelled(), if self.open => {
                    // An item that was not started was certainly not applied. All others are answered before the stream ends.
                    let unstarted = i64::from(self.held.take().is_some());
                    let answered = (self.next_index - unstarted).to_string();
                    let at = Some(("answered", answered.as_str()));
                    let status = self.call.stream_status(&Error::Draining, at);
                    (self.open, self.failure) = (false, Some(status));
                }
                item = self.items.next(), if reads => match item {
                    Some(Ok(request)) => self.held = Some(self.read(request)),
                    Some(Err(refusal)) => (self.open, self.failure) = (false, Some(refusal)),
                    None => self.open = false,
                },
                Some(answer) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    let Answered { bytes, response, .. } = answer;
                    self.bytes -= bytes;
                    self.late.retain(|(late, _)| *late != response.index);
                    return Some(Ok(response));
                }
                () = self.call.context.account.capacity(0), if wants && !has_capacity => {}
            }
        }
    }

    fn read(&mut self, request: AppendEventStreamRequest) -> Item {
        let AppendEventStreamRequest { append } = request;
        let (index, call) = (self.next_index, self.call.item());
        self.next_index += 1;
        let size = append.as_ref().map_or(0, Message::encoded_len);
        let returns_state = append.as_ref().is_some_and(|append| append.return_state);
        let bytes = size + if returns_state { STATE_BYTES } else { 0 };
        call.context.account.note(ITEM_BYTES + size);
        let missing = || Error::invalid("append", Reason::MissingField, "This field is required.");
        let append = append.ok_or_else(missing);
        let Handlers { engine, bare } = &self.handlers;
        let decoded = |it| decode::decode(it, *bare, engine.store.id(), decode::append_event);
        let append = append.and_then(decoded);
        let append = call.decoded(append);
        Item { index, bytes, call, append }
    }

    /// Passes an item to the store, unless an earlier one of the same session may still be on its way there.
    ///
    /// The store keeps the order of first polls, so each item is polled here, before the next one is read.
    async fn start(&mut self, mut item: Item) {
        // Resolves a bare id before the next item is read, so that items keep their order.
        if let Ok((append, _)) = &mut item.append
            && matches!(append.session, SessionRef::Bare(..))
            && let Err(error) = self.handlers.engine.store.resolve(&item.call.context, append).await
        {
            item.append = Err(error);
        }
        if let Ok((append, _)) = &item.append {
            let (SessionRef::Full(SessionKey { session_id: id, .. }) | SessionRef::Bare(id, _)) =
                &append.session;
            // Sessions of the same id count as one here.
            if self.late.iter().any(|(_, late)| late == id) {
                self.held = Some(item);
                return;
            }
            if !self.handlers.engine.submits_at_once(append) {
                self.late.push((item.index, id.clone()));
            }
        }
        self.bytes += item.bytes;
        let mut answer = Box::pin(append(self.handlers.clone(), item));
        self.in_flight.push_back(match poll_fn(|it| Poll::Ready(answer.as_mut().poll(it))).await {
            Poll::Ready(answer) => Box::pin(ready(answer)),
            Poll::Pending => answer,
        });
    }
}

async fn append(handlers: Handlers, item: Item) -> Answered {
    let Item { index, bytes, call, append } = item;
    let append = call.run(async {
        let (append, mode) = append?;
        let dropped = encode::dropped_temp_keys(dropped_keys(&append));
        let answer = handlers.engine.append_events(&call.context, append).await?;
        Ok(encoded(answer, |it| encode::append_event(it, dropped, mode.inner())).await)
    });
    let outcome = match append.await {
        Ok(appended) => Outcome::Appended(appended),
        Err(status) => {
            let failure = encode::failure(&status);
            handlers.engine.metrics.refusals.count(Some(&failure.reason));
            Outcome::Failure(failure)
        }
    };
    if let Some(spans) = &call.context.spans {
        spans.answered();
        spans.replied();
    }
    let response = AppendEventStreamResponse { index, outcome: Some(outcome) };
    Answered { bytes, _account: call.context.account, response }
}
