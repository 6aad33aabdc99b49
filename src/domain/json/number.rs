//! The value of a number's text.

use std::borrow::Cow;

/// A number by its value.
///
/// A number with a point or an exponent is the double nearest to it, any other an integer of any size. A double without a
/// fraction is the same number as the integer.
#[derive(PartialEq)]
pub(super) enum Number<'a> {
    /// The digits.
    Whole(Cow<'a, str>),
    Fraction(f64),
}

impl<'a> Number<'a> {
    pub(super) fn read(text: &'a str) -> Number<'a> {
        if text == "-0" {
            return Number::Whole(Cow::Borrowed("0"));
        }
        if is_integer(text) {
            return Number::Whole(Cow::Borrowed(text));
        }
        // A valid number always parses.
        let double = text.parse().unwrap_or(f64::NAN);
        if double.fract() == 0.0 {
            // The precision makes the formatter write all digits of the exact value; adding 0 turns -0 into 0.
            Number::Whole(Cow::Owned(format!("{:.0}", double + 0.0)))
        } else {
            Number::Fraction(double)
        }
    }
}

/// Whether a number's text has neither point nor exponent.
pub(super) fn is_integer(text: &str) -> bool {
    !text.contains(['.', 'e', 'E'])
}
