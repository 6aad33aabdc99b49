//! One pass over the text of a value that was validated before.
//!
//! The reader never fails: text that is no JSON after all gives nonsense, but every value goes
//! forward and no slice leaves the text, so that it ends and does not panic.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// What a value begins with.
pub enum Head<'a> {
    /// `{` was read: [`Reader::next_key`] is next.
    Object,
    /// `[` was read: [`Reader::has_item`] is next.
    Array,
    /// A whole string.
    String(RawString<'a>),
    /// A whole number.
    Number(&'a str),
    /// `true`, `false` or `null`.
    Literal(&'a str),
}

/// A position in a value's text.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// At the beginning of a value.
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0 }
    }

    /// The first byte of what comes next, white space skipped; 0 at the end.
    pub fn peek(&mut self) -> u8 {
        while let b' ' | b'\t' | b'\n' | b'\r' = self.byte() {
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

    /// Inside an object: reads the next member up to its value; `None` when the object has ended.
    pub fn next_key(&mut self) -> Option<RawString<'a>> {
        if self.peek() == b',' {
            self.at += 1;
        }
        if self.peek() != b'"' {
            self.end_container();
            return None;
        }
        let key = self.string();
        if self.peek() == b':' {
            self.at += 1;
        }
        Some(key)
    }

    /// Inside an array: whether a value is next; `false` when the array has ended.
    pub fn has_item(&mut self) -> bool {
        if self.peek() == b',' {
            self.at += 1;
        }
        match self.peek() {
            0 | b']' | b'}' | b',' | b':' => {
                self.end_container();
                false
            }
            _ => true,
        }
    }

    /// The text of the next value, whole, byte for byte.
    pub fn skip_value(&mut self) -> &'a str {
        self.peek();
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.byte() {
                b'"' => {
                    self.string();
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                _ if depth == 0 => {
                    self.word();
                }
                _ => self.at += 1,
            }
            if depth == 0 || self.at >= self.text.len() {
                return self.since(start);
            }
        }
    }

    /// Goes behind the bracket that closes, if one stands here.
    fn end_container(&mut self) {
        if let b'}' | b']' = self.byte() {
            self.at += 1;
        }
    }

    /// A string; its opening quote is next.
    fn string(&mut self) -> RawString<'a> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        self.at = start;
        let mut escaped = false;
        loop {
            let rest = bytes.get(self.at..).unwrap_or_default();
            match memchr2(b'"', b'\\', rest) {
                Some(skipped) if rest[skipped] == b'\\' => {
                    escaped = true;
                    self.at += skipped + 2;
                }
                Some(skipped) => {
                    self.at += skipped + 1;
                    let raw = self.text.get(start..self.at - 1).unwrap_or_default();
                    return RawString { raw, escaped };
                }
                None => {
                    self.at = bytes.len();
                    let raw = self.text.get(start..).unwrap_or_default();
                    return RawString { raw, escaped };
                }
            }
        }
    }

    /// A number or a literal: up to white space or punctuation.
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

/// What stands between a string's quotes.
#[derive(Clone, Copy)]
pub struct RawString<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// The text between the quotes, with its escapes.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// The characters; copied only where there are escapes.
    pub fn decode(&self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut text = String::with_capacity(self.raw.len());
        decode_escapes(self.raw, &mut text);
        Cow::Owned(text)
    }

    /// The characters, where there are escapes written into `scratch`, which is cleared before.
    pub(super) fn decode_with<'b>(&self, scratch: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        if !self.escaped {
            return self.raw;
        }
        scratch.clear();
        decode_escapes(self.raw, scratch);
        scratch
    }
}

/// Appends the characters of `rest`; what is no escape becomes U+FFFD.
fn decode_escapes(mut rest: &str, text: &mut String) {
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        let escape = &rest.as_bytes()[at..];
        let (character, length) = match escape.get(1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(&byte @ (b'"' | b'\\' | b'/')) => (char::from(byte), 2),
            Some(b'u') => decode_unit(escape),
            _ => (char::REPLACEMENT_CHARACTER, 1),
        };
        text.push(character);
        rest = &rest[at + length..];
    }
    text.push_str(rest);
}

/// The character of the `\uXXXX`, or pair of them, that `escape` begins with, and its bytes.
fn decode_unit(escape: &[u8]) -> (char, usize) {
    let Some(first) = hex4(&escape[2..]) else {
        return (char::REPLACEMENT_CHARACTER, 1);
    };
    let second = match (first, escape.get(6..8)) {
        (0xD800..=0xDBFF, Some(br"\u")) => hex4(&escape[8..]),
        _ => None,
    };
    let units = [first, second.unwrap_or(0)];
    match char::decode_utf16(units).next() {
        Some(Ok(character)) => (character, 6 * character.len_utf16()),
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}

/// Four hexadecimal digits.
pub(super) fn hex4(digits: &[u8]) -> Option<u16> {
    digits.get(..4)?.iter().try_fold(0, |unit, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}
