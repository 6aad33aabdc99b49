//! What single arguments may say: `KEY=JSON`, `JSON|@FILE`, labels, numbers. A text that cannot
//! be meant is refused here, before anything is sent.

use std::{
    fs,
    io::{self, Read as _},
};

use super::json;

/// A key and something to do with it, as `KEY=…` wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed<T> {
    /// Key with its prefix.
    pub key: String,
    /// What stood behind the `=`.
    pub value: T,
}

/// How much to add to a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Written without point and exponent.
    Whole(i64),
    /// Written with one.
    Double(f64),
}

fn split(text: &str) -> Result<(&str, &str), String> {
    text.split_once('=').ok_or_else(|| "there is no `=` between key and value".to_owned())
}

fn keyed<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Keyed<T>, String> {
    let (key, value) = split(text)?;
    Ok(Keyed { key: key.to_owned(), value: read(value)? })
}

/// `KEY=JSON`, any value.
///
/// # Errors
///
/// When there is no `=`, or no JSON behind it; with a hint at quotes.
pub fn assignment(text: &str) -> Result<Keyed<String>, String> {
    let (key, value) = split(text)?;
    keyed(text, |value| json::value(value).map(str::to_owned)).map_err(|error| {
        let hint = if value.is_empty() {
            format!("an empty string is written '{key}=\"\"'")
        } else {
            format!("a string needs quotes: '{key}={}'", json::quote(value))
        };
        format!("`{value}` is no JSON ({error}); {hint}")
    })
}

/// `KEY=JSON` where the value is a list.
///
/// # Errors
///
/// As [`assignment`], and for every other type.
pub fn list_assignment(text: &str) -> Result<Keyed<String>, String> {
    let keyed = assignment(text)?;
    if keyed.value.starts_with('[') {
        return Ok(keyed);
    }
    Err(format!(
        "a list of what to append is needed, not {}: '{}=[{}]'",
        json::type_of(&keyed.value),
        keyed.key,
        keyed.value
    ))
}

/// `KEY=JSON` where the value is an object.
///
/// # Errors
///
/// As [`assignment`], and for every other type.
pub fn object_assignment(text: &str) -> Result<Keyed<String>, String> {
    let keyed = assignment(text)?;
    json::object(&keyed.value)?;
    Ok(keyed)
}

/// `KEY=N`, where a point or an exponent makes N a double.
///
/// # Errors
///
/// When N is no number, or one that neither 64 bits nor a double hold.
pub fn increment(text: &str) -> Result<Keyed<Amount>, String> {
    keyed(text, |number| {
        let wrong = || format!("`{number}` is no number; write 1, -5 or 0.5");
        json::value(number).map_err(|_| wrong())?;
        if number.contains(['.', 'e', 'E']) {
            let double = number.parse::<f64>().map_err(|_| wrong())?;
            return if double.is_finite() {
                Ok(Amount::Double(double))
            } else {
                Err(format!("`{number}` is more than a double holds"))
            };
        }
        match number.parse::<i64>() {
            Ok(whole) => Ok(Amount::Whole(whole)),
            Err(_)
                if number.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) =>
            {
                Err(format!("`{number}` is more than 64 bits hold"))
            }
            Err(_) => Err(wrong()),
        }
    })
}

/// `KEY=VERSION`.
///
/// # Errors
///
/// When VERSION is no whole number from 0.
pub fn key_version(text: &str) -> Result<Keyed<i64>, String> {
    keyed(text, sequence)
}

/// `NAME=VALUE`, a label.
///
/// # Errors
///
/// When there is no `=`, or no name.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a label is written NAME=VALUE".to_owned()),
    }
}

/// A sequence or version: a whole number from 0.
///
/// # Errors
///
/// For anything else.
pub fn sequence(text: &str) -> Result<i64, String> {
    let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("`{text}` is no whole number from 0"))
}

/// `TEXT`, or `@FILE` for a file's content, or `@-` for standard input.
///
/// # Errors
///
/// When the file cannot be read, or is not UTF-8.
pub fn text_or_file(text: &str) -> Result<String, String> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(text.to_owned());
    };
    if path == "-" {
        let mut content = String::new();
        return io::stdin()
            .read_to_string(&mut content)
            .map(|_| content)
            .map_err(|error| format!("cannot read standard input: {error}"));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// A JSON object, or `@FILE` with one.
///
/// # Errors
///
/// When the file cannot be read, or there is no JSON object.
pub fn object_or_file(text: &str) -> Result<String, String> {
    let content = text_or_file(text)?;
    json::object(&content).map(str::to_owned).map_err(|error| {
        format!(
            "no JSON object: {error}; write '{{\"key\": \"value\"}}', or @FILE for a file's content"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_keeps_the_value_as_it_was_written() {
        let parsed = assignment("app:limit= 1.00 ").unwrap();
        assert_eq!((parsed.key.as_str(), parsed.value.as_str()), ("app:limit", "1.00"));
        assert_eq!(assignment("k=\"a=b\"").unwrap().value, "\"a=b\"");
        assert_eq!(assignment("=1").unwrap().key, "");
    }

    #[test]
    fn a_string_without_quotes_is_told_how_to_be_one() {
        let error = assignment("city=Ürümqi").unwrap_err();
        assert!(error.starts_with("`Ürümqi` is no JSON"), "{error}");
        assert!(error.ends_with("a string needs quotes: 'city=\"Ürümqi\"'"), "{error}");
        assert!(assignment("city=").unwrap_err().ends_with("'city=\"\"'"));
        assert!(assignment("city").unwrap_err().contains("no `=`"));
    }

    #[test]
    fn lists_and_objects_are_told_from_the_rest() {
        assert!(list_assignment("k=[1]").is_ok());
        assert!(list_assignment("k=1").unwrap_err().ends_with("'k=[1]'"));
        assert!(object_assignment("k={\"a\":null}").is_ok());
        assert!(object_assignment("k=[]").is_err());
    }

    #[test]
    fn an_increment_is_whole_unless_it_says_otherwise() {
        let amount = |text| increment(text).map(|keyed| keyed.value);
        assert_eq!(amount("n=-5"), Ok(Amount::Whole(-5)));
        assert_eq!(amount("n=9223372036854775807"), Ok(Amount::Whole(i64::MAX)));
        assert_eq!(amount("n=1.0"), Ok(Amount::Double(1.0)));
        assert_eq!(amount("n=1e3"), Ok(Amount::Double(1000.0)));
        assert!(amount("n=9223372036854775808").unwrap_err().contains("64 bits"));
        for text in ["n=", "n=x", "n=\"1\"", "n=1e999", "n=+1", "n=NaN", "n=true", "n=01"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn labels_and_sequences() {
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(label("a="), Ok(("a".to_owned(), String::new())));
        assert!(label("=b").is_err() && label("a").is_err());
        assert_eq!(sequence("0"), Ok(0));
        assert!(sequence("-1").is_err() && sequence("x").is_err());
        assert_eq!(key_version("k=3").unwrap().value, 3);
    }

    #[test]
    fn a_file_is_read_where_its_name_stands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("body.json");
        fs::write(&path, "\n{\"a\": 1.0}\n").unwrap();
        let argument = format!("@{}", path.display());
        assert_eq!(object_or_file(&argument).unwrap(), "{\"a\": 1.0}");
        assert!(object_or_file("@/nowhere/at/all").unwrap_err().contains("cannot read"));
        assert!(object_or_file("[1]").unwrap_err().contains("not a list"));
        assert_eq!(text_or_file("{a}").unwrap(), "{a}");
    }
}
