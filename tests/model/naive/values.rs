//! Deltas evaluated on JSON text, written from the contract's comments on `StateDelta`.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};
use sessiond::domain::{
    delta::{Delta, KeyResult, Operation},
    error::{Error, Reason, Violation},
    event::Changes,
    field::{FieldPath, Path},
    json::{Amount, Json, JsonType},
    scope::StateKey,
};

/// The keys that a delta changes and their new values, in the order in which the delta first names them.
pub fn evaluate(
    delta: &Delta,
    field: &FieldPath,
    current: impl Fn(&StateKey) -> Option<Json>,
) -> Result<Vec<KeyResult>, Error> {
    let mut names: Vec<&StateKey> = Vec::new();
    for key in delta.keys() {
        if !names.contains(&key) {
            names.push(key);
        }
    }
    let stored: BTreeMap<&StateKey, Option<Json>> =
        names.iter().map(|key| (*key, current(key))).collect();
    let mut now = stored.clone();
    let mut changed: BTreeMap<&StateKey, bool> = BTreeMap::new();
    for (key, value) in &delta.set {
        now.insert(key, Some(value.clone()));
        changed.insert(key, true);
    }
    for key in &delta.remove {
        now.insert(key, None);
        changed.insert(key, stored[key].is_some());
    }
    let mut overflows = Vec::new();
    for (at, (key, operation)) in delta.operations.iter().enumerate() {
        let before = now[key].as_ref().map(Json::as_str);
        match operate(operation, before) {
            Ok(after) if before.map(compact) == Some(compact(&after)) => {}
            Ok(after) => {
                now.insert(key, Some(Json::from_stored(after)));
                changed.insert(key, true);
            }
            Err(Fault::Mismatch { wanted, found }) => {
                return Err(Error::TypeMismatch { key: key.clone(), wanted, found });
            }
            Err(Fault::Overflow) => {
                let place = Path::REQUEST.field(field);
                let place = place.field("operations");
                let place = place.index(at);
                overflows.push(Violation::new(place, Reason::NumberOverflow, ""));
            }
        }
    }
    if !overflows.is_empty() {
        return Err(Error::Invalid(overflows));
    }
    names.retain(|key| changed.get(key) == Some(&true));
    Ok(names.into_iter().map(|key| (key.clone(), now[key].clone())).collect())
}

/// Why an operation cannot be evaluated.
enum Fault {
    Mismatch { wanted: JsonType, found: JsonType },
    Overflow,
}

fn operate(operation: &Operation, before: Option<&str>) -> Result<String, Fault> {
    let wanted = match operation {
        Operation::Increment(_) => JsonType::Number,
        Operation::ListAppend { .. } => JsonType::Array,
        Operation::MergePatch(_) => JsonType::Object,
        Operation::SetIfAbsent(value) => return Ok(before.unwrap_or(value.as_str()).to_owned()),
    };
    if let Some(before) = before
        && type_of(before) != wanted
    {
        return Err(Fault::Mismatch { wanted, found: type_of(before) });
    }
    match operation {
        Operation::Increment(by) => increment(before.unwrap_or("0"), *by),
        Operation::ListAppend { values, max_length } => {
            Ok(list_append(before.unwrap_or("[]"), values.as_str(), *max_length))
        }
        Operation::MergePatch(patch) => Ok(merge(before.unwrap_or("{}"), patch.as_str())),
        Operation::SetIfAbsent(value) => Ok(value.as_str().to_owned()),
    }
}

fn type_of(text: &str) -> JsonType {
    match serde_json::from_str::<Value>(text).unwrap() {
        Value::Null => JsonType::Null,
        Value::Bool(_) => JsonType::Bool,
        Value::Number(_) => JsonType::Number,
        Value::String(_) => JsonType::String,
        Value::Array(_) => JsonType::Array,
        Value::Object(_) => JsonType::Object,
    }
}

/// An integer and a whole amount make an integer of 64 bits, everything else a double.
fn increment(number: &str, by: Amount) -> Result<String, Fault> {
    let amount = match by {
        Amount::Whole(by) if !number.contains(['.', 'e', 'E']) => {
            let sum = number.parse::<i64>().ok().and_then(|number| number.checked_add(by));
            return sum.map(|sum| sum.to_string()).ok_or(Fault::Overflow);
        }
        Amount::Whole(by) => by as f64,
        Amount::Fraction(by) => by,
    };
    let sum = number.parse::<f64>().unwrap() + amount;
    serde_json::Number::from_f64(sum).map(|sum| sum.to_string()).ok_or(Fault::Overflow)
}

