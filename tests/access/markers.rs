//! Finds the texts of a tenant in what another one gets.

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use prost_reflect::{DynamicMessage, Value};

use crate::calls::Answer;

/// A text that only one tenant has written. It has letters and digits only, so that no encoding of text changes it.
#[derive(Clone, Debug)]
pub struct Marker(pub String);

impl Marker {
    /// Whether a text has it, also within a page token or a cursor.
    pub fn is_in(&self, text: &str) -> bool {
        let has = |bytes: &[u8]| bytes.windows(self.0.len()).any(|it| it == self.0.as_bytes());
        let decoded = [BASE64_URL_SAFE_NO_PAD.decode(text), BASE64_STANDARD.decode(text)];
        has(text.as_bytes()) || decoded.iter().flatten().any(|bytes| has(bytes))
    }

    pub fn is_in_message(&self, message: &DynamicMessage) -> bool {
        let mut found = false;
        strings(message, &mut |_, text| found |= self.is_in(text));
        found
    }

    /// Whether a caller got it: in a message, in headers and trailers, or in an error.
    pub fn is_in_answer(&self, answer: &Answer) -> bool {
        answer.messages.iter().any(|message| self.is_in_message(message))
            || answer.metadata.iter().any(|it| self.is_in(it))
            || answer.refusal.iter().any(|it| self.is_in(&format!("{it:?}")))
    }
}

/// Visits every string of a message, keys of maps as well, with the name of its field.
pub fn strings(message: &DynamicMessage, visit: &mut dyn FnMut(&str, &str)) {
    for (field, value) in message.fields() {
        of_value(field.name(), value, visit);
    }
}

fn of_value(name: &str, value: &Value, visit: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(name, text),
        Value::Bytes(bytes) => visit(name, &String::from_utf8_lossy(bytes)),
        Value::Message(message) => strings(message, visit),
        Value::List(items) => items.iter().for_each(|item| of_value(name, item, visit)),
        Value::Map(entries) => {
            for (key, value) in entries {
                if let Some(key) = key.as_str() {
                    visit(name, key);
                }
                of_value(name, value, visit);
            }
        }
        _ => {}
    }
}
