//! Standard output: one JSON value a line.

use std::io::{self, BufWriter, Write};

use prost::Name;
use serde::Serialize;
use tonic::{Response, Status};

use super::{args::PageArgs, failure::Failure, message::AsJson};

/// Writes a whole line or nothing.
fn write_line(to: &mut impl Write, item: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(item)?;
    line.push(b'\n');
    Ok(to.write_all(&line)?)
}

pub fn print(item: &impl Serialize) -> Result<(), Failure> {
    write_line(&mut io::stdout(), item)
}

pub fn print_answer(answer: Response<impl Name>) -> Result<(), Failure> {
    print(&AsJson(answer.into_inner()))
}

/// Prints text as it is.
pub fn print_text(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Fetches page after page and prints each item as `printed` makes it. `fetch` takes a page's size and token, and
/// returns its items with the next token.
pub async fn print_pages<T, P: Serialize>(
    args: PageArgs,
    printed: impl Fn(T) -> P,
    mut fetch: impl AsyncFnMut(i32, String) -> Result<(Vec<T>, String), Status>,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout());
    let (mut seen, mut token) = (0, String::new());
    while let Some(page_size) = args.next(seen) {
        let (items, next) = fetch(page_size, token).await?;
        for item in items {
            write_line(&mut out, &printed(item))?;
            seen += 1;
        }
        out.flush()?;
        if next.is_empty() {
            break;
        }
        token = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Session, session::StateForm};

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
        write_line(&mut bytes, &[1, 2]).unwrap();
        write_line(&mut bytes, &"a\nb").unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "[1,2]\n\"a\\nb\"\n");
    }

    #[test]
    fn text_that_is_not_json_is_said_to_come_from_the_server() {
        let form = Some(StateForm::StateJson("{".to_owned()));
        let session = Session { state_form: form, ..Default::default() };
        let failure = write_line(&mut Vec::new(), &AsJson(session)).unwrap_err();
        assert!(failure.text().contains("the server answered"), "{}", failure.text());
    }

    #[test]
    fn a_closed_output_is_known_as_one() {
        assert!(matches!(write_line(&mut Closed, &"x"), Err(Failure::OutputClosed)));
    }
}
