//! One line of the report.

use serde::Serialize;

use crate::cli::terminal::{ADDED, CHANGED, DIM, REMOVED, escape, paint};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    /// Cannot be checked from here.
    Unknown,
    Warning,
    Error,
}

/// One line of the report.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub result: Outcome,
    pub detail: String,
}

impl Finding {
    pub fn new(check: &'static str, result: Outcome, detail: impl Into<String>) -> Self {
        Self { check, result, detail: detail.into() }
    }

    /// Not cut: the end of a detail says what to do.
    pub fn line(&self) -> String {
        let (style, result) = match self.result {
            Outcome::Ok => (ADDED, "ok"),
            Outcome::Unknown => (DIM, "unknown"),
            Outcome::Warning => (CHANGED, "warning"),
            Outcome::Error => (REMOVED, "error"),
        };
        let result = paint(style, format!("{result:<8}"));
        format!("{:<10} {result} {}\n", self.check, escape(&self.detail))
    }
}
