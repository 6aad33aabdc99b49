//! Random values, and random ways to write one, for the property tests.

use std::fmt::Write;

use proptest::prelude::*;
use serde_json::Value;

use super::{Json, JsonType};

/// Shorthand for text that is valid.
pub(in super::super) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// What serde_json makes of it.
pub(in super::super) fn tree(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap()
}

/// A value with all that JSON offers.
pub(in super::super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |double| {
            serde_json::Number::from_f64(double).map(Value::from)
        }),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..6).prop_map(Value::from_iter),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]?", any::<String>()]
}

/// A value out of so few that two of them are often equal, or nearly.
pub(in super::super) fn small_value() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        Value::Null,
        Value::from(true),
        Value::from(false),
        Value::from(0),
        Value::from(1),
        Value::from(1.0),
        Value::from(0.5),
        Value::from("a"),
        Value::from("1"),
        Value::from("null"),
    ]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            members(inner),
        ]
    })
}

/// An object out of few.
pub(in super::super) fn small_object() -> impl Strategy<Value = Value> {
    members(small_value())
}

fn members(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec(("[ab\"]", inner), 0..4).prop_map(Value::from_iter)
}

/// Writes a value in one of its many ways; `seed` picks white space, escapes, the order of keys and
/// the form of numbers.
pub(in super::super) fn write_styled(value: &Value, seed: u64) -> Json {
    let mut writer = Styled { text: String::new(), state: seed };
    writer.value(value);
    writer.space();
    json(&writer.text)
}

struct Styled {
    text: String,
    state: u64,
}

impl Styled {
    /// A number below `bound`.
    fn pick(&mut self, bound: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % bound
    }

    fn space(&mut self) {
        let spaces = ["", "", "", " ", "\n", "\t", "\r\n  "];
        let space = spaces[self.pick(spaces.len())];
        self.text.push_str(space);
    }

    fn value(&mut self, value: &Value) {
        self.space();
        match value {
            Value::Null => self.text.push_str("null"),
            Value::Bool(value) => write!(self.text, "{value}").unwrap(),
            Value::Number(number) => self.number(number),
            Value::String(value) => self.string(value),
            Value::Array(items) => {
                self.text.push('[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        self.text.push(',');
                    }
                    self.value(item);
                    self.space();
                }
                self.space();
                self.text.push(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                self.text.push('{');
                while !members.is_empty() {
                    let (key, value) = members.swap_remove(self.pick(members.len()));
                    self.space();
                    self.string(key);
                    self.space();
                    self.text.push(':');
                    self.value(value);
                    self.space();
                    if !members.is_empty() {
                        self.text.push(',');
                    }
                }
                self.space();
                self.text.push('}');
            }
        }
    }

    fn number(&mut self, number: &serde_json::Number) {
        let style = self.pick(6);
        let plain = number.to_string();
        let text = match (number.as_f64().unwrap(), style) {
            (0.0, 0) => "-0".to_owned(),
            (double, 0) if double.fract() == 0.0 && double.abs() < 9e15 => format!("{double:.0}"),
            (double, 1) if double.abs() < 9e15 => format!("{double:e}"),
            (double, 2) if double.abs() < 9e15 => format!("{double:E}"),
            (_, 3) if number.is_i64() && plain.len() < 15 => format!("{plain}.0"),
            (double, 4) if number.is_i64() && double != 0.0 && plain.len() < 15 => {
                format!("{plain}00e-2")
            }
            (_, 5) if number.is_i64() && plain.len() < 15 => format!("{plain}.000E+0"),
            _ => plain,
        };
        self.text.push_str(&text);
    }

    fn string(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            let must = matches!(character, '"' | '\\') || character < ' ';
            match self.pick(4) {
                0 => self.units(character),
                1 if character == '/' => self.text.push_str(r"\/"),
                _ if character == '\n' => self.text.push_str(r"\n"),
                _ if character == '"' => self.text.push_str(r#"\""#),
                _ if must => self.units(character),
                _ => self.text.push(character),
            }
        }
        self.text.push('"');
    }

    fn units(&mut self, character: char) {
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            let written = match self.pick(2) {
                0 => write!(self.text, "\\u{unit:04x}"),
                _ => write!(self.text, "\\u{unit:04X}"),
            };
            written.unwrap();
        }
    }
}

/// The value with every whole double as an integer, so that `==` compares numbers by value.
pub(in super::super) fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(double) if double.fract() == 0.0 && double.abs() < 9e15 => {
                Value::from(format!("{double:.0}").replace("-0", "0").parse::<i64>().unwrap())
            }
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), canonical(value))).collect()
        }
        _ => value.clone(),
    }
}

/// An array or object that nests `depth` levels.
pub(in super::super) fn nested(kind: JsonType, depth: usize) -> String {
    let (open, inner, close) = match kind {
        JsonType::Array => ("[", "", "]"),
        _ => (r#"{"a":"#, "0", "}"),
    };
    [&open.repeat(depth), inner, &close.repeat(depth)].concat()
}
