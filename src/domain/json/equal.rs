//! Whether two texts are the same value, and a hash that tells.
//!
//! A number with a point or an exponent is the double nearest to it, any other an integer of any size, and the two are compared
//! exactly: `1` is `1.0`, and `9007199254740993` is not `9007199254740992.0`.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

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

/// Below this doubles without a fraction are integers of 64 bits.
const EXACT_BELOW: f64 = (1_u64 << 62) as f64;

#[derive(PartialEq)]
enum Node<'a> {
    Literal(&'a str),
    Number(Number<'a>),
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(BTreeMap<Cow<'a, str>, Node<'a>>),
}

fn node<'a>(reader: &mut Reader<'a>) -> Node<'a> {
    match reader.head() {
        Head::Literal(text) => Node::Literal(text),
        Head::Number(text) => Node::Number(Number::read(text)),
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

/// A number by its value. A double without a fraction is the same number as the integer.
enum Number<'a> {
    /// The digits.
    Integer(&'a str),
    Double(f64),
}

impl<'a> Number<'a> {
    fn read(text: &'a str) -> Number<'a> {
        match text {
            "-0" => Number::Integer("0"),
            _ if is_integer(text) => Number::Integer(text),
            // A valid number always parses.
            _ => Number::Double(text.parse().unwrap_or(f64::NAN)),
        }
    }
}

impl PartialEq for Number<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Double(a), Self::Double(b)) => a == b,
            (Self::Integer(digits), Self::Double(double))
            | (Self::Double(double), Self::Integer(digits)) => {
                double.fract() == 0.0 && whole_digits(*double) == *digits
            }
        }
    }
}

/// Nine decimal digits: large numbers are made of such limbs, from the lowest on.
const LIMB: u64 = 1_000_000_000;

/// The powers of two up to that of the largest double's mantissa, 70 kB. Numbers like `1e308` fill a message with little text, so their
/// digits are multiplied, which takes an eighth of the time of dividing.
static POWERS: LazyLock<Vec<Vec<u32>>> = LazyLock::new(|| {
    let doubled = |power: &Vec<u32>| Some(product(power, 2));
    std::iter::successors(Some(vec![1]), doubled).take(972).collect()
});

/// A product without zeros above it; `by` is below 2^53.
fn product(limbs: &[u32], by: u64) -> Vec<u32> {
    let (high, low) = (by / LIMB, by % LIMB);
    let mut product = Vec::with_capacity(limbs.len() + 2);
    let (mut carry, mut before) = (0, 0);
    for limb in limbs.iter().copied().chain([0, 0]).map(u64::from) {
        let sum = limb * low + before * high + carry;
        product.push((sum % LIMB) as u32);
        (carry, before) = (sum / LIMB, limb);
    }
    while product.pop_if(|limb| *limb == 0).is_some() {}
    product
}

/// The digits of a double without a fraction. The formatter would find one digit at a time, and takes a hundred times as long for three
/// hundred of them.
fn whole_digits(double: f64) -> String {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    // Also turns -0 into 0.
    if double.abs() < EXACT_BELOW {
        return (double as i64).to_string();
    }
    let bits = double.abs().to_bits();
    let mantissa = (bits & ((1 << MANTISSA_BITS) - 1)) | (1 << MANTISSA_BITS);
    // From 2^62 on the exponent is larger than that of the mantissa as an integer.
    let shift = (bits >> MANTISSA_BITS) as usize - 1075;
    let limbs = product(&POWERS[shift], mantissa);
    let mut text = vec![b'0'; 9 * limbs.len()];
    for (mut limb, digits) in limbs.into_iter().zip(text.rchunks_mut(9)) {
        for digit in digits.iter_mut().rev() {
            *digit += (limb % 10) as u8;
            limb /= 10;
        }
    }
    let text = String::from_utf8(text).unwrap_or_default();
    let sign = if double < 0.0 { "-" } else { "" };
    [sign, text.trim_start_matches('0')].concat()
}

/// Seeds, so that values of different kinds with the same bytes have different hashes.
mod kind {
    pub(super) const LITERAL: u64 = 1;
    pub(super) const INTEGER: u64 = 2;
    pub(super) const FRACTION: u64 = 3;
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
        Head::Number(text) => match Number::read(text) {
            Number::Integer(digits) => hash(digits, kind::INTEGER),
            Number::Double(double) if double.fract() == 0.0 => {
                hash(whole_digits(double), kind::INTEGER)
            }
            Number::Double(double) => hash(double.to_bits().to_le_bytes(), kind::FRACTION),
        },
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
