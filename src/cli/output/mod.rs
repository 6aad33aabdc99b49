//! Standard output: tables on a terminal, otherwise one JSON value a line.

mod sink;
pub mod table;
mod yaml;

use std::{io::Write, mem};

use clap::ValueEnum;
use prost::Name;
use serde::Serialize;
use tonic::{Response, Status};

use super::{args::PageArgs, failure::Failure, hidden::Form, message::AsJson, terminal, time};
use crate::domain::json::Json;
pub use sink::Sink;
use table::Column;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON value a line.
    Json,
    /// For people, cut to the width of the terminal.
    Table,
    /// One YAML document per value.
    Yaml,
}

/// Prints one JSON value a line, whatever the format.
pub fn print(item: &impl Serialize) -> Result<(), Failure> {
    print_as(Format::Json, item)
}

pub fn print_as(format: Format, item: &impl Serialize) -> Result<(), Failure> {
    let json = json_of(item)?;
    match format {
        Format::Json => print_in(Form::Json, &format!("{json}\n")),
        Format::Yaml => print_in(Form::Yaml, &format!("---\n{}", yaml::document(&json))),
        Format::Table => print_text(&table::record(&json, time::now(), terminal::columns())),
    }
}

pub fn print_answer(format: Format, answer: Response<impl Name>) -> Result<(), Failure> {
    print_as(format, &AsJson(answer.into_inner()))
}

/// Items of a list: lines as they come, or rows of a table.
pub struct Lines<'a> {
    format: Format,
    columns: &'a [Column],
    rows: Vec<Json>,
}

impl<'a> Lines<'a> {
    pub fn new(format: Format, columns: &'a [Column]) -> Self {
        Self { format, columns, rows: Vec::new() }
    }

    pub fn add(&mut self, item: &impl Serialize) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.rows.push(json_of(item)?),
            format => print_as(format, item)?,
        }
        Ok(())
    }

    /// Prints the table of the rows so far.
    pub fn end(&mut self) -> Result<(), Failure> {
        let rows = mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        print_text(&table::list(self.columns, &rows, time::now(), terminal::columns()))
    }
}

fn json_of(item: &impl Serialize) -> Result<Json, Failure> {
    Ok(Json::from_stored(serde_json::to_string(item)?))
}

pub fn print_text(text: &str) -> Result<(), Failure> {
    Ok(sink::paint(text)?)
}

/// Prints text of a form, which a pipe or a file gets byte for byte.
pub fn print_in(form: Form, text: &str) -> Result<(), Failure> {
    let mut out = Sink::stdout(form);
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Fetches page after page and prints each item as `printed` makes it. `fetch` takes a page's size and token, and
/// returns its items with the next token. Every page is a table of its own, so that a list of any length is read in
/// bounded memory.
pub async fn print_pages<T, P: Serialize>(
    (format, columns): (Format, &[Column]),
    args: PageArgs,
    printed: impl Fn(T) -> P,
    mut fetch: impl AsyncFnMut(i32, String) -> Result<(Vec<T>, String), Status>,
) -> Result<(), Failure> {
    let (mut seen, mut token) = (0, String::new());
    let mut lines = Lines::new(format, columns);
    while let Some(page_size) = args.next(seen) {
        let (items, next) = fetch(page_size, token).await?;
        seen += items.len() as u64;
        items.into_iter().try_for_each(|item| lines.add(&printed(item)))?;
        lines.end()?;
        if next.is_empty() {
            break;
        }
        token = next;
    }
    if seen == 0 && format == Format::Table && args.limit != Some(0) {
        super::failure::tell("nothing found");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Session, session::StateForm};

    #[test]
    fn text_that_is_not_json_is_said_to_come_from_the_server() {
        let form = Some(StateForm::StateJson("{".to_owned()));
        let session = Session { state_form: form, ..Default::default() };
        let failure = json_of(&AsJson(session)).unwrap_err();
        assert!(failure.text().contains("the server answered"), "{}", failure.text());
    }

    #[test]
    fn an_item_is_one_line() {
        assert_eq!(json_of(&"a\nb").unwrap().as_str(), "\"a\\nb\"");
    }
}
