//! AppendEventStream: items are handed to the store as they arrive, and answered in that order while later ones are still on their
//! way to the disk.

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
    call::{Call, renamed},
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
        AppendEventResponse, AppendEventStreamRequest, AppendEventStreamResponse,
        append_event_stream_response::Outcome,
    },
};

/// Items of one stream between their arrival and their answer: enough to fill the commits of a disk, few enough that one stream
/// does not fill the store's queue.
const OUTSTANDING: usize = 256;

/// Bytes that a stream's outstanding items may hold, requests and answers: four of the largest messages.
const OUTSTANDING_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that the state in an answer counts for, as long as nobody knows how many it will have.
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
        arrived: 0,
        parked: None,
        outstanding: FuturesOrdered::new(),
        bytes: 0,
        late: Vec::new(),
        input: Input::Open,
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
    append: Result<(AppendEvents, Form), Error>,
}

/// An item on its way, and what it became.
type Answered = (i64, usize, Result<AppendEventResponse, Error>);

/// How it stands with what the client sends.
enum Input {
    /// More may come.
    Open,
    /// Nothing more is read; the answers that are left are the last.
    Ended,
    /// Nothing more is read, and this is said behind the answers that are left.
    Failed(Status),
}

struct Pipeline<S> {
    engine: Arc<Engine>,
    bare: BareIds,
    call: Call,
    items: S,
    draining: Receiver<bool>,
    /// Items read so far.
    arrived: i64,
    /// Read, but not to be started yet.
    parked: Option<Item>,
    outstanding: FuturesOrdered<Pin<Box<dyn Future<Output = Answered> + Send>>>,
    bytes: usize,
    /// Index and session of outstanding items that reach the store later than their first poll.
    late: Vec<(i64, SessionId)>,
    input: Input,
}

impl<S> Pipeline<S>
where
    S: Stream<Item = Result<AppendEventStreamRequest, Status>> + Send + Unpin,
{
    /// The next answer; `None` at the end.
    async fn next(&mut self) -> Option<Result<AppendEventStreamResponse, Status>> {
        loop {
            if let Some(item) = self.parked.take() {
                self.start(item).await;
            }
            let open = matches!(self.input, Input::Open);
            let has_room = self.outstanding.len() < OUTSTANDING && self.bytes < OUTSTANDING_BYTES;
            let reads = open && has_room && self.parked.is_none();
            if !open && self.outstanding.is_empty() {
                return match std::mem::replace(&mut self.input, Input::Ended) {
                    Input::Failed(status) => Some(Err(status)),
                    Input::Open | Input::Ended => None,
                };
            }
            // Reading comes before answering, so that the store has work while answers go out.
            tokio::select! {
                biased;
                () = drained(&mut self.draining), if open => {
                    // What has not been started certainly was not applied.
                    self.parked = None;
                    self.input = Input::Failed(self.call.status(Error::Draining));
                }
                item = self.items.next(), if reads => match item {
                    Some(Ok(request)) => self.parked = Some(self.read(request)),
                    Some(Err(status)) => self.input = Input::Failed(status),
                    None => self.input = Input::Ended,
                },
                Some(answered) = self.outstanding.next(), if !self.outstanding.is_empty() => {
                    return Some(Ok(self.answer(answered)));
                }
            }
        }
    }

    fn read(&mut self, request: AppendEventStreamRequest) -> Item {
        let AppendEventStreamRequest { append } = request;
        let index = self.arrived;
        self.arrived += 1;
        let bytes = append.as_ref().map_or(0, |append| {
            append.encoded_len() + if append.return_state { STATE_BYTES } else { 0 }
        });
        let append = match append {
            Some(append) => decode::append_event(append, self.bare),
            None => Err(Error::invalid(
                "append",
                Reason::MissingField,
                "This field is required; set it.",
            )),
        };
        Item { index, bytes, append }
    }

    /// Hands an item to the store, unless an earlier one for the same session has not got there yet: then it has to wait for it.
    ///
    /// The store keeps the order of first polls, so each item is polled here, before the next one is read.
    async fn start(&mut self, item: Item) {
        if let Ok((append, _)) = &item.append {
            let id = session_id(append);
            if self.late.iter().any(|(_, late)| late == id) {
                self.parked = Some(item);
                return;
            }
            if !append.submits_at_once() {
                self.late.push((item.index, id.clone()));
            }
        }
        self.bytes += item.bytes;
        let mut answer = Box::pin(append(Arc::clone(&self.engine), item));
        match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(answer) => {
                self.outstanding.push_back(Box::pin(std::future::ready(answer)));
            }
            Poll::Pending => self.outstanding.push_back(answer),
        }
    }

    fn answer(&mut self, answered: Answered) -> AppendEventStreamResponse {
        let (index, bytes, result) = answered;
        self.bytes -= bytes;
        self.late.retain(|(late, _)| *late != index);
        let outcome = match result {
            Ok(appended) => Outcome::Appended(appended),
            Err(error) => Outcome::Failure(encode::failure(&self.call.status(error))),
        };
        AppendEventStreamResponse { index, outcome: Some(outcome) }
    }
}

/// Waits until the server stops.
async fn drained(draining: &mut Receiver<bool>) {
    // The engine, which the pipeline holds, has the other end.
    let _ = draining.wait_for(|draining| *draining).await;
}

async fn append(engine: Arc<Engine>, item: Item) -> Answered {
    let Item { index, bytes, append } = item;
    let append = async move {
        let (append, form) = append?;
        let answer = engine.append_events(append).await;
        let answer = answer.map_err(|error| renamed(error, "events[0]", "event"))?;
        Ok(encode::append_event(answer, form, 1))
    };
    (index, bytes, append.await)
}

/// The id that an item names its session by; two sessions of one id count as one here.
fn session_id(append: &AppendEvents) -> &SessionId {
    match &append.session {
        SessionRef::Full(key) => &key.session_id,
        SessionRef::Bare(id) => id,
    }
}
