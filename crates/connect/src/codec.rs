//! Messages in JSON and in binary, base64 and gzip.

use std::io::Read as _;

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use flate2::bufread::GzDecoder;
use prost_reflect::MessageDescriptor;

use crate::{
    Refused,
    from_json::{Fault, from_json},
    to_json::to_json,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Json,
    Proto,
}

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

    /// Appends a binary message in this codec. Errors: it is not of its kind.
    pub fn encode(
        self,
        message: &[u8],
        kind: &MessageDescriptor,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self {
            Self::Proto => out.extend_from_slice(message),
            Self::Json => to_json(kind, message, out)?,
        }
        Ok(())
    }
}

/// A JSON message in binary.
pub fn decode(text: &[u8], kind: &MessageDescriptor, limit: usize) -> Result<Vec<u8>, Refused> {
    from_json(kind, text, limit).map_err(|fault| match fault {
        Fault::TooLarge => Refused::TooLarge,
        Fault::Wrong(error) => Refused::Invalid(format!("in its JSON: {error}"), SEND_JSON),
    })
}

/// Whether JSON has a form of its own for a message that is not that of its fields, nor of any JSON.
pub fn is_written_apart(kind: &MessageDescriptor) -> bool {
    kind.full_name().strip_prefix("google.protobuf.").is_some_and(|name| {
        ["Any", "Duration", "FieldMask", "Timestamp"].contains(&name)
            || name.ends_with("Value") && !["Value", "ListValue", "NullValue"].contains(&name)
    })
}

/// A path of a field mask, which JSON has in camel case.
pub fn in_snake_case(path: &str) -> String {
    let letters = path.chars().flat_map(|letter| {
        let underscore = letter.is_ascii_uppercase().then_some('_');
        underscore.into_iter().chain([letter.to_ascii_lowercase()])
    });
    letters.collect()
}

/// The bytes of a text in either alphabet, with padding or without.
pub fn base64(text: &[u8]) -> Result<Vec<u8>, DecodeError> {
    const EITHER: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let standard = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    EITHER.decode(text.iter().map(standard).collect::<Vec<_>>())
}

/// Decompresses a message into at most `limit` bytes.
pub fn decompressed(message: &[u8], limit: usize) -> Result<Vec<u8>, Refused> {
    let mut whole = Vec::new();
    let read = GzDecoder::new(message).take(limit as u64 + 1).read_to_end(&mut whole);
    match read {
        Err(error) => {
            let cause = format!("it cannot be decompressed: {error}");
            Err(Refused::Invalid(cause, "Compress it with gzip, or not at all."))
        }
        Ok(_) if whole.len() > limit => Err(Refused::TooLarge),
        Ok(_) => Ok(whole),
    }
}

#[cfg(test)]
mod tests;
