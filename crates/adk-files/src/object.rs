//! Members of a JSON object, as slices of its text.

use indexmap::IndexMap;
use serde_json::value::RawValue;

use sessiond_core::domain::json::{Head, Json, Reader};

/// The members in the order of the text. Of a key that comes twice the last value counts.
pub struct Object<'a>(pub IndexMap<String, &'a str>);

impl<'a> Object<'a> {
    pub fn read(text: &'a str) -> Result<Self, String> {
        let _: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut reader = Reader::new(text);
        let Head::Object = reader.head() else { return Err("expected a JSON object".to_owned()) };
        let mut members = IndexMap::new();
        while let Some(key) = reader.next_key() {
            members.insert(key.decode().into_owned(), reader.skip_value());
        }
        Ok(Self(members))
    }

    /// The name and the value of the last member with one of these names.
    pub fn get(&self, names: &[&str]) -> Option<(&str, &'a str)> {
        let mut members = self.0.iter().rev();
        let found = members.find(|(name, _)| names.contains(&name.as_str()))?;
        Some((found.0, found.1))
    }

    /// As [`Object::get`]; null counts as missing.
    pub fn value(&self, names: &[&str]) -> Option<(&str, &'a str)> {
        self.get(names).filter(|(_, value)| *value != "null")
    }

    /// A string's characters, or nothing if there is no such member or it is null. An error names the member.
    pub fn text(&self, names: &[&str]) -> Result<String, String> {
        let Some((name, value)) = self.value(names) else { return Ok(String::new()) };
        serde_json::from_str(value).map_err(|_| format!("{name} must be a string"))
    }

    /// The object without the members of these names.
    pub fn without(&self, names: &[&str]) -> Vec<(String, Json)> {
        let kept = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        kept.map(|(name, value)| (name.clone(), Json::from_stored((*value).to_owned()))).collect()
    }
}

/// The members of an object that has this name, each of which may nest as deep as a value may.
pub fn members(name: &str, text: &str) -> Result<Vec<(String, Json)>, String> {
    let object = Object::read(text).map_err(|_| format!("{name} must be a JSON object"))?;
    let value = |(key, value): (String, &str)| match Json::parse(value.to_owned()) {
        Ok(value) => Ok((key, value)),
        Err(fault) => Err(format!("{name}.{key} {fault}")),
    };
    object.0.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order_with_raw_values_and_the_last_of_a_name_counts() {
        let object =
            Object::read("{ \"a\" : 1.0 ,\"b,\\\"\":[ ], \"a\":\"x\", \"n\": null}").unwrap();
        let seen: Vec<_> = object.0.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(seen, [("a", "\"x\""), ("b,\"", "[ ]"), ("n", "null")]);
        assert_eq!(object.text(&["a"]).as_deref(), Ok("x"));
        assert_eq!(object.get(&["n"]), Some(("n", "null")));
        assert!(object.get(&["c"]).is_none() && object.value(&["n"]).is_none());
        assert_eq!(Json::of_members(&object.without(&["a", "n"])).as_str(), "{\"b,\\\"\":[ ]}");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["[]", "1", "", "{\"a\":}", "{} {}", "{\"a\":1,}"] {
            assert!(Object::read(text).is_err(), "{text}");
        }
        assert!(members("state", "[1]").unwrap_err().starts_with("state must be"));
    }
}
