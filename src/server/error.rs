//! Why a server could not start.

use std::fmt;

/// One or two sentences: what is wrong, and what to do.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}
