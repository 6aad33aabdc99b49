//! Concurrency limit. Rejects before decoding.
//!
//! A call that waits longer than its client does is work for nothing, and under overload soon all work is. So calls in flight have a bound.
//! The last quarter of it is for callers that have less than their share.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http_body_util::BodyExt as _;
use sessiond_connect::Meter;
use tokio::time::timeout;
use tonic::{
    body::Body,
    codegen::http::{HeaderMap, Request, Response},
};

use super::health::refusal;
use crate::{
    domain::error::{Bounded, Error},
    store::CallerId,
};

/// Calls in flight at most, over all connections: two groups of writes, which even a store that commits 1,000 writes a second answers before
/// the deadlines that clients use.
const MOST_CALLS: usize = 1024;

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

#[derive(Default)]
struct Calls(Mutex<InFlight>);

#[derive(Default)]
struct InFlight {
    all: usize,
    /// Callers without any are not kept, so there are no more than calls.
    of: HashMap<CallerId, usize>,
}

pub struct Permit {
    calls: Arc<Calls>,
    caller: CallerId,
}

impl Default for Admission {
    fn default() -> Self {
        let refusal = refusal(&TOO_MANY_CALLS);
        let (parts, ()) = refusal.into_http::<()>().into_parts();
        Self { calls: Arc::default(), refusal: parts.headers }
    }
}

impl Admission {
    /// A permit for a call, if one is free for this caller. When few are, a caller has no more than its share: permits are divided among those
    /// that have calls in flight and one more, which may come.
    pub fn permit(&self, caller: CallerId) -> Option<Permit> {
        let mut calls = self.calls.lock();
        let own = calls.of.get(&caller).copied().unwrap_or(0);
        let share = MOST_CALLS / (calls.of.len() + 1);
        let are_scarce = calls.all >= MOST_CALLS - MOST_CALLS / 4;
        if calls.all >= MOST_CALLS || (are_scarce && own >= share) {
            return None;
        }
        calls.all += 1;
        calls.of.insert(caller, own + 1);
        Some(Permit { calls: Arc::clone(&self.calls), caller })
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
    if let Some(meter) = request.extensions().get::<Meter>() {
        meter.refuse();
    }
    let mut body = request.into_body();
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    // The messages of a stream may not end.
    let _ = timeout(REST, rest).await;
    answer
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, InFlight> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        calls.all -= 1;
        if let Entry::Occupied(mut own) = calls.of.entry(self.caller) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests;
