//! JSON merge patch (RFC 7396) over text: members that the patch does not name keep their bytes.

use std::borrow::Cow;

use super::read::Reader;
use super::{Json, JsonType, MAX_NESTING, ObjectWriter, OperationFault, value::Map};

/// Merges the object `patch` into an object; a missing value counts as `{}`.
///
/// Members that the patch does not name keep their bytes and their order, new ones follow in the patch's order. If the patch, or
/// the object at a key of the patch, has a key twice, the last value counts. One pass over each text.
///
/// # Errors
///
/// [`OperationFault::TypeMismatch`] if the value or `patch` is not an object; [`OperationFault::TooDeep`] if the patch nests
/// deeper than [`MAX_NESTING`]. The result never nests deeper than the deeper of the two.
pub fn merge_patch(current: Option<&Json>, patch: &Json) -> Result<Json, OperationFault> {
    for side in current.into_iter().chain([patch]) {
        let found = side.json_type();
        if found != JsonType::Object {
            return Err(OperationFault::TypeMismatch { found });
        }
    }
    let changes = read_patch(&mut Reader::new(patch.as_str()), 1)?;
    if let (Some(current), true) = (current, changes.is_empty()) {
        return Ok(current.clone());
    }
    let target = current.map_or(EMPTY, Json::as_str);
    Ok(Json::from_stored(merge_object(&mut Reader::new(target), &changes)))
}

const EMPTY: &str = "{}";

/// The effect of a patch at each of its keys.
type Patch<'t> = Map<Cow<'t, str>, Change<'t>>;

enum Change<'t> {
    Remove,
    Put(&'t str),
    Merge(Patch<'t>),
}

/// Reads a patch whose members are on level `depth`.
fn read_patch<'t>(reader: &mut Reader<'t>, depth: usize) -> Result<Patch<'t>, OperationFault> {
    if depth > MAX_NESTING {
        return Err(OperationFault::TooDeep);
    }
    reader.head();
    let mut patch = Patch::default();
    while let Some(key) = reader.next_key() {
        let change = match reader.peek() {
            b'{' => Change::Merge(read_patch(reader, depth + 1)?),
            _ => match reader.skip_value() {
                "null" => Change::Remove,
                value => Change::Put(value),
            },
        };
        patch.insert(key.decode(), change);
    }
    Ok(patch)
}

/// Merges into the object that is next in `target`. The recursion is as deep as the patch.
fn merge_object(target: &mut Reader<'_>, patch: &Patch<'_>) -> String {
    target.head();
    // The keys as JSON text, and the values that are not removed.
    let mut members: Vec<(Cow<'_, str>, Option<Cow<'_, str>>)> = Vec::new();
    // The member of each change, so that a key that comes again takes the same place.
    let mut places: Vec<Option<usize>> = vec![None; patch.len()];
    while let Some(key) = target.next_key() {
        let Some((index, _, change)) = patch.get_full(&key.decode()) else {
            members.push((key.quoted().into(), Some(target.skip_value().into())));
            continue;
        };
        let value = merge_value(target, change);
        if let Some(place) = places[index] {
            members[place].1 = value;
        } else {
            places[index] = Some(members.len());
            members.push((key.quoted().into(), value));
        }
    }
    for ((key, change), place) in patch.iter().zip(places) {
        if place.is_none() {
            members.push((Json::string(key).into_string().into(), new_value(change)));
        }
    }
    let mut object = ObjectWriter::new();
    for (key, value) in members {
        if let Some(value) = value {
            object.quoted_member(&key, &value);
        }
    }
    object.finish().into_string()
}

/// Applies a change to the value that is next in `target`.
fn merge_value<'t>(target: &mut Reader<'_>, change: &Change<'t>) -> Option<Cow<'t, str>> {
    match change {
        Change::Merge(patch) if target.peek() == b'{' => Some(merge_object(target, patch).into()),
        _ => {
            target.skip_value();
            new_value(change)
        }
    }
}

/// Applies a change to a value that is missing or not an object.
fn new_value<'t>(change: &Change<'t>) -> Option<Cow<'t, str>> {
    match change {
        Change::Remove => None,
        Change::Put(text) => Some(Cow::Borrowed(text)),
        Change::Merge(patch) => Some(merge_object(&mut Reader::new(EMPTY), patch).into()),
    }
}

#[cfg(test)]
mod tests;
