//! What a message takes in memory once it is decoded, from its bytes.
//!
//! A message within another takes two bytes at least, and hundreds in memory. Millions of them fit into the largest request, and into a few
//! KiB of a compressed one.

use std::{collections::HashMap, sync::LazyLock};

use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

use super::DESCRIPTOR_SET;

/// Bytes of memory, about, that the messages of a request may take without their texts: sixteen times those of the largest request. Those of
/// JSON as a Struct take eight times.
const MEMORY_BYTES: usize = 64 << 20;

/// Levels of messages within messages, beyond which the decoder refuses them.
const LEVELS: usize = 100;

/// A type of messages of the contract.
#[derive(Clone, Copy, Debug)]
pub struct MessageKind(usize);

impl MessageKind {
    /// The type with a full name; `None`: it is not one of the contract.
    pub fn named(full_name: &str) -> Option<Self> {
        KINDS.by_name.get(full_name).copied().map(Self)
    }

    /// Bytes of memory, about, that a message takes beside its texts; `None`: more than one may.
    pub fn memory(self, bytes: &[u8]) -> Option<usize> {
        let mut left = MEMORY_BYTES;
        let taken = KINDS.take(self.0, bytes, LEVELS, &mut left);
        (!matches!(taken, Err(Stop::TooMuch))).then_some(MEMORY_BYTES - left)
    }
}

enum Stop {
    TooMuch,
    /// The decoder says what is wrong with it. Until there it has allocated what is measured here.
    Undecodable,
}

impl From<DecodeError> for Stop {
    fn from(_: DecodeError) -> Self {
        Self::Undecodable
    }
}

#[derive(Default)]
struct Kind {
    /// Bytes of one in memory, about, without its texts.
    bytes: usize,
    /// The numbers of fields that are messages, with their kinds.
    fields: Vec<(u32, usize)>,
}

struct Kinds {
    /// By the full name.
    by_name: HashMap<String, usize>,
    kinds: Vec<Kind>,
}

static KINDS: LazyLock<Kinds> = LazyLock::new(Kinds::of_contract);

impl Kinds {
    #[expect(
        clippy::expect_used,
        reason = "descriptors are compiled in, and every test reads them"
    )]
    fn of_contract() -> Self {
        let pool =
            DescriptorPool::decode(DESCRIPTOR_SET).expect("descriptors that were compiled in");
        let messages: Vec<_> = pool.all_messages().collect();
        let mut by_name = HashMap::new();
        for (at, message) in messages.iter().enumerate() {
            by_name.insert(message.full_name().to_owned(), at);
        }
        let kind = |message: &MessageDescriptor| {
            let of = |field: FieldDescriptor| match field.kind() {
                prost_reflect::Kind::Message(of) => Some((field.number(), by_name[of.full_name()])),
                _ => None,
            };
            // The alternatives of a oneof share their place, which is about as large as one text.
            let fields = message.fields().filter(|field| field.containing_oneof().is_none());
            let places = fields.count() + message.oneofs().count();
            let fields = message.fields().filter_map(of).collect();
            Kind { bytes: 8 + places * size_of::<String>(), fields }
        };
        Self { kinds: messages.iter().map(kind).collect(), by_name }
    }

    /// Takes what a message of this kind takes from what is `left`.
    fn take(
        &self,
        kind: usize,
        mut bytes: &[u8],
        levels: usize,
        left: &mut usize,
    ) -> Result<(), Stop> {
        let Kind { bytes: own, fields } = &self.kinds[kind];
        *left = left.checked_sub(*own).ok_or(Stop::TooMuch)?;
        while levels > 0 && !bytes.is_empty() {
            let (number, wire) = decode_key(&mut bytes)?;
            let field = fields.iter().find(|(field, _)| *field == number);
            let (Some((_, of)), WireType::LengthDelimited) = (field, wire) else {
                skip_field(wire, number, &mut bytes, DecodeContext::default())?;
                continue;
            };
            let length = usize::try_from(decode_varint(&mut bytes)?).unwrap_or(usize::MAX);
            // The decoder reads one that is cut off as far as it goes.
            let (within, rest) = bytes.split_at(length.min(bytes.len()));
            self.take(*of, within, levels - 1, left)?;
            bytes = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::v1::{AppendEventsRequest, Event, StateDelta, StateOperation};

    const BATCH: &str = "sessiond.v1.AppendEventsRequest";

    fn kind(name: &str) -> MessageKind {
        MessageKind::named(name).unwrap()
    }

    fn fits(name: &str, message: &impl Message) -> bool {
        kind(name).memory(&message.encode_to_vec()).is_some()
    }

    fn nulls(count: usize) -> prost_types::Value {
        let null = prost_types::Value { kind: Some(prost_types::value::Kind::NullValue(0)) };
        let values = prost_types::ListValue { values: vec![null; count] };
        prost_types::Value { kind: Some(prost_types::value::Kind::ListValue(values)) }
    }

    #[test]
    fn every_request_that_is_within_the_limits_is_decoded() {
        let event = Event {
            state_delta: Some(StateDelta {
                operations: vec![StateOperation::default(); 1000],
                ..StateDelta::default()
            }),
            ..Event::default()
        };
        let batch = AppendEventsRequest { events: vec![event; 100], ..Default::default() };
        assert!(fits(BATCH, &batch));
        // Four bytes each: the smallest values of a list.
        assert!(fits("google.protobuf.Value", &nulls((4 << 20) / 4)));
    }

    #[test]
    fn many_messages_in_few_bytes_are_refused_wherever_they_are() {
        let events = AppendEventsRequest {
            events: vec![Event::default(); 500_000],
            ..AppendEventsRequest::default()
        };
        assert!(!fits(BATCH, &events));
        let operations = vec![StateOperation::default(); 2_000_000];
        let delta = StateDelta { operations, ..StateDelta::default() };
        let event = Event { state_delta: Some(delta), ..Event::default() };
        assert!(!fits("sessiond.v1.Event", &event));
        // Behind a group, which no field of the contract is.
        let bytes = [&[0x7b, 0x7c][..], &events.encode_to_vec()].concat();
        assert_eq!(kind(BATCH).memory(&bytes), None);
    }

    #[test]
    fn what_is_no_message_is_left_to_the_decoder() {
        for bytes in [&[0xff; 4][..], &[0x12, 0x7f], &[0x7c], &[0x12]] {
            assert!(kind(BATCH).memory(bytes).is_some(), "{bytes:?}");
        }
        let depth = 100_000;
        let mut deep = Vec::new();
        for _ in 0..depth {
            deep.extend([0x32, 0x7f]);
        }
        assert!(kind("google.protobuf.Value").memory(&deep).is_some());
    }
}
