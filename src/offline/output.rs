//! Answers on standard output.

use serde::Serialize;

use crate::cli::{self, Failure};

/// Prints a JSON object as a line. A reader that has gone is no failure.
pub fn print(line: &impl Serialize) -> Result<(), String> {
    match cli::print(line) {
        Ok(()) | Err(Failure::OutputClosed) => Ok(()),
        Err(failure) => Err(failure.text()),
    }
}
