//! JSON text on one line.

/// The same JSON value without the white space between its tokens. The tokens stay byte for byte.
pub fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let kept = text.chars().filter(|letter| {
        let kept = in_string || !letter.is_ascii_whitespace();
        in_string ^= *letter == '"' && !escaped;
        escaped = in_string && *letter == '\\' && !escaped;
        kept
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn compacting_keeps_strings_and_numbers_as_they_are() {
        let text = "{ \"a b\\\" : \" : [ 1.0 , 12345678901234567890123 ],\r\n\"\\\\\" : \"\\n \" }";
        let expected = "{\"a b\\\" : \":[1.0,12345678901234567890123],\"\\\\\":\"\\n \"}";
        assert_eq!(compact(text), expected);
    }

    proptest! {
        #[test]
        fn compacting_changes_no_value(key in ".*", text in ".*", number in any::<i64>()) {
            let value = serde_json::json!({ key: [text, number, null, {"x": true}] });
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(compact(&pretty), value.to_string());
        }
    }
}
