//! Edits of one level of a JSON object that leave every other byte as it was.

use std::ops::Range;

use serde_json::value::RawValue;

use super::halves::{FAULT, has_half, mend};
use crate::domain::json::{Head, Json, JsonType, Reader};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// Unescaped; with U+FFFD for half of a surrogate pair.
    pub key: String,
    /// The key has half of a surrogate pair.
    pub has_half: bool,
    /// Byte for byte.
    pub value: &'a str,
    /// From the quote that opens the key to the end of the value.
    span: Range<usize>,
}

impl Member<'_> {
    /// The members of an object, each of which may nest as deep as a value may. An error names this member.
    pub fn members(&self) -> Result<Vec<(String, Json)>, String> {
        members(&self.key, self.value)
    }
}

/// The members of an object that has this name.
pub fn members(name: &str, text: &str) -> Result<Vec<(String, Json)>, String> {
    let (wanted, found) = (JsonType::Object, Json::from_stored(text.to_owned()).json_type());
    if found != wanted {
        return Err(format!("{name} must be a JSON value of type {wanted}, but has type {found}"));
    }
    let object = Object::read(text).map_err(|fault| format!("{name}: {fault}"))?;
    let value = |member: &Member<'_>| {
        let value = Json::parse(member.value.to_owned());
        let value = value.map_err(|fault| format!("{name}.{} {fault}", member.key))?;
        Ok((member.key.clone(), value))
    };
    object.members.iter().map(value).collect()
}

/// The members of an object in the order of the text, duplicates included.
#[derive(Debug, Clone)]
pub struct Object<'a> {
    text: &'a str,
    pub members: Vec<Member<'a>>,
}

impl<'a> Object<'a> {
    pub fn read(text: &'a str) -> Result<Self, String> {
        let _: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut reader = Reader::new(text);
        let Head::Object = reader.head() else { return Err("expected a JSON object".to_owned()) };
        let mut members = Vec::new();
        let mut end = 0;
        while let Some(key) = reader.next_key() {
            let (mut key, value) = (key.decode().into_owned(), reader.skip_value());
            // A key begins with the first quote after the member before it.
            let start = end + text[end..].find('"').unwrap_or_default();
            let value_start = value.as_ptr().addr() - text.as_ptr().addr();
            let written = text[start..value_start].trim_end_matches([' ', '\t', '\n', '\r', ':']);
            let has_half = has_half(written);
            if has_half {
                key = serde_json::from_str(&mend(written)).unwrap_or_default();
            }
            end = value_start + value.len();
            members.push(Member { key, has_half, value, span: start..end });
        }
        Ok(Self { text, members })
    }

    /// An error if a key has half of a surrogate pair.
    pub fn refuse_halves_in_keys(&self, name: &str) -> Result<(), String> {
        match self.members.iter().find(|member| member.has_half) {
            Some(Member { key, .. }) => Err(format!("{name}: the key `{key}` {FAULT}")),
            None => Ok(()),
        }
    }

    /// Position of the last member with one of these keys, which is the one that counts.
    pub fn position(&self, keys: &[&str]) -> Option<usize> {
        self.members.iter().rposition(|member| keys.contains(&member.key.as_str()))
    }

