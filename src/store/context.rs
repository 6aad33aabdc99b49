//! The context of a call: made once at the edge, and passed to the engine and to every request of a store.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::time::Instant;

use crate::access::Principal;

/// A call's identity, deadline and trace.
#[derive(Clone, Debug)]
pub struct RequestContext {
    pub principal: Principal,
    /// When the caller stops waiting. A write that is still in a queue by then is not executed.
    pub deadline: Option<Instant>,
    /// Of the caller's distributed trace.
    pub trace_id: Option<u128>,
    pub request_id: CallId,
}

impl RequestContext {
    /// A call of this process itself: no deadline, no trace.
    pub fn internal() -> Self {
        Self {
            principal: Principal::Local,
            deadline: None,
            trace_id: None,
            request_id: CallId::next(),
        }
    }

    /// Whether the caller has stopped waiting at `now`.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Reads the trace id of a W3C `traceparent` header, of any version whose first four parts are those of version 00.
pub fn trace_id(header: &str) -> Option<u128> {
    let mut parts = header.trim().split('-');
    let version = hex(parts.next()?, 2)?;
    let trace_id = hex(parts.next()?, 32)?;
    let parent_id = hex(parts.next()?, 16)?;
    let _flags = hex(parts.next()?, 2)?;
    let known = version != 0xff && (version != 0 || parts.next().is_none());
    (known && trace_id != 0 && parent_id != 0).then_some(trace_id)
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == digits && text.bytes().all(lower))
        .then(|| u128::from_str_radix(text, 16).ok())?
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_id_of_a_traceparent_is_read() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(trace_id(header), Some(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736));
        assert!(trace_id(&header.replace("00-4", "01-4").replace("-01", "-01-more")).is_some());
        for bad in [
            "",
            "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }
}
