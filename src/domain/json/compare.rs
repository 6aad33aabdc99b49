//! Whether two texts are the same value.

use std::borrow::Cow;

use super::members::Members;
use super::number::Number;
use super::read::{Head, Reader};
use super::{Json, MAX_NESTING};

/// Compares two values as JSON: objects without order, of a key that is there twice the last value,
/// strings by their characters, numbers by value.
///
/// A number with a point or an exponent is the double nearest to it, any other an integer of any
/// size, and the two are compared exactly: `1` is `1.0` and `9007199254740993` is not
/// `9007199254740992.0`.
pub fn same_value(a: &Json, b: &Json) -> bool {
    a == b
        || Node::read(&mut Reader::new(a.as_str()), 0)
            .equals(&Node::read(&mut Reader::new(b.as_str()), 0))
}

/// Whether two texts are the same but for the white space between their tokens.
pub fn same_tokens(a: &Json, b: &Json) -> bool {
    a == b || tokens(a.as_str()).eq(tokens(b.as_str()))
}

/// The bytes of a text without the white space between its tokens.
fn tokens(text: &str) -> impl Iterator<Item = u8> {
    let (mut in_string, mut escaped) = (false, false);
    text.bytes().filter(move |byte| {
        let kept = in_string || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        in_string ^= *byte == b'"' && !escaped;
        escaped = in_string && *byte == b'\\' && !escaped;
        kept
    })
}

/// A value that borrows from its text.
enum Node<'a> {
    Literal(&'a str),
    Number(Number<'a>),
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(Members<'a, Node<'a>>),
    /// Deeper than validated text can be: compared by its bytes.
    TooDeep(&'a str),
}

impl<'a> Node<'a> {
    /// Reads a value that stands inside `depth` others.
    fn read(reader: &mut Reader<'a>, depth: usize) -> Node<'a> {
        if depth == MAX_NESTING && matches!(reader.peek(), b'[' | b'{') {
            return Node::TooDeep(reader.skip_value());
        }
        match reader.head() {
            Head::Literal(text) => Node::Literal(text),
            Head::Number(text) => Node::Number(Number::read(text)),
            Head::String(raw) => Node::String(raw.decode()),
            Head::Array => {
                let mut items = Vec::new();
                while reader.has_item() {
                    items.push(Node::read(reader, depth + 1));
                }
                Node::Array(items)
            }
            Head::Object => {
                let mut members = Members::default();
                while let Some(key) = reader.next_key() {
                    members.put(key.decode(), Node::read(reader, depth + 1));
                }
                Node::Object(members)
            }
        }
    }

    fn equals(&self, other: &Node<'_>) -> bool {
        match (self, other) {
            (Node::Literal(a), Node::Literal(b)) | (Node::TooDeep(a), Node::TooDeep(b)) => a == b,
            (Node::Number(a), Node::Number(b)) => a.equals(*b),
            (Node::String(a), Node::String(b)) => a == b,
            (Node::Array(a), Node::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
            }
            (Node::Object(a), Node::Object(b)) => {
                a.entries().len() == b.entries().len()
                    && a.entries()
                        .iter()
                        .all(|(key, value)| b.get(key).is_some_and(|other| value.equals(other)))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