/// Without a bound the two lists keep what is between their brackets, with one only their items.
fn list_append(list: &str, values: &str, max_length: usize) -> String {
    if max_length == 0 {
        let parts = [list, values].map(|text| text[1..text.len() - 1].trim());
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        return format!("[{}]", parts.join(","));
    }
    let mut all = items(list);
    all.extend(items(values));
    format!("[{}]", all[all.len().saturating_sub(max_length)..].join(","))
}

fn items(list: &str) -> Vec<String> {
    let items: Vec<Box<RawValue>> = serde_json::from_str(list).unwrap();
    items.iter().map(|item| item.get().to_owned()).collect()
}

/// RFC 7396 on two objects. Members that the patch does not name stay as they are; new ones follow in its order.
fn merge(object: &str, patch: &str) -> String {
    let patch = unique(members(patch));
    if patch.is_empty() {
        return object.to_owned();
    }
    written(merge_members(members(object), patch))
}

type MemberList = Vec<(String, String)>;

fn merge_members(object: MemberList, patch: MemberList) -> MemberList {
    let named = |name: &str| patch.iter().any(|(other, _)| other == name);
    // Of a member that is there twice, the last value counts where the patch names it.
    let last = unique(object.clone());
    let mut merged: MemberList = Vec::new();
    for (name, value) in object {
        if !named(&name) || !merged.iter().any(|(other, _)| *other == name) {
            merged.push((name, value));
        }
    }
    for (name, change) in &patch {
        let old = last.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let at = merged.iter().position(|(other, _)| other == name);
        let new = match change.starts_with('{') {
            true => {
                let old = old.filter(|old| old.starts_with('{')).unwrap_or("{}");
                Some(written(merge_members(members(old), unique(members(change)))))
            }
            false => Some(change.clone()).filter(|change| change != "null"),
        };
        match (at, new) {
            (Some(at), Some(new)) => merged[at].1 = new,
            (Some(at), None) => drop(merged.remove(at)),
            (None, Some(new)) => merged.push((name.clone(), new)),
            (None, None) => {}
        }
    }
    merged
}

/// Each member once, with its last value, where it came first.
fn unique(members: MemberList) -> MemberList {
    let mut unique: MemberList = Vec::new();
    for (name, value) in members {
        match unique.iter_mut().find(|(other, _)| *other == name) {
            Some((_, known)) => *known = value,
            None => unique.push((name, value)),
        }
    }
    unique
}

fn members(object: &str) -> MemberList {
    serde_json::from_str::<Members>(object).unwrap().0
}

fn written(members: MemberList) -> String {
    let member =
        |(name, value): &(String, String)| format!("{}:{value}", Value::from(name.as_str()));
    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
}

/// The members of an object with the text of each value.
struct Members(MemberList);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push((name, value.get().to_owned()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The text without white space between its tokens.
fn compact(text: &str) -> String {
    match text.as_bytes()[0] {
        b'[' => {
            format!("[{}]", items(text).iter().map(|it| compact(it)).collect::<Vec<_>>().join(","))
        }
        b'{' => written(members(text).into_iter().map(|(name, it)| (name, compact(&it))).collect()),
        _ => text.to_owned(),
    }
}

/// Results as events and logs store them: one object of the keys that were set, and the removed keys.
pub fn changes(results: &[KeyResult]) -> Changes {
    let set = |(key, value): &KeyResult| {
        Some((key.as_str().to_owned(), value.as_ref()?.as_str().to_owned()))
    };
    let set: MemberList = results.iter().filter_map(set).collect();
    let removed = results.iter().filter(|(_, value)| value.is_none());
    Changes {
        set: (!set.is_empty()).then(|| Json::from_stored(written(set))),
        remove: removed.map(|(key, _)| key.clone()).collect(),
    }
}

/// Bytes of a name as JSON writes it, and of its value.
pub fn entry_bytes(name: &str, value: Option<&Json>) -> usize {
    Value::from(name).to_string().len() - 2 + value.map_or(0, |value| value.as_str().len())
}

/// Compares as JSON: objects without order, numbers by value.
pub fn same_value(a: &Json, b: &Json) -> bool {
    let tree = |json: &Json| serde_json::from_str(json.as_str()).unwrap();
    same_tree(&tree(a), &tree(b))
}

fn same_tree(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => a.as_f64() == b.as_f64(),
            (Some(whole), None) => b.as_f64().is_some_and(|it| is_whole(it, whole)),
            (None, Some(whole)) => a.as_f64().is_some_and(|it| is_whole(it, whole)),
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_tree(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| same_tree(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        _ => a == b,
    }
}

fn is_whole(double: f64, whole: i128) -> bool {
    double.fract() == 0.0 && double as i128 == whole
}
