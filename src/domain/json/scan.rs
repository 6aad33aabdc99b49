//! The checks that the grammar leaves out: nesting, surrogates, the range of numbers.

use memchr::memchr2;

use super::read::hex4;
use super::{JsonFault, MAX_NESTING};

/// A number of so many bytes without an exponent is below 1e308, which a double can hold.
const ALWAYS_FINITE_BYTES: usize = 308;

/// Checks text that is known to follow the grammar; `offset` is what stands before it in the text
/// that came. One pass; strings without escapes are skipped by [`memchr2`].
pub(super) fn check(text: &str, offset: usize) -> Result<(), JsonFault> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = check_string(bytes, at + 1, offset)?,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_NESTING {
                    return Err(JsonFault::TooDeep { limit: MAX_NESTING });
                }
                at += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b'-' | b'0'..=b'9' => at = check_number(text, at)?,
            _ => at += 1,
        }
    }
    Ok(())
}

/// Checks the escapes of the string whose content begins at `at`; returns where it has ended.
fn check_string(bytes: &[u8], mut at: usize, offset: usize) -> Result<usize, JsonFault> {
    while let Some(skipped) = memchr2(b'"', b'\\', &bytes[at..]) {
        at += skipped;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        at = match escaped_unit(bytes, at) {
            None => at + 2,
            Some(0xD800..=0xDBFF) => match escaped_unit(bytes, at + 6) {
                Some(0xDC00..=0xDFFF) => at + 12,
                _ => {
                    return Err(JsonFault::LoneSurrogate { offset: offset + at });
                }
            },
            Some(0xDC00..=0xDFFF) => {
                return Err(JsonFault::LoneSurrogate { offset: offset + at });
            }
            Some(_) => at + 6,
        };
    }
    Ok(bytes.len())
}

/// The UTF-16 unit of a `\uXXXX` at `at`, if that is what stands there.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    match bytes.get(at..at + 2) {
        Some(br"\u") => hex4(&bytes[at + 2..]),
        _ => None,
    }
}

/// Checks the range of the number at `at`; returns where it has ended.
fn check_number(text: &str, at: usize) -> Result<usize, JsonFault> {
    let mut exponent = false;
    let mut length = 0;
    for byte in &text.as_bytes()[at..] {
        match byte {
            b'0'..=b'9' | b'.' | b'+' | b'-' => {}
            b'e' | b'E' => exponent = true,
            _ => break,
        }
        length += 1;
    }
    let end = at + length;
    if exponent || length > ALWAYS_FINITE_BYTES {
        let number = &text[at..end];
        if !number.parse().is_ok_and(f64::is_finite) {
            return Err(JsonFault::number_overflow(number));
        }
    }
    Ok(end)
}
