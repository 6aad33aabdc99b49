//! A 128-bit hash of a value, whatever its spelling.
//!
//! Fingerprints are stored, so the function must never change: every constant here is part of the database format. They recognise
//! a repeated request and are no defence against a caller that constructs a collision, which harms only that caller.

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::number::Number;
use super::read::{Head, Reader};
use super::{Json, MAX_NESTING};

/// Seeds, so that values of different kinds with the same bytes differ.
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
    pub(super) const TOO_DEEP: u64 = 10;
}

/// The fingerprint of a value: equal for texts that differ only in white space, order of keys, escapes and the form of numbers.
///
/// Values for which [`super::same_value`] holds have the same fingerprint, unless an object has a key twice: here every
/// occurrence counts.
pub fn fingerprint(json: &Json) -> u128 {
    value(&mut Reader::new(json.as_str()), 0)
}

/// The fingerprint of the next value, which lies inside `depth` others.
fn value(reader: &mut Reader<'_>, depth: usize) -> u128 {
    if depth == MAX_NESTING && matches!(reader.peek(), b'[' | b'{') {
        return hash(reader.skip_value(), kind::TOO_DEEP);
    }
    match reader.head() {
        Head::Literal(text) => hash(text, kind::LITERAL),
        Head::Number(text) => match Number::read(text) {
            Number::Whole(digits) => hash(&*digits, kind::INTEGER),
            Number::Fraction(double) => hash(double.to_bits().to_le_bytes(), kind::FRACTION),
        },
        Head::String(text) => hash(&*text.decode(), kind::STRING),
        Head::Array => array(reader, depth),
        Head::Object => object(reader, depth),
    }
}

/// Each item is mixed into what came before it, so that order counts.
fn array(reader: &mut Reader<'_>, depth: usize) -> u128 {
    let (mut items, mut count) = (0, 0);
    while reader.has_item() {
        items = mix(items, value(reader, depth + 1), kind::ITEM);
        count += 1;
    }
    mix(items, count, kind::ARRAY)
}

/// The members' hashes are added up, so that order does not count.
fn object(reader: &mut Reader<'_>, depth: usize) -> u128 {
    let (mut members, mut count) = (0_u128, 0);
    while let Some(key) = reader.next_key() {
        let key = hash(&*key.decode(), kind::KEY);
        members = members.wrapping_add(mix(key, value(reader, depth + 1), kind::MEMBER));
        count += 1;
    }
    mix(members, count, kind::OBJECT)
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
