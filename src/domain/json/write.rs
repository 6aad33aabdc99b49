//! Writes JSON objects from their members.

use super::{Json, escape::push_string};

/// Writes an object from keys and the JSON texts of their values.
pub fn object_text<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> Json {
    let mut object = ObjectWriter::new();
    for (key, value) in members {
        object.member("", key, value);
    }
    object.finish()
}

/// Writes an object member by member.
#[derive(Debug, Default)]
pub struct ObjectWriter(String);

impl ObjectWriter {
    pub fn new() -> ObjectWriter {
        ObjectWriter::default()
    }

    /// Reserves `bytes` of text.
    pub fn with_capacity(bytes: usize) -> ObjectWriter {
        ObjectWriter(String::with_capacity(bytes))
    }

    /// Adds a member. Its key is `prefix` followed by `key`, escaped here; its `value` is JSON text. The caller adds each key
    /// once.
    pub fn member(&mut self, prefix: &str, key: &str, value: &str) {
        self.begin_member();
        push_string(&mut self.0, prefix, key);
        self.0.push(':');
        self.0.push_str(value);
    }

    /// Adds a member whose key is JSON text, too.
    pub(super) fn quoted_member(&mut self, key: &str, value: &str) {
        self.begin_member();
        self.0.push_str(key);
        self.0.push(':');
        self.0.push_str(value);
    }

    fn begin_member(&mut self) {
        self.0.push_str(if self.0.is_empty() { "{" } else { "," });
    }

    pub fn finish(mut self) -> Json {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        Json::from_stored(self.0)
    }
}
