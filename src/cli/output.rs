//! Standard output: one line of JSON for each thing said.

use std::io::{self, BufWriter, Stdout, Write};

use serde::Serialize;

use super::failure::Failure;

/// Where a command's answer goes.
#[derive(Debug)]
pub struct Output<W: Write> {
    to: BufWriter<W>,
}

impl Output<Stdout> {
    /// Standard output.
    pub fn stdout() -> Self {
        Self::new(io::stdout())
    }
}

impl<W: Write> Output<W> {
    /// Any writer.
    pub fn new(to: W) -> Self {
        Self { to: BufWriter::new(to) }
    }

    /// Writes one line, which may stay in the buffer until [`Output::flush`].
    ///
    /// # Errors
    ///
    /// When the output is closed or full.
    pub fn line(&mut self, item: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.to, item).map_err(io::Error::from)?;
        self.to.write_all(b"\n")?;
        Ok(())
    }

    /// Writes text as it is.
    ///
    /// # Errors
    ///
    /// When the output is closed or full.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.to.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Hands over what is in the buffer.
    ///
    /// # Errors
    ///
    /// When the output is closed or full.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.to.flush()?;
        Ok(())
    }
}

/// Prints one line on standard output, at once.
///
/// # Errors
///
/// When the output is closed or full.
pub fn print(item: &impl Serialize) -> Result<(), Failure> {
    let mut output = Output::stdout();
    output.line(item)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_item_is_a_line() {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        output.line(&[1, 2]).unwrap();
        output.line(&"a\nb").unwrap();
        output.flush().unwrap();
        drop(output);
        assert_eq!(String::from_utf8(bytes).unwrap(), "[1,2]\n\"a\\nb\"\n");
    }

    #[test]
    fn a_closed_output_is_known_as_one_also_when_it_shows_inside_an_item() {
        let mut output = Output::new(Closed);
        let large = "x".repeat(100_000);
        assert!(matches!(output.line(&large), Err(Failure::OutputClosed)));
    }
}
