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
