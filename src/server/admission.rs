//! Concurrency limit. Rejects before decoding.
//!
//! A call that waits longer than its client does is work for nothing, and under overload soon all work is. So calls in flight have a bound.
//! The last quarter of it is for callers that have less than their share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use http_body_util::BodyExt as _;
use tokio::time::timeout;
use tonic::{
    body::Body,
    codegen::http::{HeaderMap, Request, Response},
};

use super::health::refusal;
use crate::{
    access::{Identity, Principal},
    domain::error::{Bounded, Error},
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
struct Calls {
    in_flight: AtomicUsize,
    shares: Shares,
}

pub struct Permit {
    calls: Arc<Calls>,
    /// `None`: a caller without an identity.
    caller: Option<Arc<Identity>>,
}

impl Default for Admission {
    fn default() -> Self {
        let refusal = refusal(&TOO_MANY_CALLS);
        let (parts, ()) = refusal.into_http::<()>().into_parts();
        Self { calls: Arc::default(), refusal: parts.headers }
    }
}

impl Admission {
    /// A permit for a call, if one is free for this caller.
    pub fn permit(&self, principal: &Principal) -> Option<Permit> {
        let calls = &self.calls;
        let caller = match principal {
            Principal::Local => None,
            Principal::Identified(identity) => Some(Arc::clone(identity)),
        };
        if let Some(caller) = &caller {
            let are_scarce = calls.in_flight.load(Relaxed) >= MOST_CALLS - MOST_CALLS / 4;
            if !calls.shares.begin(&caller.name, MOST_CALLS, are_scarce) {
                return None;
            }
        }
        let one_more = |calls| (calls < MOST_CALLS).then_some(calls + 1);
        if calls.in_flight.fetch_update(Relaxed, Relaxed, one_more).is_err() {
            caller.inspect(|caller| calls.shares.end(&caller.name));
            return None;
        }
        Some(Permit { calls: Arc::clone(calls), caller })
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

impl Drop for Permit {
    fn drop(&mut self) {
        self.calls.in_flight.fetch_sub(1, Relaxed);
        if let Some(caller) = &self.caller {
            self.calls.shares.end(&caller.name);
        }
    }
}

#[cfg(test)]
mod tests;
