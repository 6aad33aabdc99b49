//! Checks that validation by serde_json leaves out: nesting, surrogates, the range of numbers.

use memchr::memchr2;

use super::{JsonFault, MAX_NESTING};

/// A number of this many bytes without an exponent is below 1e308, which a double can hold.
const ALWAYS_FINITE_BYTES: usize = 308;

/// Checks text that is known to follow the grammar.
pub(super) fn check(text: &str) -> Result<(), JsonFault> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'"' => check_string(bytes, at + 1)?,
            b'-' | b'0'..=b'9' => check_number(text, at)?,
            b'[' | b'{' if depth == MAX_NESTING => return Err(JsonFault::TooDeep),
            b'[' | b'{' => {
                depth += 1;
                at + 1
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at + 1
            }
            _ => at + 1,
        };
    }
    Ok(())
}

/// Checks the escapes of a string from behind its first quote; returns the position behind its last.
fn check_string(bytes: &[u8], mut at: usize) -> Result<usize, JsonFault> {
    while let Some(skipped) = memchr2(b'"', b'\\', &bytes[at..]) {
        at += skipped;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        at += match utf16_unit(bytes, at) {
            None => 2,
            Some(0xD800..=0xDBFF) if matches!(utf16_unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => {
                12
            }
            Some(0xD800..=0xDFFF) => return Err(JsonFault::LoneSurrogate { offset: at }),
            Some(_) => 6,
        };
    }
    Ok(bytes.len())
}

/// The UTF-16 unit of the `\uXXXX` at `at`.
fn utf16_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..)?.strip_prefix(br"\u")?.get(..4)?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Checks the range of the number at `at`; returns the position behind it.
fn check_number(text: &str, at: usize) -> Result<usize, JsonFault> {
    let in_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E');
    let length = text.as_bytes()[at..].iter().take_while(in_number).count();
    let number = &text[at..at + length];
    let finite = (length <= ALWAYS_FINITE_BYTES && !number.contains(['e', 'E']))
        || number.parse().is_ok_and(f64::is_finite);
    if finite { Ok(at + length) } else { Err(JsonFault::number_overflow(number)) }
}
