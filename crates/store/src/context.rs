//! The context of a call: made once at the edge, and passed to the engine and to every request of a store.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::time::Instant;

use super::{CallerId, account::CallAccount, spans::Spans};
use sessiond_access::Principal;
use sessiond_core::domain::prelude::*;

/// A call's identity, deadline and trace.
#[derive(Clone, Debug)]
pub struct RequestContext {
    pub principal: Principal,
    /// Whose turn it takes.
    pub caller: CallerId,
    /// When the caller stops waiting. A write that is still in a queue by then is not executed.
    pub deadline: Option<Instant>,
    /// Of the caller's distributed trace.
    pub trace_id: Option<TraceId>,
    /// Set if the call is sampled.
    pub spans: Option<Spans>,
    /// What is buffered for the call.
    pub account: CallAccount,
    pub request_id: CallId,
    /// Set by the gate, for each write.
    pub work: Work,
}

impl RequestContext {
    /// A call of this process itself: no deadline, no trace.
    pub fn internal() -> Self {
        Self {
            principal: Principal::Local,
            caller: CallerId::INTERNAL,
            deadline: None,
            trace_id: None,
            spans: None,
            account: CallAccount::default(),
            request_id: CallId::next(),
            work: Work::default(),
        }
    }

    /// Whether the caller has stopped waiting at `now`.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Bytes that a write has cost beyond its own, as [`decide`](sessiond_core::commit::decide) counts them. Clones are the same meter. The last
/// one that is dropped passes their sum on: a write may outlive its caller.
#[derive(Clone, Default)]
pub struct Work(Option<Arc<Meter>>);

struct Meter {
    bytes: AtomicUsize,
    charge: Box<dyn Fn(usize) + Send + Sync>,
}

impl Work {
    pub fn charged(charge: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Meter { bytes: AtomicUsize::new(0), charge: Box::new(charge) })))
    }

    pub fn add(&self, bytes: usize) {
        if let Some(meter) = &self.0 {
            meter.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        (self.charge)(*self.bytes.get_mut());
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

/// Names one call of this process in logs and in the metadata of INTERNAL errors. Unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId(u64);

impl CallId {
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", std::process::id(), self.0)
    }
}
