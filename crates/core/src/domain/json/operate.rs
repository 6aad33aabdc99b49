//! Operations on values whose types the caller has checked: adding to a number, appending to a list, and merging an object with a
//! patch (RFC 7396), where members that the patch does not name keep their bytes.

use std::borrow::Cow;

use super::{
    Json,
    read::{Reader, is_integer},
    value::{Map, WHITE_SPACE},
};

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
///
/// `items` is the number of the list's items if an earlier append has made it, and then that of the result's: such a list needs not be
/// read to be cut, and a delta may append to a long one many times.
pub fn list_append(
    current: Option<&Json>,
    values: &Json,
    max_length: usize,
    items: &mut Option<usize>,
) -> Json {
    let lists = current.into_iter().chain([values]);
    if max_length == 0 {
        *items = None;
        // Whole contents, because copying them is much faster than splitting them into items.
        let parts = lists.map(content).filter(|content| !content.is_empty());
        return Json::of_items(&parts.collect::<Vec<_>>());
    }
    let (known, mut parts) = match *items {
        // A part for each item.
        None => (0, lists.flat_map(Json::item_texts).collect()),
        Some(known) => (known, values.item_texts()),
    };
    let all = known + parts.len();
    let dropped = all.saturating_sub(max_length);
    *items = Some(all - dropped);
    parts.drain(..dropped.saturating_sub(known));
    if dropped < known {
        parts.insert(0, without(current.map_or("", content), dropped));
    }
    Json::of_items(&parts)
}

/// The content of a list without its first items.
fn without(content: &str, items: usize) -> &str {
    let mut reader = Reader::new(content);
    for _ in 0..items {
        reader.skip_value();
    }
    reader.has_item();
    reader.rest()
}

pub fn is_empty_list(list: &Json) -> bool {
    content(list).is_empty()
}

fn content(list: &Json) -> &str {
    let inner = list.as_str().strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    inner.unwrap_or_default().trim_matches(WHITE_SPACE)
}

/// Merges the object `patch` into an object; a missing value counts as `{}`.
///
/// Members that the patch does not name keep their bytes and their order, new ones follow in the patch's order. If the patch, or
/// the object at a key of the patch, has a key twice, the last value counts. One pass over each text, and each change is written at
/// most once, however often the object repeats its key. The result never nests deeper than the deeper of the two.
pub fn merge_patch(current: Option<&Json>, patch: &Json) -> Json {
    let patch = read_patch(&mut Reader::new(patch.as_str()));
    match current {
        Some(current) if patch.is_empty() => current.clone(),
        _ => {
            let mut target = Reader::new(current.map_or("{}", Json::as_str));
            let mut text = String::new();
            Object::read(&mut target, &patch).write(&patch, &mut text);
            Json::from_stored(text)
        }
    }
}

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

/// An object, read as far as a patch needs it. Reading costs nothing for what the patch adds: an object whose key comes again was
/// read in vain, and there may be thousands.
#[derive(Default)]
struct Object<'t> {
    /// The keys as JSON text. A key of the patch has one member, at its first place.
    members: Vec<(&'t str, Member<'t>)>,
    /// The member of each change that has one, by the change's index.
    places: Map<usize, usize>,
}

enum Member<'t> {
    /// The value is not named by the patch.
    Kept(&'t str),
    /// The index of the change, and the object that it is merged into, if there is one.
    Changed(usize, Option<Box<Object<'t>>>),
}

impl<'t> Object<'t> {
    /// Reads the object that is next in `reader`. The recursion is as deep as the patch.
    fn read(reader: &mut Reader<'t>, patch: &Patch<'_>) -> Self {
        reader.head();
        let mut object = Self::default();
        while let Some(key) = reader.next_key() {
            let end = object.members.len();
            let (place, member) = match patch.get_full(&key.decode()) {
                None => (end, Member::Kept(reader.skip_value())),
                Some((index, _, change)) => {
                    let place = *object.places.entry(index).or_insert(end);
                    (place, Member::Changed(index, change.read_old(reader)))
                }
            };
            if place == end {
                object.members.push((key.quoted, member));
            } else {
                object.members[place].1 = member;
            }
        }
        object
    }

    /// Writes the object after its patch.
    fn write(&self, patch: &Patch<'_>, text: &mut String) {
        text.push('{');
        for (key, member) in &self.members {
            match member {
                Member::Kept(value) => write_member(key, value, text),
                Member::Changed(index, old) => patch[*index].write(key, old.as_deref(), text),
            }
        }
        for (index, (key, change)) in patch.iter().enumerate() {
            if !self.places.contains_key(&index) {
                change.write(Json::string(key).as_str(), None, text);
            }
        }
        text.push('}');
    }
}

impl Change<'_> {
    /// Reads the old value, and keeps what a merge needs of it.
    fn read_old<'t>(&self, reader: &mut Reader<'t>) -> Option<Box<Object<'t>>> {
        match self {
            Change::Merge(patch) if reader.peek() == b'{' => {
                return Some(Box::new(Object::read(reader, patch)));
            }
            _ => reader.skip_value(),
        };
        None
    }

    /// Writes the new member, if there is one.
    fn write(&self, key: &str, old: Option<&Object<'_>>, text: &mut String) {
        match self {
            Change::Remove => {}
            Change::Put(value) => write_member(key, value, text),
            Change::Merge(patch) => {
                write_member(key, "", text);
                old.unwrap_or(&Object::default()).write(patch, text);
            }
        }
    }
}

fn write_member(key: &str, value: &str, text: &mut String) {
    // No value ends with this bracket.
    let comma = if text.ends_with('{') { "" } else { "," };
    text.extend([comma, key, ":", value]);
}

#[cfg(test)]
mod tests;
