//! Writing JSON text: strings, and objects from parts.

use super::Json;

/// Writes an object from keys and the texts of their values.
pub fn object_text<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> Json {
    let mut object = ObjectWriter::new();
    for (key, value) in members {
        object.member("", key, value);
    }
    object.finish()
}

/// Writes an object member by member.
#[derive(Debug)]
pub struct ObjectWriter {
    text: String,
}

impl ObjectWriter {
    /// An object without members.
    pub fn new() -> ObjectWriter {
        ObjectWriter::with_capacity(2)
    }

    /// With room for `bytes` of text.
    pub fn with_capacity(bytes: usize) -> ObjectWriter {
        let mut text = String::with_capacity(bytes);
        text.push('{');
        ObjectWriter { text }
    }

    /// Adds a member. Its key is `prefix` and `key`, one behind the other, to be escaped here;
    /// `value` is JSON text already. The caller sees to it that no key comes twice.
    pub fn member(&mut self, prefix: &str, key: &str, value: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        push_string(&mut self.text, prefix, key);
        self.text.push(':');
        self.text.push_str(value);
    }

    /// The object.
    pub fn finish(mut self) -> Json {
        self.text.push('}');
        Json(self.text)
    }
}

impl Default for ObjectWriter {
    fn default() -> Self {
        ObjectWriter::new()
    }
}

/// How many bytes a string takes within the quotes of its JSON text.
pub fn text_bytes(value: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0C => 1,
        0..0x20 => 5,
        _ => 0,
    };
    value.len() + value.bytes().map(escaped).sum::<usize>()
}

/// Appends the string that is `head` and `tail`, one behind the other, in quotes.
pub fn push_string(text: &mut String, head: &str, tail: &str) {
    text.push('"');
    push_escaped(text, head);
    push_escaped(text, tail);
    text.push('"');
}

fn push_escaped(text: &mut String, value: &str) {
    let mut written = 0;
    for (at, byte) in value.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        text.push_str(&value[written..at]);
        written = at + 1;
        match byte {
            b'"' => text.push_str(r#"\""#),
            b'\\' => text.push_str(r"\\"),
            b'\n' => text.push_str(r"\n"),
            b'\r' => text.push_str(r"\r"),
            b'\t' => text.push_str(r"\t"),
            0x08 => text.push_str(r"\b"),
            0x0C => text.push_str(r"\f"),
            _ => {
                text.push_str(r"\u00");
                for digit in [byte >> 4, byte & 0xF] {
                    text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
                }
            }
        }
    }
    text.push_str(&value[written..]);
}
