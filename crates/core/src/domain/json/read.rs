//! Reads text that is known to be JSON, in one pass.
//!
//! Nothing here fails. Text that is not JSON after all reads as nonsense, but every step moves on, so that reading it ends.

use std::borrow::Cow;

use memchr::memchr2;

use super::MAX_NESTING;

pub enum Head<'a> {
    /// `{` was read: [`Reader::next_key`] is next.
    Object,
    /// `[` was read: [`Reader::has_item`] is next.
    Array,
    String(RawString<'a>),
    Number(&'a str),
    /// `true`, `false` or `null`; also an array or object beyond [`MAX_NESTING`], so that recursion over a value ends.
    Literal(&'a str),
}

/// A position in a JSON text. Commas and colons carry no information in valid text and are skipped like white space.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Arrays and objects that are open.
    depth: usize,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0, depth: 0 }
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
            b'{' | b'[' if self.depth == MAX_NESTING => Head::Literal(self.skip_value()),
            bracket @ (b'{' | b'[') => {
                self.at += 1;
                self.depth += 1;
                if bracket == b'{' { Head::Object } else { Head::Array }
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
        self.close();
        None
    }

    /// Inside an array: whether another item follows; `false` at the end of the array.
    pub fn has_item(&mut self) -> bool {
        let ended = matches!(self.peek(), b']' | b'}' | 0);
        if ended {
            self.close();
        }
        !ended
    }

    fn close(&mut self) {
        self.at += 1;
        self.depth = self.depth.saturating_sub(1);
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

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

/// Checks text that follows the grammar for what the grammar allows and [`super::Json`] does not.
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut reader = Reader::new(text);
    loop {
        match reader.peek() {
            0 => return Ok(()),
            b']' | b'}' => reader.close(),
            _ => match reader.head() {
                Head::Literal(text) if text.starts_with(['[', '{']) => {
                    return Err(format!(
                        "nests arrays and objects more than {MAX_NESTING} levels deep"
                    ));
                }
                Head::Number(number) if !is_finite(number) => {
                    let shown = &number[..number.len().min(SHOWN_NUMBER_BYTES)];
                    let rest = if shown.len() < number.len() { "…" } else { "" };
                    return Err(format!(
                        "has the number {shown}{rest}, which is beyond the range of a double"
                    ));
                }
                Head::String(string) => {
                    if let Some(at) = string.lone_surrogate() {
                        let offset = reader.at - string.quoted.len() + at;
                        return Err(format!("has an unpaired surrogate escape at byte {offset}"));
                    }
                }
                _ => {}
            },
        }
    }
}

/// Bytes of an overflowing number that a message shows; the number itself may have a megabyte.
const SHOWN_NUMBER_BYTES: usize = 40;

/// A number of this many bytes without an exponent is below 1e308, which a double can hold.
const ALWAYS_FINITE_BYTES: usize = 308;

fn is_finite(number: &str) -> bool {
    (number.len() <= ALWAYS_FINITE_BYTES && !number.contains(['e', 'E']))
        || number.parse().is_ok_and(f64::is_finite)
}

/// Whether a number's text has neither point nor exponent.
pub(super) fn is_integer(text: &str) -> bool {
    !text.contains(['.', 'e', 'E'])
}

#[derive(Clone, Copy, PartialEq)]
pub struct RawString<'a> {
    pub(super) quoted: &'a str,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// The characters; copied only if there are escapes.
    pub fn decode(&self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(serde_json::from_str(self.quoted).unwrap_or_default())
        } else {
            Cow::Borrowed(self.quoted.get(1..self.quoted.len() - 1).unwrap_or_default())
        }
    }

    /// Position of an escape such as `\ud800` that is half of a surrogate pair.
    fn lone_surrogate(&self) -> Option<usize> {
        let unit = |at: usize| {
            let digits = self.quoted.get(at..)?.strip_prefix(r"\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        if !self.escaped {
            return None;
        }
        let mut at = 0;
        loop {
            at += self.quoted[at..].find('\\')?;
            at += match (unit(at), unit(at + 6)) {
                (None, _) => 2,
                (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
                (Some(0xD800..=0xDFFF), _) => return Some(at),
                _ => 6,
            };
        }
    }
}
