//! Finds parts of a JSON value by their names, whatever else it holds.

use sessiond_core::domain::json::Json;

/// The member with one of these names; null counts as missing.
pub fn member(json: &Json, names: &[&str]) -> Option<Json> {
    let mut members = json.members().into_iter();
    let found = members.find(|(key, _)| names.contains(&key.as_str()));
    found.map(|(_, value)| value).filter(|value| value.as_str() != "null")
}

/// The value at a path of members, `key.app_name`.
pub fn at(json: &Json, path: &str) -> Option<Json> {
    path.split('.').try_fold(json.clone(), |json, name| member(&json, &[name]))
}

/// A string's characters.
pub fn text(json: &Json, names: &[&str]) -> Option<String> {
    member(json, names).and_then(|value| value.decoded().map(|text| text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_byte_for_byte() {
        let json = Json::parse(r#"{"a":{"b":1.00,"s":"é\n"},"n":null}"#.into());
        let json = json.unwrap();
        assert_eq!(at(&json, "a.b").unwrap().as_str(), "1.00");
        assert_eq!(text(&at(&json, "a").unwrap(), &["x", "s"]).as_deref(), Some("é\n"));
        assert!(member(&json, &["n"]).is_none() && at(&json, "a.c").is_none());
    }
}
