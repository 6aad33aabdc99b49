//! What number a text stands for.

use std::fmt::Write;

/// From here on an `i64` no longer holds every whole double.
const EXACT_AS_I64: f64 = 9_007_199_254_740_992.0;

/// A number by its value.
///
/// As everywhere in the contract, a number that is written with a point or an exponent is a double
/// and any other an integer, here of any size.
#[derive(Clone, Copy)]
pub(super) enum Number<'a> {
    /// Its digits; JSON has one way to write an integer, but for `-0`, which is `0` here.
    Integer(&'a str),
    /// The nearest double.
    Double(f64),
}

impl<'a> Number<'a> {
    pub(super) fn read(text: &'a str) -> Number<'a> {
        if text == "-0" {
            Number::Integer("0")
        } else if is_integer(text) {
            Number::Integer(text)
        } else {
            // No JSON number fails to parse; what no comparison likes is right for anything else.
            Number::Double(text.parse().unwrap_or(f64::NAN))
        }
    }

    /// Whether both are the same number, exactly.
    pub(super) fn equals(self, other: Number<'_>) -> bool {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => a == b,
            (Number::Double(a), Number::Double(b)) => a == b,
            (Number::Integer(digits), Number::Double(double))
            | (Number::Double(double), Number::Integer(digits)) => {
                let mut whole = String::new();
                write_whole(double, &mut whole) && whole == digits
            }
        }
    }
}

/// Whether a number's text has neither point nor exponent.
pub(super) fn is_integer(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// Writes a double as the integer that it is, into `text`, which is cleared before; `false` when it
/// has a fraction.
pub(super) fn write_whole(double: f64, text: &mut String) -> bool {
    if double.fract() != 0.0 {
        return false;
    }
    text.clear();
    if double.abs() < EXACT_AS_I64 {
        write!(text, "{}", double as i64).is_ok()
    } else {
        // With a precision the formatter writes every digit of the exact value.
        write!(text, "{double:.0}").is_ok()
    }
}
