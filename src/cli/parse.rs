//! Values of single arguments: `KEY=JSON`, `JSON|@FILE`, labels, numbers. clap reports their errors as usage errors.

use std::{fs, io, path::Path};

use crate::domain::json::Json;

/// `KEY=VALUE`. The key has its prefix.
pub fn keyed(text: &str) -> Result<(String, &str), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`. Write KEY=VALUE"))?;
    Ok((key.to_owned(), value))
}

/// `KEY=JSON`. The error ends with the hint, which is made from key and value.
pub fn keyed_json(
    text: &str,
    parse: fn(String) -> Result<Json, String>,
    hint: impl Fn(&str, &str) -> String,
) -> Result<(String, Json), String> {
    let (key, value) = keyed(text)?;
    match parse(value.to_owned()) {
        Ok(json) => Ok((key, json)),
        Err(fault) => Err(format!("`{value}` {fault}. {}", hint(&key, value))),
    }
}

/// `KEY=JSON`, any value.
pub fn assignment(text: &str) -> Result<(String, Json), String> {
    keyed_json(text, Json::parse, |key, value| match value {
        "" => format!("Write an empty string as '{key}=\"\"'"),
        value => format!("A string needs quotes: '{key}={}'", Json::string(value)),
    })
}

/// `NAME=VALUE`, a label.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not a label. Write NAME=VALUE")),
    }
}

/// A sequence or a version.
pub fn sequence(text: &str) -> Result<i64, String> {
    let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("`{text}` is not a whole number from 0"))
}

/// `N..M`; without N from 0, without M up to now.
pub fn range(text: &str) -> Result<(i64, Option<i64>), String> {
    let wrong = || format!("`{text}` is not a range of sequences. Write 3..7, 3.. or ..7");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| sequence(text).map_err(|_| wrong());
    let from = if from.is_empty() { 0 } else { number(from)? };
    let to = if to.is_empty() { None } else { Some(number(to)?) };
    match to {
        Some(to) if to < from => Err(wrong()),
        to => Ok((from, to)),
    }
}

pub fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1"))
}

/// `TEXT`, or `@FILE` for a file's content, or `@-` for standard input.
pub fn text_or_file(text: &str) -> Result<String, String> {
    let Some(name) = text.strip_prefix('@') else {
        return Ok(text.to_owned());
    };
    let content = file_or_input(Path::new(name));
    let name = if name == "-" { "standard input" } else { name };
    content.map_err(|error| format!("cannot read {name}: {error}"))
}

/// The content of a file, or of standard input if the path is `-`.
pub fn file_or_input(path: &Path) -> io::Result<String> {
    if path == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) }
}

/// A JSON object, or `@FILE` with one.
pub fn object_or_file(text: &str) -> Result<Json, String> {
    Json::object(text_or_file(text)?).map_err(|fault| {
        format!("the text {fault}. Write '{{\"key\": \"value\"}}', or @FILE for a file's content")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_keeps_the_value_as_it_was_written() {
        let parsed = assignment("app:limit= 1.00 ").unwrap();
        assert_eq!((parsed.0.as_str(), parsed.1.as_str()), ("app:limit", "1.00"));
        assert_eq!(assignment("k=\"a=b\"").unwrap().1.as_str(), "\"a=b\"");
        assert_eq!(assignment("=1").unwrap().0, "");
    }

    #[test]
    fn a_string_without_quotes_is_told_how_to_be_one() {
        let error = assignment("city=Ürümqi").unwrap_err();
        assert!(error.starts_with("`Ürümqi` is not valid JSON"), "{error}");
        assert!(error.ends_with("A string needs quotes: 'city=\"Ürümqi\"'"), "{error}");
        assert!(assignment("city=").unwrap_err().ends_with("'city=\"\"'"));
        assert!(assignment("city").unwrap_err().contains("no `=`"));
    }

    #[test]
    fn labels_and_sequences() {
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(label("a="), Ok(("a".to_owned(), String::new())));
        assert!(label("=b").is_err() && label("a").is_err());
        assert_eq!(sequence("0"), Ok(0));
        assert!(sequence("-1").is_err() && sequence("x").is_err());
    }

    #[test]
    fn a_range_may_be_open_at_both_ends() {
        assert_eq!(range("3..7"), Ok((3, Some(7))));
        assert_eq!(range("3.."), Ok((3, None)));
        assert_eq!(range("..7"), Ok((0, Some(7))));
        for text in ["", "3", "7..3", "a..b", "-1..2", "1...2"] {
            assert!(range(text).unwrap_err().contains("3..7"), "{text}");
        }
    }

    #[test]
    fn a_file_is_read_where_its_name_stands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("body.json");
        fs::write(&path, "\n{\"a\": 1.0}\n").unwrap();
        let argument = format!("@{}", path.display());
        assert_eq!(object_or_file(&argument).unwrap().as_str(), "{\"a\": 1.0}");
        assert!(object_or_file("@/nowhere/at/all").unwrap_err().contains("cannot read"));
        assert!(file_or_input(Path::new("/nowhere/at/all")).is_err());
        assert!(object_or_file("[1]").unwrap_err().contains("has type array"));
        assert_eq!(text_or_file("{a}").unwrap(), "{a}");
    }
}
