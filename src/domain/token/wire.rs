//! The bytes of tokens: a kind, fields in fixed order and a checksum, as URL-safe base64.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use xxhash_rust::xxh3::xxh3_64;

use crate::domain::time::Time;

/// The text is not a token of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadToken;

/// Writes a token field by field.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    pub(super) fn optional(&mut self, number: Option<u64>) {
        self.flag(number.is_some());
        self.number(number.unwrap_or(0));
    }

    /// Writes a time even if there is none.
    pub(super) fn optional_time(&mut self, time: Option<Time>) {
        self.flag(time.is_some());
        self.time(time.unwrap_or(Time::LAST));
    }

    pub(super) fn time(&mut self, time: Time) {
        self.0.extend(time.secs().to_le_bytes());
        self.0.extend(time.nanos().to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    pub(super) fn finish(mut self) -> String {
        let sum = xxh3_64(&self.0).to_le_bytes();
        self.0.extend(&sum[..4]);
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }
}

/// Reads a token field by field.
pub(super) struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    pub(super) fn read<T>(
        kind: u8,
        text: &str,
        fields: impl FnOnce(&mut Reader<'_>) -> Result<T, BadToken>,
    ) -> Result<T, BadToken> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| BadToken)?;
        let (content, sum) = bytes.split_last_chunk::<4>().ok_or(BadToken)?;
        let (&first, rest) = content.split_first().ok_or(BadToken)?;
        if first != kind || xxh3_64(content).to_le_bytes()[..4] != sum[..] {
            return Err(BadToken);
        }
        let mut reader = Reader(rest);
        let token = fields(&mut reader)?;
        if reader.0.is_empty() { Ok(token) } else { Err(BadToken) }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], BadToken> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(BadToken)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(super) fn number(&mut self) -> Result<u64, BadToken> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// A sequence, a version or an identity: at most what a database's integer holds.
    pub(super) fn count(&mut self) -> Result<u64, BadToken> {
        let count = self.number()?;
        if i64::try_from(count).is_ok() { Ok(count) } else { Err(BadToken) }
    }

    pub(super) fn flag(&mut self) -> Result<bool, BadToken> {
        match self.bytes::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(BadToken),
        }
    }

    pub(super) fn optional(&mut self) -> Result<Option<u64>, BadToken> {
        let present = self.flag()?;
        let number = self.count()?;
        Ok(present.then_some(number))
    }

    pub(super) fn optional_time(&mut self) -> Result<Option<Time>, BadToken> {
        let present = self.flag()?;
        let time = self.time()?;
        Ok(present.then_some(time))
    }

    pub(super) fn time(&mut self) -> Result<Time, BadToken> {
        let secs = i64::from_le_bytes(self.bytes()?);
        let nanos = u32::from_le_bytes(self.bytes()?);
        Time::new(secs, nanos).ok_or(BadToken)
    }

    pub(super) fn text(&mut self) -> Result<String, BadToken> {
        let length = usize::try_from(self.number()?).map_err(|_| BadToken)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(BadToken)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| BadToken)
    }
}
