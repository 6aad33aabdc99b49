//! Operations on values whose types the caller has checked: adding to a number, appending to a list, and merging an object with a
//! patch (RFC 7396), where members that the patch does not name keep their bytes.

use std::borrow::Cow;

use super::{
    Json,
    read::{Reader, is_integer},
    value::{Map, WHITE_SPACE},
};

/// The amount of an increment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    Whole(i64),
    /// A finite double, which makes the result a double.
    Fraction(f64),
}

/// Adds to a number; a missing value counts as 0. `None` if the result, or the current integer, is out of range.
///
/// A number with a point or an exponent is a double, any other an integer of 64 bits. An integer and a whole amount make an
/// integer; everything else makes a double, which is written so that it stays one.
pub fn increment(current: Option<&Json>, by: Amount) -> Option<Json> {
    let text = current.map_or("0", Json::as_str);
    let by = match by {
        Amount::Whole(by) if is_integer(text) => {
            return text.parse::<i64>().ok()?.checked_add(by).map(Json::integer);
        }
        Amount::Whole(by) => by as f64,
        Amount::Fraction(by) => by,
    };
    // serde_json writes a finite double with a point or an exponent.
    let sum = serde_json::Number::from_f64(text.parse::<f64>().ok()? + by)?;
    Some(Json::from_stored(sum.to_string()))
}

/// Appends the items of the array `values` to a list and drops the oldest until at most `max_length` are left (0: drops none). A
/// missing value counts as an empty list. Items keep their bytes.
pub fn list_append(current: Option<&Json>, values: &Json, max_length: usize) -> Json {
    let lists = current.into_iter().chain([values]);
    let parts: Vec<&str> = if max_length == 0 {
        // Whole contents, because copying them is much faster than splitting them into items.
        lists.map(content).filter(|content| !content.is_empty()).collect()
    } else {
        let mut items: Vec<&str> = lists.flat_map(Json::item_texts).collect();
        items.drain(..items.len().saturating_sub(max_length));
        items
    };
    Json::of_items(&parts)
}

/// The text between an array's brackets.
fn content(list: &Json) -> &str {
    let inner = list.as_str().strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    inner.unwrap_or_default().trim_matches(WHITE_SPACE)
}

/// Merges the object `patch` into an object; a missing value counts as `{}`.
///
/// Members that the patch does not name keep their bytes and their order, new ones follow in the patch's order. If the patch, or
/// the object at a key of the patch, has a key twice, the last value counts. One pass over each text. The result never nests deeper
/// than the deeper of the two.
pub fn merge_patch(current: Option<&Json>, patch: &Json) -> Json {
    let patch = read_patch(&mut Reader::new(patch.as_str()));
    match current {
        Some(current) if patch.is_empty() => current.clone(),
        _ => {
            let target = current.map_or(EMPTY, Json::as_str);
            Json::from_stored(patched(&mut Reader::new(target), &patch))
        }
    }
}

const EMPTY: &str = "{}";

/// The effect of a patch at each of its keys.
type Patch<'t> = Map<Cow<'t, str>, Change<'t>>;

enum Change<'t> {
    Remove,
    Put(&'t str),
    Merge(Patch<'t>),
}

fn read_patch<'t>(reader: &mut Reader<'t>) -> Patch<'t> {
    reader.head();
    let mut patch = Patch::default();
    while let Some(key) = reader.next_key() {
        let change = match reader.peek() {
            b'{' => Change::Merge(read_patch(reader)),
            _ => match reader.skip_value() {
                "null" => Change::Remove,
                value => Change::Put(value),
            },
        };
        patch.insert(key.decode(), change);
    }
    patch
}

/// The text after a patch of the object that is next in `target`. The recursion is as deep as the patch.
fn patched<'t>(target: &mut Reader<'t>, patch: &Patch<'t>) -> String {
    target.head();
    // The keys as JSON text, and the values that are not removed.
    let mut members: Vec<(Cow<'_, str>, Option<Cow<'_, str>>)> = Vec::new();
    // The member of each change, so that a key that comes again takes the same place.
    let mut places: Vec<Option<usize>> = vec![None; patch.len()];
    while let Some(key) = target.next_key() {
        let (place, value) = match patch.get_full(&key.decode()) {
            None => (members.len(), Some(target.skip_value().into())),
            Some((index, _, change)) => {
                (*places[index].get_or_insert(members.len()), change.apply(target))
            }
        };
        if place == members.len() {
            members.push((key.quoted.into(), value));
        } else {
            members[place].1 = value;
        }
    }
    for ((key, change), place) in patch.iter().zip(places) {
        if place.is_none() {
            let value = change.apply(&mut Reader::new(EMPTY));
            members.push((Json::string(key).into_string().into(), value));
        }
    }
    let mut text = String::from("{");
    for (key, value) in &members {
        let Some(value) = value else { continue };
        text.extend([if text.len() > 1 { "," } else { "" }, key, ":", value]);
    }
    text + "}"
}

impl<'t> Change<'t> {
    /// Reads the old value, which is next in `target`. Returns the new one; `None`: it is removed.
    fn apply(&self, target: &mut Reader<'t>) -> Option<Cow<'t, str>> {
        match self {
            Change::Merge(patch) if target.peek() == b'{' => {
                return Some(patched(target, patch).into());
            }
            _ => target.skip_value(),
        };
        match self {
            Change::Remove => None,
            Change::Put(text) => Some(Cow::Borrowed(text)),
            Change::Merge(patch) => Some(patched(&mut Reader::new(EMPTY), patch).into()),
        }
    }
}

#[cfg(test)]
mod tests;
