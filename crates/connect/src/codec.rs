//! Messages in JSON and in binary, by their descriptors, and gzip.

use std::io::{self, Read as _};

use flate2::bufread::GzDecoder;
use prost::{Message as _, bytes::Bytes};
use prost_reflect::{DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::ser::{CompactFormatter, Formatter};

use crate::{Refused, apart};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Json,
    Proto,
}

/// Values of a request in JSON: each takes up to 256 bytes while it is converted.
const VALUES: usize = 262_144;

/// Bytes of a message that takes a millisecond to convert, and many times its size in memory: it is converted apart.
const LARGE: usize = 64 << 10;

const SEND_JSON: &str =
    "Send the fields that the contract names, as JSON: an int64 as text, a time as RFC 3339.";

impl Codec {
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Proto => "proto",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::Json, Self::Proto].into_iter().find(|it| it.name() == name)
    }

    /// A message of this codec in binary.
    pub async fn decode(self, message: Bytes, kind: MessageDescriptor) -> Result<Bytes, Refused> {
        if self == Self::Proto {
            return Ok(message);
        }
        if values(&message) > VALUES {
            return Err(Refused::Invalid("too many values in it".into(), "Send less per call."));
        }
        apart(message.len() >= LARGE, || {
            from_json(&message, kind)
                .map(|it| it.encode_to_vec().into())
                .map_err(|error| Refused::Invalid(format!("in its JSON: {error}"), SEND_JSON))
        })
        .await
    }

    /// A binary message in this codec. Errors: it is not of its kind.
    pub async fn encode(self, message: Bytes, kind: MessageDescriptor) -> Result<Bytes, String> {
        if self == Self::Proto {
            return Ok(message);
        }
        let encode = || {
            let read = DynamicMessage::decode(kind, message.clone());
            to_json(&read.map_err(|error| error.to_string())?).map(Bytes::from)
        };
        apart(message.len() >= LARGE, encode).await
    }
}

fn from_json(text: &[u8], kind: MessageDescriptor) -> serde_json::Result<DynamicMessage> {
    // Nothing is the empty message, as in binary.
    let text = if text.is_empty() { b"{}" } else { text };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let message = DynamicMessage::deserialize(kind, &mut deserializer)?;
    deserializer.end()?;
    Ok(message)
}

pub fn to_json(message: &DynamicMessage) -> Result<Vec<u8>, String> {
    let mut serializer = serde_json::Serializer::with_formatter(Vec::new(), Numbers);
    let done = message.serialize_with_options(&mut serializer, &SerializeOptions::new());
    done.map_err(|error| error.to_string())?;
    Ok(serializer.into_inner())
}

/// Writes whole numbers of a `double` without a fraction, as they were sent.
struct Numbers;

impl Formatter for Numbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match value.fract() == 0.0
            && value.abs() < EXACT
            && !(value == 0.0 && value.is_sign_negative())
        {
            true => write!(writer, "{value:.0}"),
            false => CompactFormatter.write_f64(writer, value),
        }
    }
}

/// The values of a JSON text, or some more.
fn values(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

/// Decompresses a message into at most `limit` bytes.
pub fn decompressed(message: &[u8], limit: usize) -> Result<Bytes, Refused> {
    let mut whole = Vec::new();
    let read = GzDecoder::new(message).take(limit as u64 + 1).read_to_end(&mut whole);
    match read {
        Err(error) => {
            let cause = format!("it cannot be decompressed: {error}");
            Err(Refused::Invalid(cause, "Compress it with gzip, or not at all."))
        }
        Ok(_) if whole.len() > limit => Err(Refused::TooLarge),
        Ok(_) => Ok(whole.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        for (text, expected) in [
            ("", 0),
            ("{}", 1),
            (r#"{"a": [1, 2, 3], "b": "x,[{"}"#, 5),
            (r#"["\",[\\", "\\", 1]"#, 3),
        ] {
            assert_eq!(values(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_decompressed_is_bounded() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&[7; 1000]).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(decompressed(&packed, 1000).ok().unwrap(), vec![7; 1000]);
        assert!(matches!(decompressed(&packed, 999), Err(Refused::TooLarge)));
        assert!(matches!(decompressed(&packed[..9], 1000), Err(Refused::Invalid(..))));
    }
}
