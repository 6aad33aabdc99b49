//! Where everything goes that a command prints. On a terminal hidden characters are escaped; a pipe or a file gets exact bytes.

use std::{
    borrow::Cow,
    io::{self, BufWriter, IsTerminal as _, Stdout, Write},
};

use crate::cli::hidden::{Form, escape_in};

/// Standard output, whose hidden characters are escaped for a terminal.
pub struct Sink<W> {
    to: W,
    /// `None`: not a terminal.
    escapes: Option<Form>,
}

impl Sink<BufWriter<Stdout>> {
    /// For text of this form, which is written when it is flushed or dropped.
    pub fn stdout(form: Form) -> Self {
        let to = io::stdout();
        let escapes = to.is_terminal().then_some(form);
        Self { to: BufWriter::new(to), escapes }
    }
}

impl<W: Write> Write for Sink<W> {
    /// Takes whole characters, as all that formats text writes them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.escapes.map(|form| (form, String::from_utf8_lossy(bytes)));
        match &text {
            None => self.to.write_all(bytes)?,
            Some((form, text)) => self.to.write_all(escape_in(*form, text).as_bytes())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes text with colours. They are left out unless standard output is a terminal that has them and NO_COLOR is not set.
///
/// The text is for people in a pager as well, and is escaped there, too.
pub fn paint(text: &str) -> io::Result<()> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    let text: Cow<'_, str> = escape_in(Form::Painted, text);
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(escapes: Option<Form>) -> String {
        let mut sink = Sink { to: Vec::new(), escapes };
        sink.write_all("{\"\u{9b}é\":1}\n".as_bytes()).unwrap();
        String::from_utf8(sink.to).unwrap()
    }

    #[test]
    fn a_terminal_gets_escapes_and_a_pipe_the_exact_bytes() {
        assert_eq!(written(Some(Form::Json)), "{\"\\u009bé\":1}\n");
        assert_eq!(written(None), "{\"\u{9b}é\":1}\n");
    }
}
