//! A number of 128 bits that stands for a value, however it is written.
//!
//! Fingerprints are stored, so the function may never change: every constant here is part of the
//! format of a database. They recognise a request that is repeated; they are no defence against
//! somebody who constructs two values with one fingerprint, who would deceive nobody but himself.

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::number::{Number, write_whole};
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

/// The fingerprint of a value: the same for all texts that differ only in white space, order of
/// keys, escapes, and the form of numbers.
///
/// Values for which [`super::same_value`] holds have the same fingerprint, unless an object has a
/// key twice: here every occurrence counts. One pass, without a tree.
pub fn fingerprint(json: &Json) -> u128 {
    let mut pass = Pass { reader: Reader::new(json.as_str()), scratch: String::new() };
    pass.value(0)
}

struct Pass<'a> {
    reader: Reader<'a>,
    scratch: String,
}

impl Pass<'_> {
    /// The fingerprint of the next value, which stands inside `depth` others.
    fn value(&mut self, depth: usize) -> u128 {
        if depth == MAX_NESTING && matches!(self.reader.peek(), b'[' | b'{') {
            return xxh3_128_with_seed(self.reader.skip_value().as_bytes(), kind::TOO_DEEP);
        }
        match self.reader.head() {
            Head::Literal(text) => xxh3_128_with_seed(text.as_bytes(), kind::LITERAL),
            Head::Number(text) => self.number(text),
            Head::String(raw) => {
                let text = raw.decode_with(&mut self.scratch);
                xxh3_128_with_seed(text.as_bytes(), kind::STRING)
            }
            Head::Array => self.array(depth),
            Head::Object => self.object(depth),
        }
    }

    fn number(&mut self, text: &str) -> u128 {
        match Number::read(text) {
            Number::Integer(digits) => xxh3_128_with_seed(digits.as_bytes(), kind::INTEGER),
            Number::Double(double) if write_whole(double, &mut self.scratch) => {
                xxh3_128_with_seed(self.scratch.as_bytes(), kind::INTEGER)
            }
            Number::Double(double) => {
                xxh3_128_with_seed(&double.to_bits().to_le_bytes(), kind::FRACTION)
            }
        }
    }

    /// Each item is mixed into what came before it, so that order counts.
    fn array(&mut self, depth: usize) -> u128 {
        let (mut items, mut count) = (0, 0_u128);
        while self.reader.has_item() {
            items = mix(items, self.value(depth + 1), kind::ITEM);
            count += 1;
        }
        mix(items, count, kind::ARRAY)
    }

    /// The members' hashes are added up, so that order does not count.
    fn object(&mut self, depth: usize) -> u128 {
        let (mut members, mut count) = (0_u128, 0_u128);
        while let Some(raw) = self.reader.next_key() {
            let key = raw.decode_with(&mut self.scratch);
            let key = xxh3_128_with_seed(key.as_bytes(), kind::KEY);
            let value = self.value(depth + 1);
            members = members.wrapping_add(mix(key, value, kind::MEMBER));
            count += 1;
        }
        mix(members, count, kind::OBJECT)
    }
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
