//! The content of a status, before it is truncated to the size that clients accept.

use std::time::Duration;

use tonic::Code;

use crate::domain::error::{Reason, Violation};

/// Whether a client may repeat the call, as `ErrorInfo.metadata["retryable"]` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retryable {
    /// The same call, later. It was certainly not applied.
    Yes,
    /// Only with the same event or request id. It may have been applied.
    SameId,
    /// The caller has to decide again.
    No,
}

impl Retryable {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::SameId => "same_id",
            Self::No => "no",
        }
    }
}

#[derive(Debug)]
pub struct Report {
    pub code: Code,
    pub reason: Reason,
    pub retryable: Retryable,
    /// One or two sentences: what is wrong, and what to do.
    pub message: String,
    /// Every variable part of the message.
    pub metadata: Vec<(&'static str, Detail)>,
    pub violations: Vec<Violation>,
    pub retry_after: Option<Duration>,
}

/// A variable part of a message.
#[derive(Debug)]
pub enum Detail {
    Text(String),
    /// Written as a JSON array.
    List(Vec<String>),
}

impl Report {
    pub fn new(
        code: Code,
        reason: Reason,
        retryable: Retryable,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason,
            retryable,
            message: message.into(),
            metadata: Vec::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.metadata.push((name, Detail::Text(value.to_string())));
        self
    }

    pub fn with_list(mut self, name: &'static str, items: Vec<String>) -> Self {
        self.metadata.push((name, Detail::List(items)));
        self
    }
}
