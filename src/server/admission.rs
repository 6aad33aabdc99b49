//! Concurrency limit. Rejects before decoding.
//!
//! A call that waits longer than its client does is work for nothing, and under overload soon all work is. So the number of calls in
//! flight follows what the server does: while many are in flight, those before a call and the time that it takes tell how many calls
//! end in [`WAIT`]. The last quarter of the permits is for callers that have less than their share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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

/// Calls in flight at most, over all connections: as many as may wait in the store's queue of writes.
const MOST_CALLS: usize = 4096;

/// Calls that may always be in flight: a group of writes or two, and calls that wait for a slow client or a database.
const FEWEST_CALLS: usize = 1024;

/// The time that a call may take while many are in flight: a part of any deadline that clients use.
const WAIT: Duration = Duration::from_millis(250);

/// The weight of the newest call in the averages: a burst ends in about as many calls.
const WEIGHT: f64 = 1.0 / 64.0;

/// The refusal of a call too many. A retry makes sense after about as long as the calls in flight take.
pub const TOO_MANY_CALLS: Error =
    Error::Overloaded { what: Bounded::Calls, retry_after_millis: 200 };

/// How long a refusal waits for the rest of its request. After an earlier answer HTTP/2 counts each later frame as an error of the client,
/// and too many of them end the connection with all its calls.
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

pub struct Permit {
    calls: Arc<Calls>,
    /// `None`: a caller without an identity.
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
    /// A permit for a call, if one is free for this caller.
    pub fn permit(&self, principal: &Principal) -> Option<Permit> {
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
        Some(Permit { calls: Arc::clone(calls), caller, before, is_done: false })
    }

    /// Tells the number of calls that have a permit. A stream has none once it has begun.
    pub fn in_flight(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let calls = Arc::clone(&self.calls);
        move || calls.in_flight.load(Relaxed)
    }

    /// The answer to a call for which no permit is free. Its message is not decoded.
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

/// Calls in flight by the name of their caller. Callers without any are not kept, so there are no more than calls.
#[derive(Default)]
struct Shares(Mutex<HashMap<String, usize>>);

impl Shares {
    /// Counts a call. When permits are scarce, not one of a caller that has its share of them: permits are divided among those that have
    /// calls in flight and one more, which may come.
    fn begin(&self, caller: &str, permits: usize, are_scarce: bool) -> bool {
        let mut calls = self.lock();
        let share = permits / (calls.len() + 1);
        let own = calls.get(caller).copied().unwrap_or(0);
        if are_scarce && own >= share {
            return false;
        }
        match calls.get_mut(caller) {
            Some(own) => *own += 1,
            None => drop(calls.insert(caller.to_owned(), 1)),
        }
        true
    }

    fn end(&self, caller: &str) {
        let mut calls = self.lock();
        if let Some(own) = calls.get_mut(caller) {
            *own -= 1;
            if *own == 0 {
                calls.remove(caller);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The call has its answer. How fast a refusal comes says nothing of the others.
    pub fn answered(mut self, answer: &Response<Body>) {
        self.is_done = !answer.headers().contains_key(Status::GRPC_STATUS);
    }
}

impl Drop for Permit {
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
mod tests;