    /// The last member with one of these keys.
    pub fn get(&self, keys: &[&str]) -> Option<&Member<'a>> {
        self.position(keys).map(|position| &self.members[position])
    }

    /// As [`Object::get`]; null counts as missing.
    pub fn value(&self, keys: &[&str]) -> Option<&Member<'a>> {
        self.get(keys).filter(|member| member.value != "null")
    }

    /// A string's characters, or nothing if there is no such member or it is null. An error names the member.
    pub fn text(&self, keys: &[&str]) -> Result<String, String> {
        let Some(member) = self.value(keys) else { return Ok(String::new()) };
        if has_half(member.value) {
            return Err(format!("{} {FAULT}", member.key));
        }
        serde_json::from_str(member.value).map_err(|_| format!("{} must be a string", member.key))
    }

    /// The text without the members that `unwanted` picks.
    ///
    /// A member goes with the white space up to the next one, the last member with everything after its predecessor.
    /// Removing a member that [`Object::with_first`] added restores the text.
    pub fn without(&self, unwanted: impl Fn(usize, &Member<'_>) -> bool) -> String {
        let Self { text, members } = self;
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return (*text).to_owned();
        };
        let kept = members.iter().enumerate();
        let mut kept = kept.filter(|(position, member)| !unwanted(*position, member)).peekable();
        let mut out = text[..first.span.start].to_owned();
        while let Some((position, member)) = kept.next() {
            out.push_str(&text[member.span.clone()]);
            if kept.peek().is_some() {
                out.push_str(&text[member.span.end..members[position + 1].span.start]);
            }
        }
        out.push_str(&text[last.span.end..]);
        out
    }

    /// The text with another value for the member at `position`.
    pub fn with_value(&self, position: usize, value: &str) -> String {
        let Some(member) = self.members.get(position) else {
            return self.text.to_owned();
        };
        let start = member.span.end - member.value.len();
        format!("{}{value}{}", &self.text[..start], &self.text[member.span.end..])
    }

    /// The text with one more member before all others.
    pub fn with_first(&self, key: &str, value: &str) -> String {
        let (at, comma) = match self.members.first() {
            Some(first) => (first.span.start, ","),
            None => (self.text.find('{').map_or(0, |brace| brace + 1), ""),
        };
        let (before, after) = self.text.split_at(at);
        format!("{before}{}:{value}{comma}{after}", Json::string(key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut_key(text: &str, key: &str) -> String {
        Object::read(text).unwrap().without(|_, member| member.key == key)
    }

    #[test]
    fn members_come_in_order_with_duplicates_and_raw_values() {
        let object = Object::read("{ \"a\" : 1.0 ,\"b,\\\"\":[ ], \"a\":\"x\"}").unwrap();
        let seen: Vec<_> = object.members.iter().map(|m| (m.key.as_str(), m.value)).collect();
        assert_eq!(seen, [("a", "1.0"), ("b,\"", "[ ]"), ("a", "\"x\"")]);
        assert_eq!(object.text(&["a"]).as_deref(), Ok("x"));
        assert!(object.get(&["c"]).is_none());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["[]", "1", "", "{\"a\":}", "{} {}", "{\"a\":1,}"] {
            assert!(Object::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cutting_leaves_the_rest_as_it_was() {
        let text = "{ \"a\": 1,\n \"b\": {\"a\": 2} ,\"c\":3 }";
        assert_eq!(cut_key(text, "a"), "{ \"b\": {\"a\": 2} ,\"c\":3 }");
        assert_eq!(cut_key(text, "b"), "{ \"a\": 1,\n \"c\":3 }");
        assert_eq!(cut_key(text, "c"), "{ \"a\": 1,\n \"b\": {\"a\": 2} }");
        assert_eq!(cut_key(text, "d"), text);
        assert_eq!(cut_key("{ \"a\" : 1 }", "a"), "{  }");
        assert_eq!(cut_key("{\"a\":1,\"b\":2,\"a\":3}", "a"), "{\"b\":2}");
        assert_eq!(cut_key("{ }", "a"), "{ }");
    }

    #[test]
    fn a_value_is_replaced_in_its_place() {
        let object = Object::read("{ \"a\" : [1] , \"b\": 2}").unwrap();
        assert_eq!(object.with_value(0, "{}"), "{ \"a\" : {} , \"b\": 2}");
        assert_eq!(object.with_value(1, "null"), "{ \"a\" : [1] , \"b\": null}");
        assert_eq!(object.position(&["a", "b"]), Some(1));
        assert_eq!(object.get(&["c"]), None);
    }

    #[test]
    fn what_was_put_first_is_cut_without_a_trace() {
        for text in ["{}", "{ }", "{\n}", "{\"b\":1}", "{ \"b\" : [1, 2] , \"c\":{} }"] {
            let with = Object::read(text).unwrap().with_first("a\"", "{\"k\": 1}");
            let object = Object::read(&with).unwrap();
            assert_eq!(object.get(&["a\""]).unwrap().value, "{\"k\": 1}");
            assert_eq!(object.without(|position, _| position == 0), text);
        }
    }

    proptest! {
        #[test]
        fn insert_and_cut_are_inverse(
            members in proptest::collection::vec((".{0,3}", "[ \n]{0,2}"), 0..4),
            pad in "[ \n]{0,2}",
        ) {
            let inner: Vec<String> = members
                .iter()
                .map(|(key, space)| format!("{space}{}{space}:{space}1{space}", Json::string(key)))
                .collect();
            let text = format!("{{{pad}{}}}", inner.join(","));
            let with = Object::read(&text).unwrap().with_first("x", "2");
            let object = Object::read(&with).unwrap();
            prop_assert_eq!(object.members.len(), members.len() + 1);
            prop_assert_eq!(object.without(|position, _| position == 0), text);
        }
    }
}
