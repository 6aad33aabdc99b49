//! Answers on standard output.

use std::io::{self, Write as _};

use serde::Serialize;

/// Prints a JSON object as a line.
pub fn print(line: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")
}

/// The outcome of printing. A reader that has gone is no failure.
pub fn told(printed: io::Result<()>) -> Result<(), String> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("The output cannot be written: {error}."))
        }
        _ => Ok(()),
    }
}
