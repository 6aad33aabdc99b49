//! The context of a call: made once at the edge, and passed to the engine and to every request of a store.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::time::Instant;

/// A call's identity, deadline and trace.
#[derive(Clone, Debug)]
pub struct RequestContext {
    pub principal: Principal,
    /// When the caller stops waiting. A write that is still in a queue by then is not executed.
    pub deadline: Option<Instant>,
    pub trace: Option<TraceParent>,
    pub request_id: CallId,
}

impl RequestContext {
    /// A call of this process itself: no deadline, no trace.
    pub fn internal() -> Self {
        Self {
            principal: Principal::Local,
            deadline: None,
            trace: None,
            request_id: CallId::next(),
        }
    }

    /// Whether the caller has stopped waiting at `now`.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// The identity that a call acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Every caller that reaches the listener, or embeds the engine. It may do everything.
    Local,
}

/// A position in a distributed trace, as in the W3C `traceparent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: u128,
    pub parent_id: u64,
    pub flags: u8,
}

impl TraceParent {
    /// Reads a `traceparent` header of any version whose first four parts are those of version 00.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let parent_id = hex(parts.next()?, 16)?;
        let flags = hex(parts.next()?, 2)?;
        let extra = parts.next().is_some();
        if version == 0xff || (version == 0 && extra) || trace_id == 0 || parent_id == 0 {
            return None;
        }
        Some(Self {
            trace_id,
            parent_id: u64::try_from(parent_id).ok()?,
            flags: u8::try_from(flags).ok()?,
        })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace_id, parent_id, flags } = self;
        write!(f, "00-{trace_id:032x}-{parent_id:016x}-{flags:02x}")
    }
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
    fn a_traceparent_is_read_and_written() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(TraceParent::parse(header).map(|it| it.to_string()).as_deref(), Some(header));
        assert!(
            TraceParent::parse(&header.replace("00-4", "01-4").replace("-01", "-01-more"))
                .is_some()
        );
        for bad in [
            "",
            "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }
}
