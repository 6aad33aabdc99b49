//! JSON text as YAML in block style, with every number as it was written.
//!
//! Libraries read numbers into doubles before they write them. Here a value's token is copied, so that 64 bits and
//! trailing zeros survive as they do in JSON.

use crate::{
    cli::hidden::{Form, escape_in},
    domain::json::{Json, JsonType},
};

/// A document without the line `---`.
pub fn document(json: &Json) -> String {
    let mut text = String::new();
    value(json, 0, &mut text);
    text.trim_start_matches([' ', '\n']).to_owned()
}

/// Writes what follows a `key:` or a `-`, with the line break at its end.
fn value(json: &Json, depth: usize, to: &mut String) {
    let children: Vec<_> = match json.json_type() {
        JsonType::Object => {
            let members = json.members().into_iter();
            members.map(|(key, member)| (scalar(&key) + ":", member)).collect()
        }
        _ => json.items().into_iter().map(|item| ("-".to_owned(), item)).collect(),
    };
    if children.is_empty() {
        let text = match json.json_type() {
            JsonType::Object => "{}".to_owned(),
            JsonType::Array => "[]".to_owned(),
            _ => json.decoded().map_or_else(|| json.to_string(), |text| scalar(&text)),
        };
        return to.push_str(&format!(" {text}\n"));
    }
    to.push('\n');
    for (head, child) in children {
        to.push_str(&"  ".repeat(depth));
        to.push_str(&head);
        value(&child, depth + 1, to);
    }
}

/// Without quotes where no reader can take it for anything but this string. YAML's double quotes take JSON's escapes.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./ ".contains(letter);
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(plain)
        && !text.ends_with(' ')
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    match is_plain {
        true => text.to_owned(),
        false => escape_in(Form::Yaml, Json::string(text).as_str()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use yaml_rust2::{Yaml, YamlLoader};

    use super::*;

    fn written(text: &str) -> String {
        document(&Json::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn objects_and_lists_become_blocks_and_numbers_stay() {
        let text = written(
            r#"{"session":{"id":"s 1","m":1.00,"big":12345678901234567890,"none":null},"l":[1,{"a":"yes","b":[]},[2]],"e":{}}"#,
        );
        assert_eq!(
            text,
            "session:\n  id: s 1\n  m: 1.00\n  big: 12345678901234567890\n  none: null\nl:\n  - 1\n  -\n    a: \"yes\"\n    b: []\n  -\n    - 2\ne: {}\n"
        );
        assert_eq!(written("3"), "3\n");
        assert_eq!(written("\"2024-01-01\""), "\"2024-01-01\"\n");
    }

    /// The value that a reader of YAML sees, as JSON.
    fn read(yaml: &Yaml) -> serde_json::Value {
        match yaml {
            Yaml::String(text) => text.clone().into(),
            Yaml::Integer(number) => (*number).into(),
            Yaml::Boolean(flag) => (*flag).into(),
            Yaml::Null => serde_json::Value::Null,
            Yaml::Array(items) => items.iter().map(read).collect(),
            Yaml::Hash(members) => {
                let member = |(key, value): (&Yaml, &Yaml)| {
                    (key.as_str().expect("a key is a string").to_owned(), read(value))
                };
                serde_json::Value::Object(members.iter().map(member).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let word =
            prop_oneof!["\\PC{0,6}", ".{0,4}", Just("no".to_owned()), Just("- a: #".to_owned())];
        let leaf = prop_oneof![
            word.prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<bool>().prop_map(serde_json::Value::from),
            Just(serde_json::Value::Null),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                proptest::collection::btree_map(".{0,5}", inner, 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_reader_of_yaml_reads_the_same_value(value in any_json()) {
            let text = written(&value.to_string());
            let documents = YamlLoader::load_from_str(&text).map_err(|error| {
                TestCaseError::fail(format!("{error}\n{text}"))
            })?;
            prop_assert_eq!(read(&documents[0]), value, "{}", text);
        }
    }
}
