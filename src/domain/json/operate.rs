//! Operations on the current value: adding to a number, appending to a list.

use super::number::is_integer;
use super::read::{Head, Reader};
use super::{Json, JsonType, OperationFault, value::WHITE_SPACE};

/// The amount of an increment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    Whole(i64),
    /// A finite double, which makes the result a double.
    Fraction(f64),
}

/// Adds to a number; a missing value counts as 0.
///
/// A number with a point or an exponent is a double, any other an integer of 64 bits. An integer and a whole amount make an
/// integer; everything else makes a double, which is written so that it stays one.
///
/// # Errors
///
/// [`OperationFault::TypeMismatch`] if the value is not a number, [`OperationFault::NumberOverflow`] if the result, or the current
/// integer, is out of range.
pub fn increment(current: Option<&Json>, by: Amount) -> Result<Json, OperationFault> {
    let found = current.map_or(JsonType::Number, Json::json_type);
    if found != JsonType::Number {
        return Err(OperationFault::TypeMismatch { found });
    }
    let text = current.map_or("0", Json::as_str);
    let sum = match by {
        Amount::Whole(amount) if is_integer(text) => text
            .parse::<i64>()
            .ok()
            .and_then(|number| number.checked_add(amount))
            .map(Json::integer),
        Amount::Whole(amount) => add_double(text, amount as f64),
        Amount::Fraction(amount) => add_double(text, amount),
    };
    sum.ok_or(OperationFault::NumberOverflow)
}

/// `None` if the sum is not finite.
fn add_double(text: &str, amount: f64) -> Option<Json> {
    let number: f64 = text.parse().ok()?;
    // serde_json writes a finite double with a point or an exponent.
    serde_json::Number::from_f64(number + amount).map(|sum| Json::from_stored(sum.to_string()))
}

/// Appends the items of the array `values` to a list and drops the oldest until at most `max_length` are left (0: drops none). A
/// missing value counts as an empty list. Items keep their bytes.
///
/// # Errors
///
/// [`OperationFault::TypeMismatch`] if the value or `values` is not an array.
pub fn list_append(
    current: Option<&Json>,
    values: &Json,
    max_length: usize,
) -> Result<Json, OperationFault> {
    let old = current.map_or(Ok(""), content)?;
    let new = content(values)?;
    let kept = if max_length == 0 {
        // Whole contents, because copying them is much faster than splitting them into items.
        [old, new].into_iter().filter(|content| !content.is_empty()).collect()
    } else {
        let mut items = current.map(item_texts).unwrap_or_default();
        items.append(&mut item_texts(values));
        items.drain(..items.len().saturating_sub(max_length));
        items
    };
    let mut text = String::with_capacity(old.len() + new.len() + 3);
    text.push('[');
    for (position, part) in kept.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        text.push_str(part);
    }
    text.push(']');
    Ok(Json::from_stored(text))
}

/// The text between an array's brackets.
fn content(list: &Json) -> Result<&str, OperationFault> {
    let inner = list.as_str().strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let inner = inner.ok_or(OperationFault::TypeMismatch { found: list.json_type() })?;
    Ok(inner.trim_matches(WHITE_SPACE))
}

fn item_texts(list: &Json) -> Vec<&str> {
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
