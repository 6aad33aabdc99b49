//! Ids of distributed traces, as [W3C Trace Context](https://www.w3.org/TR/trace-context/) defines them.

use std::{
    fmt,
    num::{NonZeroU64, NonZeroU128},
};

/// The id of a trace. It is written as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(NonZeroU128);

impl TraceId {
    /// `None`: 0 is no id.
    pub const fn new(id: u128) -> Option<Self> {
        match NonZeroU128::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        Self::new(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The span from which a call was made: a `traceparent` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: TraceId,
    pub span_id: NonZeroU64,
    pub sampled: bool,
}

impl TraceParent {
    /// Reads a header of any version whose first four parts are those of version 00.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = TraceId::new(hex(parts.next()?, 32)?)?;
        let span_id = NonZeroU64::new(u64::try_from(hex(parts.next()?, 16)?).ok()?)?;
        let flags = hex(parts.next()?, 2)?;
        let known = version != 0xff && (version != 0 || parts.next().is_none());
        known.then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == digits && text.bytes().all(lower))
        .then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read() {
        let parent = TraceParent::parse(HEADER).unwrap();
        assert_eq!(parent.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.span_id.get(), 0x00f0_67aa_0ba9_02b7);
        assert!(parent.sampled);
        let unsampled = TraceParent::parse(&HEADER.replace("-01", "-02")).unwrap();
        assert!(!unsampled.sampled);
        let later = HEADER.replace("00-4", "01-4").replace("-01", "-01-more");
        assert_eq!(TraceParent::parse(&later), Some(parent));
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

    #[test]
    fn an_id_is_sixteen_bytes() {
        let id = TraceParent::parse(HEADER).unwrap().trace_id;
        assert_eq!(id.to_bytes()[..2], [0x4b, 0xf9]);
        assert_eq!(TraceId::from_bytes(id.to_bytes()), Some(id));
        assert_eq!(TraceId::from_bytes([0; 16]), None);
    }
}
