//! Whether two texts are the same value, and a hash that tells.
//!
//! Numbers are compared as decimals, exactly: `1` is `1.0` and `10e-1`, and `9007199254740993` is not `9007199254740992.0`.

use std::{borrow::Cow, collections::BTreeMap};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{
    Json,
    read::{Head, Reader, is_integer},
};

/// Compares two values as JSON: objects without order, strings by their characters, numbers by value. If an object has a key
/// twice, its last value counts.
pub fn same_value(a: &Json, b: &Json) -> bool {
    a == b || node(&mut Reader::new(a.as_str())) == node(&mut Reader::new(b.as_str()))
}

/// Whether two texts differ in nothing but the white space between their tokens.
pub fn same_tokens(a: &Json, b: &Json) -> bool {
    a == b || token_bytes(a.as_str()).eq(token_bytes(b.as_str()))
}

/// The value of a text that was a [`Json`], without the white space between its tokens, which stay byte for byte.
pub fn minified(text: &str) -> Json {
    // White space is ASCII, so that whole characters are left.
    let tokens = String::from_utf8(token_bytes(text).collect());
    Json::from_stored(tokens.unwrap_or_else(|_| text.to_owned()))
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
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(BTreeMap<Cow<'a, str>, Node<'a>>),
}

fn node<'a>(reader: &mut Reader<'a>) -> Node<'a> {
    match reader.head() {
        Head::Literal(text) => Node::Literal(text),
        Head::Number(text) => Node::Number(normal(text)),
        Head::String(text) => Node::String(text.decode()),
        Head::Array => {
            let mut items = Vec::new();
            while reader.has_item() {
                items.push(node(reader));
            }
            Node::Array(items)
        }
        Head::Object => {
            let mut members = BTreeMap::new();
            while let Some(key) = reader.next_key() {
                members.insert(key.decode(), node(reader));
            }
            Node::Object(members)
        }
    }
}

/// The one way to write a number: the digits that count, and an exponent unless it is 0.
fn normal(text: &str) -> Cow<'_, str> {
    if is_integer(text) && !text.ends_with('0') {
        return text.into();
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_end_matches('0');
    let dropped = all.len() - digits.len();
    // Only a number that is next to nothing has an exponent beyond this.
    let exponent = exponent.parse().unwrap_or(i64::MIN);
    let exponent = exponent.saturating_add(dropped as i64 - fraction.len() as i64);
    match (digits.trim_start_matches('0'), exponent) {
        ("", _) => "0".into(),
        (digits, 0) => [sign, digits].concat().into(),
        (digits, exponent) => format!("{sign}{digits}e{exponent}").into(),
    }
}

/// Seeds, so that values of different kinds with the same bytes have different hashes.
mod kind {
    pub(super) const LITERAL: u64 = 1;
    pub(super) const NUMBER: u64 = 2;
    pub(super) const STRING: u64 = 4;
    pub(super) const ITEM: u64 = 5;
    pub(super) const ARRAY: u64 = 6;
    pub(super) const KEY: u64 = 7;
    pub(super) const MEMBER: u64 = 8;
    pub(super) const OBJECT: u64 = 9;
}

/// A 128-bit hash of a value: equal for texts that differ only in white space, order of keys, escapes and the form of numbers.
///
/// Values for which [`same_value`] holds have the same fingerprint, unless an object has a key twice: here every occurrence counts.
///
/// Fingerprints are stored, so the function must never change: every constant here is part of the database format. They recognise
/// a repeated request and are no defence against a caller that constructs a collision, which harms only that caller.
pub fn fingerprint(json: &Json) -> u128 {
    next_fingerprint(&mut Reader::new(json.as_str()))
}

fn next_fingerprint(reader: &mut Reader<'_>) -> u128 {
    match reader.head() {
        Head::Literal(text) => hash(text, kind::LITERAL),
        Head::Number(text) => hash(&*normal(text), kind::NUMBER),
        Head::String(text) => hash(&*text.decode(), kind::STRING),
        Head::Array => {
            // Each item is mixed into what came before it, so that order counts.
            let (mut items, mut count) = (0, 0);
            while reader.has_item() {
                items = mix(items, next_fingerprint(reader), kind::ITEM);
                count += 1;
            }
            mix(items, count, kind::ARRAY)
        }
        Head::Object => {
            // The members' hashes are added up, so that order does not count.
            let (mut members, mut count) = (0_u128, 0);
            while let Some(key) = reader.next_key() {
                let key = hash(&*key.decode(), kind::KEY);
                members = members.wrapping_add(mix(key, next_fingerprint(reader), kind::MEMBER));
                count += 1;
            }
            mix(members, count, kind::OBJECT)
        }
    }
}

fn hash(bytes: impl AsRef<[u8]>, seed: u64) -> u128 {
    xxh3_128_with_seed(bytes.as_ref(), seed)
}

/// One hash of two, in their order.
fn mix(first: u128, second: u128, seed: u64) -> u128 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&first.to_le_bytes());
    bytes[16..].copy_from_slice(&second.to_le_bytes());
    xxh3_128_with_seed(&bytes, seed)
}

#[cfg(test)]
mod tests;
