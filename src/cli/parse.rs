//! Values of single arguments: `KEY=JSON`, `JSON|@FILE`, labels, numbers. clap reports their errors as usage errors.

use std::{
    fs,
    io::{self, Read as _},
};

use crate::{
    domain::json::{Json, JsonFault, JsonType},
    proto::v1::increment::Amount,
};

/// `KEY=…`. The key has its prefix.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyed<T> {
    pub key: String,
    pub value: T,
}

fn split(text: &str) -> Result<(&str, &str), String> {
    text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`. Write KEY=VALUE"))
}

fn keyed_json(
    text: &str,
    parse: fn(String) -> Result<Json, JsonFault>,
    hint: impl Fn(&str, &str) -> String,
) -> Result<Keyed<Json>, String> {
    let (key, value) = split(text)?;
    let json = parse(value.to_owned())
        .map_err(|fault| format!("`{value}` {fault}. {}", hint(key, value)))?;
    Ok(Keyed { key: key.to_owned(), value: json })
}

/// `KEY=JSON`, any value.
pub fn assignment(text: &str) -> Result<Keyed<Json>, String> {
    keyed_json(text, Json::parse, |key, value| match value {
        "" => format!("Write an empty string as '{key}=\"\"'"),
        value => format!("A string needs quotes: '{key}={}'", Json::string(value)),
    })
}

/// `KEY=JSON` where the value is a list.
pub fn list_assignment(text: &str) -> Result<Keyed<Json>, String> {
    keyed_json(text, Json::array, |key, value| format!("Write the items as '{key}=[{value}]'"))
}

/// `KEY=JSON` where the value is an object.
pub fn object_assignment(text: &str) -> Result<Keyed<Json>, String> {
    keyed_json(text, Json::object, |key, _| format!("Write '{key}={{\"member\": 1}}'"))
}

/// `KEY=N`, where a point or an exponent makes N a double.
pub fn increment(text: &str) -> Result<Keyed<Amount>, String> {
    let (key, number) = split(text)?;
    let json = Json::parse(number.to_owned()).ok();
    if json.is_none_or(|json| json.json_type() != JsonType::Number) {
        return Err(format!("`{number}` is not a number within a double. Write 1, -5 or 0.5"));
    }
    let number = number.trim();
    let value = if number.contains(['.', 'e', 'E']) {
        number.parse().map(Amount::ByDouble).map_err(|error| error.to_string())?
    } else {
        let whole = number.parse().map(Amount::By);
        whole.map_err(|_| format!("`{number}` does not fit into 64 bits. Write {number}.0"))?
    };
    Ok(Keyed { key: key.to_owned(), value })
}

/// `KEY=VERSION`.
pub fn key_version(text: &str) -> Result<Keyed<i64>, String> {
    let (key, version) = split(text)?;
    Ok(Keyed { key: key.to_owned(), value: sequence(version)? })
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

pub fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1"))
}

/// `TEXT`, or `@FILE` for a file's content, or `@-` for standard input.
pub fn text_or_file(text: &str) -> Result<String, String> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(text.to_owned());
    };
    let (name, content) = if path == "-" {
        let mut content = String::new();
        ("standard input", io::stdin().read_to_string(&mut content).map(|_| content))
    } else {
        (path, fs::read_to_string(path))
    };
    content.map_err(|error| format!("cannot read {name}: {error}"))
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
        assert_eq!((parsed.key.as_str(), parsed.value.as_str()), ("app:limit", "1.00"));
        assert_eq!(assignment("k=\"a=b\"").unwrap().value.as_str(), "\"a=b\"");
        assert_eq!(assignment("=1").unwrap().key, "");
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
    fn lists_and_objects_are_told_from_the_rest() {
        assert!(list_assignment("k=[1]").is_ok());
        assert!(list_assignment("k=1").unwrap_err().ends_with("'k=[1]'"));
        assert!(object_assignment("k={\"a\":null}").is_ok());
        assert!(object_assignment("k=[]").is_err());
    }

    #[test]
    fn an_increment_is_whole_unless_it_says_otherwise() {
        let amount = |text| increment(text).map(|keyed| keyed.value);
        assert_eq!(amount("n=-5"), Ok(Amount::By(-5)));
        assert_eq!(amount("n=9223372036854775807"), Ok(Amount::By(i64::MAX)));
        assert_eq!(amount("n=1.0"), Ok(Amount::ByDouble(1.0)));
        assert_eq!(amount("n=1e3"), Ok(Amount::ByDouble(1000.0)));
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
        assert_eq!(object_or_file(&argument).unwrap().as_str(), "{\"a\": 1.0}");
        assert!(object_or_file("@/nowhere/at/all").unwrap_err().contains("cannot read"));
        assert!(object_or_file("[1]").unwrap_err().contains("of type array"));
        assert_eq!(text_or_file("{a}").unwrap(), "{a}");
    }
}
