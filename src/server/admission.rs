//! Admission of calls: as many as are done soon, and a refusal of all others that costs little.
//!
//! A call that waits longer than its client does is work for nothing, and under overload soon all work is. So the number of calls in
//! flight follows what the server does: while many are in flight, those before a call and the time that it takes tell how many calls
//! end in [`WAIT`]. The last quarter of the places is for callers that have less than their share.

mod shares;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout};
use tonic::{
    Status,
    body::Body,
    codegen::http::{HeaderMap, Request, Response},
};

use super::health::refusal;
use crate::{
    access::{Identity, Principal},
    domain::error::{Bounded, Error},
    store::instant,
};
use shares::Shares;

/// Calls in flight at most, over all connections: as many as may wait in the store's queue of writes.
const MOST_CALLS: usize = 4096;

/// So many calls may always be in flight: a group of writes or two, and calls that wait for a slow client or a database.
const FEWEST_CALLS: usize = 1024;

/// The time that a call may take while many are in flight: a part of any deadline that clients use.
const WAIT: Duration = Duration::from_millis(250);

/// The weight of the newest call in the averages: a burst ends in about as many calls.
const WEIGHT: f64 = 1.0 / 64.0;

/// The refusal of a call too many. A retry makes sense after about as long as the calls in flight take.
pub const TOO_MANY_CALLS: Error =
    Error::Overloaded { what: Bounded::Calls, retry_after_millis: 200 };

/// How long a refusal waits for the rest of its request. An answer before that has HTTP/2 count each later frame as an error of the
/// client, and too many of them end the connection with all its calls.
const REST: Duration = Duration::from_secs(1);

pub struct Admission {
    calls: Arc<Calls>,
    /// The answer to a call too many: built once, because an overloaded server sends it often.
    refusal: HeaderMap,
}

struct Calls {
    in_flight: AtomicUsize,
    most: AtomicUsize,
    averages: Mutex<Averages>,
    shares: Shares,
}

/// Of the calls that began while many were in flight.
#[derive(Default)]
struct Averages {
    before: f64,
    seconds: f64,
}

/// A call in flight.
pub struct Place {
    calls: Arc<Calls>,
    /// `None`: one of the callers that nobody tells apart.
    caller: Option<Arc<Identity>>,
    /// The calls in flight when it began, if they were many.
    before: Option<(usize, Instant)>,
    is_done: bool,
}

impl Default for Admission {
    fn default() -> Self {
        let refusal = refusal(&TOO_MANY_CALLS);
        let (parts, ()) = refusal.into_http::<()>().into_parts();
        let calls = Calls {
            in_flight: AtomicUsize::new(0),
            most: AtomicUsize::new(MOST_CALLS),
            averages: Mutex::default(),
            shares: Shares::default(),
        };
        Self { calls: Arc::new(calls), refusal: parts.headers }
    }
}

impl Admission {
    /// A place for a call, if one is free for this caller.
    pub fn place(&self, principal: &Principal) -> Option<Place> {
        let calls = &self.calls;
        let most = calls.most.load(Relaxed);
        let caller = match principal {
            Principal::Local => None,
            Principal::Identified(identity) => Some(Arc::clone(identity)),
        };
        let bound = match &caller {
            None => most,
            Some(caller) => {
                let are_scarce = calls.in_flight.load(Relaxed) >= most - most / 4;
                if !calls.shares.begin(&caller.name, most, are_scarce) {
                    return None;
                }
                // Also while those of others have to become fewer.
                MOST_CALLS
            }
        };
        let one_more = |calls| (calls < bound).then_some(calls + 1);
        let Ok(before) = calls.in_flight.fetch_update(Relaxed, Relaxed, one_more) else {
            if let Some(caller) = &caller {
                calls.shares.end(&caller.name);
            }
            return None;
        };
        let before = (before >= FEWEST_CALLS / 2).then(|| (before, instant()));
        Some(Place { calls: Arc::clone(calls), caller, before, is_done: false })
    }

