//! The codec of every message: as tonic's, but a message that would take far more memory than its bytes is refused before it is decoded.
//!
//! A message within another takes two bytes at least, and hundreds in memory. Millions of them fit into the largest request, and into a few
//! KiB of a compressed one.

use std::{any::type_name, collections::HashMap, fmt, marker::PhantomData, sync::LazyLock};

use prost::{
    DecodeError, Message, Name,
    bytes::Buf,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::{DESCRIPTOR_SET, v1::AppendEventRequest};

/// Bytes of memory, about, that the messages of a request may take without their texts: sixteen times those of the largest request. Those of
/// JSON as a Struct take eight times.
const MEMORY_BYTES: usize = 64 << 20;

/// Levels of messages within messages, beyond which the decoder refuses them.
const LEVELS: usize = 100;

pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + 'static,
    U: Message + Name + Default + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

pub struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U> fmt::Debug for BoundedDecoder<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(type_name::<U>())
    }
}

impl<U: Message + Name + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // All of it is in one piece.
        if let Some(kind) = KINDS.by_name.get(U::NAME)
            && !KINDS.fits(*kind, bytes.chunk())
        {
            return Err(Status::internal(format!("{UNDECODABLE}too many messages within it")));
        }
        self.0.decode(bytes)
    }
}

/// As the decoder says that a message is not one.
pub const UNDECODABLE: &str = "failed to decode Protobuf message: ";

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
    /// By the full name, and by [`Name::NAME`] for what is sent: a full name is put together for each call that asks for it.
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
            if message.parent_file().package_name() == AppendEventRequest::PACKAGE {
                by_name.insert(message.name().to_owned(), at);
            }
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

    fn fits(&self, kind: usize, bytes: &[u8]) -> bool {
        let mut left = MEMORY_BYTES;
        !matches!(self.take(kind, bytes, LEVELS, &mut left), Err(Stop::TooMuch))
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
    use super::*;
    use crate::proto::v1::{AppendEventsRequest, Event, StateDelta, StateOperation};

    const BATCH: &str = "sessiond.v1.AppendEventsRequest";

    fn fits(name: &str, message: &impl Message) -> bool {
        KINDS.fits(KINDS.by_name[name], &message.encode_to_vec())
    }

    fn nulls(count: usize) -> prost_types::Value {
        let null = prost_types::Value { kind: Some(prost_types::value::Kind::NullValue(0)) };
        let values = prost_types::ListValue { values: vec![null; count] };
        prost_types::Value { kind: Some(prost_types::value::Kind::ListValue(values)) }
    }

    #[test]
    fn every_message_that_is_sent_is_known_by_its_name() {
        let sent = KINDS.by_name[AppendEventsRequest::NAME];
        assert_eq!(sent, KINDS.by_name[BATCH]);
        assert!(!KINDS.kinds[sent].fields.is_empty());
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
        let kind = KINDS.by_name[BATCH];
        assert!(!KINDS.fits(kind, &bytes));
    }

    #[test]
    fn what_is_no_message_is_left_to_the_decoder() {
        let kind = KINDS.by_name[BATCH];
        for bytes in [&[0xff; 4][..], &[0x12, 0x7f], &[0x7c], &[0x12]] {
            assert!(KINDS.fits(kind, bytes), "{bytes:?}");
        }
        let depth = 100_000;
        let mut deep = Vec::new();
        for _ in 0..depth {
            deep.extend([0x32, 0x7f]);
        }
        assert!(KINDS.fits(KINDS.by_name["google.protobuf.Value"], &deep));
    }
}
