//! Reads text that is known to be JSON, in one pass.
//!
//! Nothing here fails. Text that is not JSON after all reads as nonsense, but every step moves on, so that reading it ends.

use std::borrow::Cow;

use memchr::memchr2;

/// The beginning of a value.
pub enum Head<'a> {
    /// `{` was read: [`Reader::next_key`] is next.
    Object,
    /// `[` was read: [`Reader::has_item`] is next.
    Array,
    String(RawString<'a>),
    Number(&'a str),
    /// `true`, `false` or `null`.
    Literal(&'a str),
}

/// A position in a JSON text. Commas and colons carry no information in valid text and are skipped like white space.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0 }
    }

    /// The first byte of the next token; 0 at the end.
    pub(super) fn peek(&mut self) -> u8 {
        while let b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Reads a scalar, or the bracket that opens an array or object.
    pub fn head(&mut self) -> Head<'a> {
        match self.peek() {
            b'{' => {
                self.at += 1;
                Head::Object
            }
            b'[' => {
                self.at += 1;
                Head::Array
            }
            b'"' => Head::String(self.string()),
            b'-' | b'0'..=b'9' => Head::Number(self.word()),
            _ => Head::Literal(self.word()),
        }
    }

    /// Inside an object: reads the next key; `None` at the end of the object.
    pub fn next_key(&mut self) -> Option<RawString<'a>> {
        if self.peek() == b'"' {
            return Some(self.string());
        }
        self.at += 1;
        None
    }

    /// Inside an array: whether another item follows; `false` at the end of the array.
    pub fn has_item(&mut self) -> bool {
        let ended = matches!(self.peek(), b']' | b'}' | 0);
        if ended {
            self.at += 1;
        }
        !ended
    }

    /// The whole next value, byte for byte.
    pub fn skip_value(&mut self) -> &'a str {
        let scalar = !matches!(self.peek(), b'{' | b'[');
        let (start, mut depth) = (self.at, 0_usize);
        if scalar {
            self.head();
            return self.since(start);
        }
        while self.at < self.text.len() {
            match self.byte() {
                b'"' => {
                    self.string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
        self.since(start)
    }

    /// The string that begins here.
    fn string(&mut self) -> RawString<'a> {
        let bytes = self.text.as_bytes();
        let (start, mut escaped) = (self.at, false);
        self.at += 1;
        while let Some(skipped) = memchr2(b'"', b'\\', bytes.get(self.at..).unwrap_or_default()) {
            self.at += skipped + 1;
            if bytes[self.at - 1] == b'"' {
                return RawString { quoted: self.since(start), escaped };
            }
            escaped = true;
            self.at += 1;
        }
        self.at = bytes.len();
        RawString { quoted: self.since(start), escaped }
    }

    /// The number or literal that begins here; of a text that is not JSON, all that is left.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        while let b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E' = self.byte() {
            self.at += 1;
        }
        if self.at == start {
            self.at = self.text.len();
        }
        self.since(start)
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

/// A string with its quotes and escapes.
#[derive(Clone, Copy, PartialEq)]
pub struct RawString<'a> {
    quoted: &'a str,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// The text with its quotes.
    pub(super) fn quoted(&self) -> &'a str {
        self.quoted
    }

    /// The characters; copied only if there are escapes.
    pub fn decode(&self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(serde_json::from_str(self.quoted).unwrap_or_default())
        } else {
            Cow::Borrowed(self.quoted.get(1..self.quoted.len() - 1).unwrap_or_default())
        }
    }
}