    /// Calls that have a place. A stream has none once it has begun.
    pub fn in_flight(&self) -> usize {
        self.calls.in_flight.load(Relaxed)
    }

    /// The answer to a call for which no place is free. Its message is not decoded.
    pub fn refuse(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        let mut answer = Response::new(Body::empty());
        answer.headers_mut().clone_from(&self.refusal);
        after_rest(request, answer)
    }
}

/// The answer to a request whose message is not decoded, once it has come.
pub async fn after_rest(request: Request<Body>, answer: Response<Body>) -> Response<Body> {
    let mut body = request.into_body();
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    // The messages of a stream may not end.
    let _ = timeout(REST, rest).await;
    answer
}

impl Calls {
    /// Learns how long a call took before which others were in flight.
    fn learn(&self, before: usize, took: Duration) {
        let mut averages = self.averages.lock().unwrap_or_else(PoisonError::into_inner);
        averages.before += WEIGHT * (before as f64 - averages.before);
        averages.seconds += WEIGHT * (took.as_secs_f64() - averages.seconds);
        let done_in_wait = averages.before / averages.seconds * WAIT.as_secs_f64();
        self.most.store((done_in_wait as usize).clamp(FEWEST_CALLS, MOST_CALLS), Relaxed);
    }
}

impl Place {
    /// The call has its answer. How fast a refusal comes says nothing of the others.
    pub fn answered(mut self, answer: &Response<Body>) {
        self.is_done = !answer.headers().contains_key(Status::GRPC_STATUS);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.calls.in_flight.fetch_sub(1, Relaxed);
        if let Some(caller) = &self.caller {
            self.calls.shares.end(&caller.name);
        }
        let Some((before, began)) = self.before else { return };
        let took = began.elapsed();
        // Without an answer its client has left, and it would have taken at least as long.
        if self.is_done || took > WAIT {
            self.calls.learn(before, took);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        iter,
        task::{Context, Poll},
    };

    use futures_util::stream::pending;
    use hyper_util::{rt::TokioIo, service::TowerToHyperService};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::{advance, pause},
    };
    use tonic::{
        Code,
        codegen::{self, BoxFuture, Bytes, Service, StdError},
    };

    use super::*;
    use crate::server::connections::http;

    fn answer() -> Response<Body> {
        Response::new(Body::empty())
    }

    fn places(admission: &Admission, count: usize) -> Vec<Place> {
        iter::repeat_with(|| admission.place(&Principal::Local).unwrap()).take(count).collect()
    }

    /// Fills all places. After this time all calls are done.
    async fn take(admission: &Admission, time: Duration) {
        let places: Vec<_> = iter::from_fn(|| admission.place(&Principal::Local)).collect();
        assert!(places.len() >= FEWEST_CALLS);
        advance(time).await;
        places.into_iter().for_each(|it| it.answered(&answer()));
    }

    fn free(admission: &Admission) -> usize {
        iter::from_fn(|| admission.place(&Principal::Local)).collect::<Vec<_>>().len()
    }

    #[tokio::test]
    async fn calls_in_flight_are_as_many_as_end_in_time() {
        pause();
        let admission = Admission::default();
        assert_eq!(free(&admission), MOST_CALLS, "at first, as many as may wait");
        take(&admission, WAIT * 2).await;
        let half = free(&admission);
        assert!((MOST_CALLS * 2 / 5..MOST_CALLS / 2).contains(&half), "{half} end in time");
        take(&admission, WAIT * 100).await;
        assert_eq!(free(&admission), FEWEST_CALLS, "however slow they are");
        take(&admission, WAIT / 4).await;
        take(&admission, WAIT / 4).await;
        assert_eq!(free(&admission), MOST_CALLS, "however fast they are");
    }

