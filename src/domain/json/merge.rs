//! RFC 7396, JSON merge patch, over text: what the patch does not name keeps its bytes.

use super::members::Members;
use super::read::Reader;
use super::write::push_string;
use super::{Json, JsonType, MAX_NESTING, OperationFault};

/// Merges the object `patch` into an object; no value counts as `{}`.
///
/// Members that the patch does not name keep their bytes and their order, new ones follow in the
/// patch's order. Of a key that is there twice, on either side, the last value counts. One pass
/// over each text.
///
/// # Errors
///
/// [`OperationFault::TypeMismatch`] when the value, or `patch`, is no object;
/// [`OperationFault::TooDeep`] when the patch nests deeper than [`MAX_NESTING`]. The result never
/// nests deeper than the deeper of the two, for a patch puts things where they stand in itself.
pub fn merge_patch(current: Option<&Json>, patch: &Json) -> Result<Json, OperationFault> {
    for side in [current, Some(patch)].into_iter().flatten() {
        let found = side.json_type();
        if found != JsonType::Object {
            return Err(OperationFault::TypeMismatch { found });
        }
    }
    let changes = read_changes(&mut Reader::new(patch.as_str()), 1)?;
    if let (Some(current), []) = (current, changes.entries()) {
        return Ok(current.clone());
    }
    let target = current.map_or(EMPTY, Json::as_str);
    let mut text = String::with_capacity(current.map_or(0, Json::len) + patch.len());
    write_object(&merge_object(&mut Reader::new(target), &changes), &mut text);
    Ok(Json(text))
}

/// What a patch that finds no object to merge into starts from.
const EMPTY: &str = "{}";

/// What a patch does at one key.
enum Change<'p> {
    Remove,
    Put(&'p str),
    Merge(Members<'p, Change<'p>>),
}

/// Reads an object of a patch, which makes `depth` levels with those around it.
fn read_changes<'p>(
    patch: &mut Reader<'p>,
    depth: usize,
) -> Result<Members<'p, Change<'p>>, OperationFault> {
    if depth > MAX_NESTING {
        return Err(OperationFault::TooDeep);
    }
    patch.head();
    let mut changes = Members::default();
    while let Some(key) = patch.next_key() {
        let change = if patch.peek() == b'{' {
            Change::Merge(read_changes(patch, depth + 1)?)
        } else {
            match patch.skip_value() {
                "null" => Change::Remove,
                value => Change::Put(value),
            }
        };
        changes.put(key.decode(), change);
    }
    Ok(changes)
}

/// A member of a merged object.
struct Member<'t> {
    key: Key<'t>,
    value: Value<'t>,
}

enum Key<'t> {
    /// As the target writes it, between the quotes.
    Raw(&'t str),
    /// Of the patch, decoded.
    New(&'t str),
}

enum Value<'t> {
    Removed,
    Text(&'t str),
    Object(Vec<Member<'t>>),
}

/// Merges into the object that `target` stands before. The recursion is as deep as the patch.
fn merge_object<'t>(
    target: &mut Reader<'t>,
    changes: &'t Members<'t, Change<'t>>,
) -> Vec<Member<'t>> {
    target.head();
    let mut members: Vec<Member<'t>> = Vec::new();
    // Where the member of each change is, so that a key that comes again takes the same place.
    let mut places = vec![None; changes.entries().len()];
    while let Some(raw) = target.next_key() {
        let key = Key::Raw(raw.raw());
        let Some(position) = changes.position(&raw.decode()) else {
            let value = Value::Text(target.skip_value());
            members.push(Member { key, value });
            continue;
        };
        let value = merge_value(target, &changes.entries()[position].1);
        match places[position] {
            Some(place) => {
                let member: &mut Member<'t> = &mut members[place];
                member.value = value;
            }
            None => {
                places[position] = Some(members.len());
                members.push(Member { key, value });
            }
        }
    }
    for ((key, change), place) in changes.entries().iter().zip(places) {
        if place.is_none() {
            let key = Key::New(key);
            let value = merge_value(&mut Reader::new(EMPTY), change);
            members.push(Member { key, value });
        }
    }
    members
}

/// What the value that `target` stands before becomes.
fn merge_value<'t>(target: &mut Reader<'t>, change: &'t Change<'t>) -> Value<'t> {
    match change {
        Change::Merge(changes) if target.peek() == b'{' => {
            return Value::Object(merge_object(target, changes));
        }
        _ => target.skip_value(),
    };
    match change {
        Change::Remove => Value::Removed,
        Change::Put(text) => Value::Text(text),
        Change::Merge(changes) => Value::Object(merge_object(&mut Reader::new(EMPTY), changes)),
    }
}

fn write_object(members: &[Member<'_>], text: &mut String) {
    text.push('{');
    let mut first = true;
    for member in members {
        if let Value::Removed = member.value {
            continue;
        }
        if !first {
            text.push(',');
        }
        first = false;
        match member.key {
            Key::Raw(raw) => {
                text.push('"');
                text.push_str(raw);
                text.push('"');
            }
            Key::New(key) => push_string(text, "", key),
        }
        text.push(':');
        match &member.value {
            Value::Removed => {}
            Value::Text(value) => text.push_str(value),
            Value::Object(members) => write_object(members, text),
        }
    }
    text.push('}');
}

#[cfg(test)]
mod tests;
