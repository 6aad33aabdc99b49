//! Whether two texts are the same value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::number::Number;
use super::read::{Head, Reader};
use super::{Json, MAX_NESTING};

/// Compares two values as JSON: objects without order, strings by their characters, numbers by value. If an object has a key
/// twice, its last value counts.
///
/// A number with a point or an exponent is the double nearest to it, any other an integer of any size, and the two are compared
/// exactly: `1` is `1.0`, and `9007199254740993` is not `9007199254740992.0`.
pub fn same_value(a: &Json, b: &Json) -> bool {
    a == b || node(&mut Reader::new(a.as_str()), 0) == node(&mut Reader::new(b.as_str()), 0)
}

/// Whether two texts differ in nothing but the white space between their tokens.
pub fn same_tokens(a: &Json, b: &Json) -> bool {
    a == b || token_bytes(a.as_str()).eq(token_bytes(b.as_str()))
}

fn token_bytes(text: &str) -> impl Iterator<Item = u8> {
    let (mut in_string, mut escaped) = (false, false);
    text.bytes().filter(move |byte| {
        let kept = in_string || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        in_string ^= *byte == b'"' && !escaped;
        escaped = in_string && *byte == b'\\' && !escaped;
        kept
    })
}

#[derive(PartialEq)]
enum Node<'a> {
    Literal(&'a str),
    Number(Number<'a>),
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(BTreeMap<Cow<'a, str>, Node<'a>>),
    /// Nested deeper than validated text: compared by its bytes.
    TooDeep(&'a str),
}

/// Reads a value that lies inside `depth` others.
fn node<'a>(reader: &mut Reader<'a>, depth: usize) -> Node<'a> {
    if depth == MAX_NESTING && matches!(reader.peek(), b'[' | b'{') {
        return Node::TooDeep(reader.skip_value());
    }
    match reader.head() {
        Head::Literal(text) => Node::Literal(text),
        Head::Number(text) => Node::Number(Number::read(text)),
        Head::String(text) => Node::String(text.decode()),
        Head::Array => {
            let mut items = Vec::new();
            while reader.has_item() {
                items.push(node(reader, depth + 1));
            }
            Node::Array(items)
        }
        Head::Object => {
            let mut members = BTreeMap::new();
            while let Some(key) = reader.next_key() {
                members.insert(key.decode(), node(reader, depth + 1));
            }
            Node::Object(members)
        }
    }
}

#[cfg(test)]
mod tests;
