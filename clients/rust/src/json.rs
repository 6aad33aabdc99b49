//! JSON objects as text, the form in which state travels.

use std::collections::HashMap;

use adk_core::Result;
use serde_json::Value;

use crate::error::{invalid, unexpected};

/// The order of the keys is arbitrary: the server compares JSON, not text, to recognize a retry.
pub(crate) fn object_text(object: &HashMap<String, Value>) -> Result<String> {
    serde_json::to_string(object).map_err(|cause| {
        invalid("session.bad_json", "state cannot be written as JSON").with_source(cause)
    })
}

pub(crate) fn parse_object(text: &str) -> Result<HashMap<String, Value>> {
    serde_json::from_str(text).map_err(|cause| {
        unexpected("sessiond sent state that is not a JSON object").with_source(cause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So no text has to be mended before it is sent: neither a `String` nor a [`Value`] can hold what is not Unicode.
    #[test]
    fn half_a_surrogate_pair_is_no_value() {
        for text in [r#""\ud83d""#, r#""a\ude00b""#, r#"{"\ud83d":1}"#] {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_slice::<Value>(b"\"\xff\"").is_err());
        assert_eq!(serde_json::from_str::<Value>(r#""\ud83d\ude00""#).unwrap(), "\u{1f600}");
    }
}
