//! Changes that depend on the current value: adding to a number, adding to a list.

use std::fmt;

use super::number::is_integer;
use super::read::{Head, Reader};
use super::{Json, JsonType, WHITE_SPACE};

/// How much an increment adds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    /// A whole number.
    Whole(i64),
    /// A finite double, which makes the result a double.
    Fraction(f64),
}

/// Why an operation cannot be carried out on the current value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationFault {
    /// The current value is of another type than the operation works on.
    TypeMismatch {
        /// Its type.
        found: JsonType,
    },
    /// The sum is beyond an integer of 64 bits, or no finite double.
    NumberOverflow,
    /// The result would nest deeper than [`super::MAX_NESTING`].
    TooDeep,
}

impl fmt::Display for OperationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperationFault::TypeMismatch { found } => {
                write!(f, "does not work on a value of type {found}")
            }
            OperationFault::NumberOverflow => f.write_str("leaves the range of numbers"),
            OperationFault::TooDeep => f.write_str("makes a value that nests too deep"),
        }
    }
}

impl std::error::Error for OperationFault {}

/// Adds to a number; no value counts as 0.
///
/// A number written with a point or an exponent is a double, any other an integer of 64 bits. An
/// integer and a whole amount make an integer; everything else makes a double, and is written so
/// that it stays one.
///
/// # Errors
///
/// [`OperationFault::TypeMismatch`] when the value is no number, [`OperationFault::NumberOverflow`]
/// when the result, or the integer that is there, is out of range.
pub fn increment(current: Option<&Json>, by: Amount) -> Result<Json, OperationFault> {
    let text = current.map_or("0", Json::as_str);
    let found = JsonType::of(text);
    if found != JsonType::Number {
        return Err(OperationFault::TypeMismatch { found });
    }
    let amount = match by {
        Amount::Whole(amount) if is_integer(text) => {
            let number: i64 = text.parse().map_err(|_| OperationFault::NumberOverflow)?;
            let sum = number.checked_add(amount);
            return sum.map(Json::integer).ok_or(OperationFault::NumberOverflow);
        }
        Amount::Whole(amount) => amount as f64,
        Amount::Fraction(amount) => amount,
    };
    let number: f64 = text.parse().map_err(|_| OperationFault::NumberOverflow)?;
    // What is not finite is no JSON number; what is finite keeps its `.0` or its exponent.
    serde_json::Number::from_f64(number + amount)
        .map(|sum| Json(sum.to_string()))
        .ok_or(OperationFault::NumberOverflow)
}

/// Adds the items of the array `values` to the end of a list, and drops the oldest until at most
/// `max_length` are left (0: drops none). No value counts as an empty list. Items keep their bytes.
///
/// # Errors
///
/// [`OperationFault::TypeMismatch`] when the value, or `values`, is no array.
pub fn list_append(
    current: Option<&Json>,
    values: &Json,
    max_length: usize,
) -> Result<Json, OperationFault> {
    let old = match current {
        Some(list) => content(list)?,
        None => "",
    };
    let new = content(values)?;
    let mut text = String::with_capacity(old.len() + new.len() + 3);
    text.push('[');
    if max_length == 0 {
        text.push_str(old);
        if !old.is_empty() && !new.is_empty() {
            text.push(',');
        }
        text.push_str(new);
    } else {
        let mut list = current.map(items).unwrap_or_default();
        list.append(&mut items(values));
        let dropped = list.len().saturating_sub(max_length);
        for (position, item) in list[dropped..].iter().enumerate() {
            if position > 0 {
                text.push(',');
            }
            text.push_str(item);
        }
    }
    text.push(']');
    Ok(Json(text))
}

/// What stands between an array's brackets.
fn content(list: &Json) -> Result<&str, OperationFault> {
    let inner = list.as_str().strip_prefix('[');
    match inner.and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => Ok(inner.trim_matches(WHITE_SPACE)),
        None => Err(OperationFault::TypeMismatch { found: list.json_type() }),
    }
}

/// The texts of an array's items.
fn items(list: &Json) -> Vec<&str> {
    let mut reader = Reader::new(list.as_str());
    let mut items = Vec::new();
    if let Head::Array = reader.head() {
        while reader.has_item() {
            items.push(reader.skip_value());
        }
    }
    items
}

#[cfg(test)]
mod tests;
