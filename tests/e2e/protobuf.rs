//! Random messages of the contract, made from its own descriptors, so that a new field is among them by itself.

use std::collections::HashMap;

use proptest::{collection::vec, option, prelude::*, sample::select, strategy::Union};
use prost::{
    Message,
    bytes::BufMut,
    encoding::{WireType, encode_key, encode_varint},
};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use sessiond::proto::DESCRIPTOR_SET;

/// A call of the contract.
#[derive(Clone, Debug)]
pub struct Method {
    /// As it stands in the path: `/package.Service/Method`.
    pub path: String,
    /// Full name of its request, with a dot in front.
    pub request: String,
}

/// The contract, by name.
pub struct Contract {
    pub methods: Vec<Method>,
    messages: HashMap<String, DescriptorProto>,
    enums: HashMap<String, Vec<i32>>,
}

/// How deep messages lie inside one another. A state operation with a value has five.
const DEPTH: usize = 7;

impl Contract {
    pub fn read() -> Self {
        let files = FileDescriptorSet::decode(DESCRIPTOR_SET).unwrap();
        let mut contract =
            Self { methods: Vec::new(), messages: HashMap::new(), enums: HashMap::new() };
        for file in files.file {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                contract.add(&package, message);
            }
            for it in &file.enum_type {
                let values = it.value.iter().map(|value| value.number()).collect();
                contract.enums.insert(format!("{package}.{}", it.name()), values);
            }
            for service in &file.service {
                contract.methods.extend(service.method.iter().map(|method| Method {
                    path: format!("/{}.{}/{}", file.package(), service.name(), method.name()),
                    request: method.input_type().to_owned(),
                }));
            }
        }
        assert_eq!(contract.methods.len(), 20);
        contract
    }

    fn add(&mut self, parent: &str, message: &DescriptorProto) {
        let name = format!("{parent}.{}", message.name());
        for nested in &message.nested_type {
            self.add(&name, nested);
        }
        self.messages.insert(name, message.clone());
    }

    /// Messages of this name, encoded.
    pub fn message(&self, name: &str) -> BoxedStrategy<Vec<u8>> {
        self.nested(name, DEPTH)
    }

    fn nested(&self, name: &str, depth: usize) -> BoxedStrategy<Vec<u8>> {
        if depth == 0 {
            return Just(Vec::new()).boxed();
        }
        let fields: Vec<_> =
            self.messages[name].field.iter().map(|field| self.field(field, depth)).collect();
        fields.prop_map(|fields| fields.concat()).boxed()
    }

    fn field(&self, field: &FieldDescriptorProto, depth: usize) -> BoxedStrategy<Vec<u8>> {
        let number = field.number() as u32;
        let value = self.value(field, depth);
        let tagged = value.prop_map(move |(wire, value)| {
            let mut bytes = Vec::new();
            encode_key(number, wire, &mut bytes);
            bytes.extend(value);
            bytes
        });
        // Keys and scopes are there most of the time, or little else would be reached.
        let often = matches!(
            field.name(),
            "key" | "scope" | "event" | "append" | "session_id" | "app_name" | "user_id"
        );
        match field.label() {
            Label::Repeated => vec(tagged, 0..4).prop_map(|items| items.concat()).boxed(),
            _ => option::weighted(if often { 0.95 } else { 0.4 }, tagged)
                .prop_map(Option::unwrap_or_default)
                .boxed(),
        }
    }

    fn value(
        &self,
        field: &FieldDescriptorProto,
        depth: usize,
    ) -> BoxedStrategy<(WireType, Vec<u8>)> {
        let varint = |number: i64| {
            let mut bytes = Vec::new();
            encode_varint(number as u64, &mut bytes);
            (WireType::Varint, bytes)
        };
        match field.r#type() {
            Type::Message => self.nested(field.type_name(), depth - 1).prop_map(delimited).boxed(),
            Type::String => text(field.name()).prop_map(|it| delimited(it.into_bytes())).boxed(),
            Type::Bool => any::<bool>().prop_map(move |it| varint(it.into())).boxed(),
            Type::Double => double()
                .prop_map(|it| {
                    let mut bytes = Vec::new();
                    bytes.put_f64_le(it);
                    (WireType::SixtyFourBit, bytes)
                })
                .boxed(),
            Type::Enum => {
                let known = self.enums[field.type_name()].clone();
                let known = select(known).prop_map(i64::from);
                prop_oneof![9 => known, 1 => number()].prop_map(varint).boxed()
            }
            Type::Int32 | Type::Int64 => number().prop_map(varint).boxed(),
            other => panic!("no values of type {other:?}"),
        }
    }
}

fn delimited(content: Vec<u8>) -> (WireType, Vec<u8>) {
    let mut bytes = Vec::new();
    encode_varint(content.len() as u64, &mut bytes);
    bytes.extend(content);
    (WireType::LengthDelimited, bytes)
}

fn number() -> impl Strategy<Value = i64> {
    let edges =
        [-1, i64::MIN, i64::MAX, i32::MAX.into(), i32::MIN.into(), 1_000_000_000, 253_402_300_800];
    prop_oneof![8 => 0..12_i64, 2 => select(edges.to_vec()), 1 => any::<i64>()]
}

fn double() -> impl Strategy<Value = f64> {
    let edges =
        [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, 9_007_199_254_740_992.0];
    prop_oneof![4 => (-5..5_i32).prop_map(f64::from), 2 => select(edges.to_vec()), 1 => any::<f64>()]
}

/// Texts for a field of this name: such as fit it, and such as do not.
fn text(field: &str) -> BoxedStrategy<String> {
    let of = |texts: &[&str]| {
        select(texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).boxed()
    };
    let fitting = match field {
        "app_name" => of(&["my_app", "my_app", "my_app", "other"]),
        "user_id" => of(&["alice", "alice", "bob"]),
        "session_id" => of(&["s1", "s1", "s2", "s3", "none"]),
        "key" | "keys" | "remove" => {
            of(&["a", "n", "list", "app:a", "user:n", "temp:t", "app:", "deep"])
        }
        "event_id" | "request_id" | "invocation_id" => of(&["e1", "e2", "e3", "turn"]),
        "paths" => of(&["labels", "display_name", "ttl", "expire_time", "state"]),
        "template" => of(&["{a}", "{n?} {temp:t?}", "{{app:a}}}", "{list}{missing}", "\\{a}${n}"]),
        name if name.ends_with("_json") => of(&[
            "{}",
            "{\"a\":1}",
            "{\"n\":1,\"app:a\":[1e5]}",
            "{\"temp:t\":{\"x\":null}}",
            "[1,\"é\"]",
            "null",
            "1e308",
            "{\"list\":[[[]]],\"a\":9007199254740993}",
            "{\"\":1}",
            "[",
            "{\"user:n\":\"\\ud83d\\ude00\"}",
        ]),
        _ => of(&["", "x", "user", "agent"]),
    };
    let odd = of(&["", "\0", " ", "é", "💬", "\u{2028}", "'; --", "{", "../..", "%s%n"]);
    let long = (1..2000_usize).prop_map(|length| "k".repeat(length)).boxed();
    Union::new_weighted(vec![(20, fitting), (2, odd), (1, long), (1, any::<String>().boxed())])
        .boxed()
}
