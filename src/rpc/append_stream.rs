//! AppendEventStream: items are passed to the store as they arrive, and answered in that order while later ones are still being
//! committed.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use futures_util::stream::{FuturesOrdered, unfold};
use prost::Message;
use tokio::sync::watch::Receiver;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::{
    call::Call,
    convert::{
        Form,
        decode::{self, BareIds},
        encode,
    },
};
use crate::{
    domain::{
        error::{Error, Reason},
        id::SessionId,
        scope::SessionRef,
    },
    engine::{AppendEvents, Engine},
    proto::v1::{
        AppendEventStreamRequest, AppendEventStreamResponse, append_event_stream_response::Outcome,
    },
};

/// Items of one stream in flight: enough to fill the commits of a disk, few enough that one stream does not fill the store's queue.
const IN_FLIGHT: usize = 256;

/// Bytes of a stream's items in flight, requests and answers: four of the largest messages.
const IN_FLIGHT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that count for the state in an answer, whose size is not known yet.
const STATE_BYTES: usize = 1024 * 1024;

/// The answers to a stream of appends.
pub fn answers<S>(
    engine: Arc<Engine>,
    bare: BareIds,
    call: Call,
    items: S,
) -> impl Stream<Item = Result<AppendEventStreamResponse, Status>> + Send
where
    S: Stream<Item = Result<AppendEventStreamRequest, Status>> + Send + Unpin,
{
    let pipeline = Pipeline {
        draining: engine.draining(),
        engine,
        bare,
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
    append: Result<(AppendEvents, Form), Error>,
}

/// The answer to an item, and the bytes that count for it until then.
type Answered = (usize, AppendEventStreamResponse);

struct Pipeline<S> {
    engine: Arc<Engine>,
    bare: BareIds,
    call: Call,
    items: S,
    draining: Receiver<bool>,
    next_index: i64,
    /// An item that has to wait for an earlier one of its session.
    held: Option<Item>,
    in_flight: FuturesOrdered<Pin<Box<dyn Future<Output = Answered> + Send>>>,
    bytes: usize,
    /// Index and session of items in flight that may reach the store later than their first poll.
    late: Vec<(i64, SessionId)>,
    /// Whether further items are read.
    open: bool,
    /// Follows the last answer.
    failure: Option<Status>,
}

impl<S> Pipeline<S>
where
    S: Stream<Item = Result<AppendEventStreamRequest, Status>> + Send + Unpin,
{
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
            let reads = self.open && !full && self.held.is_none();
            // Reading comes before answering, so that the store has work while answers are sent.
            tokio::select! {
                biased;
                // The sender is in the engine, which the pipeline holds.
                () = async { _ = self.draining.wait_for(|draining| *draining).await }, if self.open => {
                    // An item that was not started was certainly not applied.
                    self.held = None;
                    self.fail(self.call.status(&Error::Draining));
                }
                item = self.items.next(), if reads => match item {
                    Some(Ok(request)) => self.held = Some(self.read(request)),
                    Some(Err(status)) => self.fail(status),
                    None => self.open = false,
                },
                Some((bytes, answer)) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    self.bytes -= bytes;
                    self.late.retain(|(late, _)| *late != answer.index);
                    return Some(Ok(answer));
                }
            }
        }
    }

    /// Stops reading.
    fn fail(&mut self, status: Status) {
        (self.open, self.failure) = (false, Some(status));
    }

    fn read(&mut self, request: AppendEventStreamRequest) -> Item {
        let AppendEventStreamRequest { append } = request;
        let index = self.next_index;
        self.next_index += 1;
        let bytes = append.as_ref().map_or(0, |append| {
            append.encoded_len() + if append.return_state { STATE_BYTES } else { 0 }
        });
        let missing = || Error::invalid("append", Reason::MissingField, "This field is required.");
        let append = append
            .ok_or_else(missing)
            .and_then(|append| decode::decode(append, self.bare, decode::append_event));
        Item { index, bytes, call: self.call.item(), append }
    }

    /// Passes an item to the store, unless an earlier one of the same session may still be on its way there.
    ///
    /// The store keeps the order of first polls, so each item is polled here, before the next one is read.
    async fn start(&mut self, item: Item) {
        if let Ok((append, _)) = &item.append {
            let id = session_id(append);
            if self.late.iter().any(|(_, late)| late == id) {
                self.held = Some(item);
                return;
            }
            if !append.submits_at_once() {
                self.late.push((item.index, id.clone()));
            }
        }
        self.bytes += item.bytes;
        let mut answer = Box::pin(append(Arc::clone(&self.engine), item));
        match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(answer) => self.in_flight.push_back(Box::pin(std::future::ready(answer))),
            Poll::Pending => self.in_flight.push_back(answer),
        }
    }
}

async fn append(engine: Arc<Engine>, item: Item) -> Answered {
    let Item { index, bytes, call, append } = item;
    let append = call.run(async {
        let (append, form) = append?;
        let answer = engine.append_events(&call.context, append).await?;
        Ok(encode::append_event(answer, form, 1))
    });
    let outcome = match append.await {
        Ok(appended) => Outcome::Appended(appended),
        Err(status) => Outcome::Failure(encode::failure(&status)),
    };
    (bytes, AppendEventStreamResponse { index, outcome: Some(outcome) })
}

/// The id that an item names its session by. Sessions of the same id count as one here.
fn session_id(append: &AppendEvents) -> &SessionId {
    match &append.session {
        SessionRef::Full(key) => &key.session_id,
        SessionRef::Bare(id) => id,
    }
}