    #[tokio::test]
    async fn calls_that_were_given_up_took_at_least_as_long() {
        pause();
        let admission = Admission::default();
        take(&admission, WAIT * 100).await;
        let soon = places(&admission, FEWEST_CALLS);
        advance(WAIT / 100).await;
        drop(soon);
        assert_eq!(free(&admission), FEWEST_CALLS, "nobody knows how long they would have taken");
        let refusal = Status::not_found("no session").into_http();
        let refused = places(&admission, FEWEST_CALLS);
        advance(WAIT / 100).await;
        refused.into_iter().for_each(|it| it.answered(&refusal));
        assert_eq!(free(&admission), FEWEST_CALLS, "a refusal is fast");
        let admission = Admission::default();
        let late = places(&admission, MOST_CALLS);
        advance(WAIT * 100).await;
        drop(late);
        assert_eq!(free(&admission), FEWEST_CALLS);
    }

    #[test]
    fn a_caller_leaves_places_to_others() {
        let admission = Admission::default();
        let caller = |name: &str| Principal::Identified(Arc::new(Identity::new(name)));
        let [flood, modest, new] = ["flood", "modest", "new"].map(caller);
        let take = |principal: &Principal, most: usize| {
            iter::from_fn(|| admission.place(principal)).take(most).collect::<Vec<_>>()
        };
        let mut flooding = take(&flood, MOST_CALLS);
        assert_eq!(flooding.len(), MOST_CALLS * 3 / 4, "the last quarter is for others");
        let others = take(&modest, MOST_CALLS);
        assert_eq!(others.len(), MOST_CALLS / 4);
        assert!(admission.place(&new).is_none(), "all are taken");
        flooding.truncate(1);
        assert!(admission.place(&flood).is_some(), "many are free again");
        drop((flooding, others));
        let all = take(&Principal::Local, MOST_CALLS * 9 / 10);
        let share = take(&new, MOST_CALLS);
        assert_eq!(all.len() + share.len(), MOST_CALLS, "nobody else is counted");
        drop((all, share));
        let flooding = take(&flood, MOST_CALLS);
        assert_eq!(flooding.len(), MOST_CALLS * 3 / 4, "and nobody is left");
        admission.calls.most.store(FEWEST_CALLS, Relaxed);
        assert!(admission.place(&flood).is_none() && admission.place(&Principal::Local).is_none());
        assert_eq!(take(&modest, MOST_CALLS).len(), FEWEST_CALLS / 3, "its share is there");
        drop(flooding);
        let callers: Vec<_> = (0..MOST_CALLS).map(|number| caller(&number.to_string())).collect();
        let places: Vec<_> = callers.iter().filter_map(|it| admission.place(it)).collect();
        assert_eq!(places.len(), FEWEST_CALLS, "however many callers there are");
    }

    #[tokio::test]
    async fn slow_calls_among_few_say_nothing() {
        pause();
        let admission = Admission::default();
        for _ in 0..100 {
            let few = places(&admission, FEWEST_CALLS / 2);
            advance(WAIT * 100).await;
            few.into_iter().for_each(|it| it.answered(&answer()));
        }
        assert_eq!(free(&admission), MOST_CALLS);
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
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            frames.push((head[3], &rest[..length]));
            bytes = &rest[length..];
        }
        frames
    }

    #[tokio::test]
    async fn a_connection_outlives_refusals_whose_messages_come_late() {
        const CALLS: u32 = 500;
        const ROUNDS: u32 = 6;
        pause();
        let refuse = TowerToHyperService::new(Refusing(Arc::default()));
        let (mut client, server) = duplex(1 << 20);
        let served = tokio::spawn(async move {
            http()
                .serve_connection(TokioIo::new(server), refuse)
                .await
                .map_err(|error| error.to_string())
        });
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        let mut answered = Vec::new();
        for round in 0..ROUNDS {
            let streams = (0..CALLS).map(|call| 2 * (round * CALLS + call) + 1);
            let ask: Vec<_> = streams
                .clone()
                .flat_map(|stream| frame(HEADERS, 4, stream, b"\x83\x86\x84"))
                .collect();
            let message: Vec<_> =
                streams.flat_map(|stream| frame(DATA, 1, stream, b"late")).collect();
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
}
