//! Random requests, made from the descriptors of the contract, with ids, tokens and cursors of two tenants in every field.

use std::collections::BTreeMap;

use fastrand::Rng;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, MethodDescriptor, Value,
};
use serde_json::json;

use crate::{
    calls::{method, methods, request},
    cases::{Address, CASES},
};

/// Keys of state that both tenants have.
const KEYS: [&str; 6] = ["k0", "k1", "user:k0", "user:k1", "app:shared", "temp:t"];

/// Names that requests about a tenant may contain.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub addresses: Vec<Address>,
    /// By the name of the field.
    pub texts: BTreeMap<String, Vec<String>>,
}

impl Pool {
    pub fn add(&mut self, field: &str, text: &str) {
        let texts = self.texts.entry(field.to_owned()).or_default();
        if !text.is_empty() && !texts.iter().any(|it| it == text) {
            texts.push(text.to_owned());
        }
    }

    fn any(&self, rng: &mut Rng) -> String {
        let texts: Vec<_> = self.texts.values().flatten().collect();
        texts[rng.usize(..texts.len())].clone()
    }
}

pub struct Generator<'p> {
    rng: Rng,
    /// Requests made so far.
    made: usize,
    own: &'p Pool,
    foreign: &'p Pool,
    /// Of the request that is being made.
    pool: &'p Pool,
    address: Address,
}

impl<'p> Generator<'p> {
    pub fn new(rng: Rng, own: &'p Pool, foreign: &'p Pool) -> Self {
        Self { rng, made: 0, own, foreign, pool: own, address: own.addresses[0].clone() }
    }

    /// A request: first every case about each tenant, then random ones, more often about the other tenant than about the caller.
    pub fn next(&mut self) -> (MethodDescriptor, DynamicMessage) {
        let (place, half) = (self.made / 2, self.made % 2);
        self.made += 1;
        if let Some(case) = CASES.get(place) {
            let addresses = &[self.own, self.foreign][half].addresses;
            let method = method(case.method);
            let message = request(&method, &(case.request)(&addresses[place % addresses.len()]));
            return (method, message);
        }
        self.pool = if self.chance(35) { self.own } else { self.foreign };
        self.address = self.pick_address();
        if self.chance(40) {
            let case = &CASES[self.rng.usize(..CASES.len())];
            let method = method(case.method);
            let mut message = request(&method, &(case.request)(&self.address));
            self.replace_one(&mut message);
            return (method, message);
        }
        let all = methods();
        let method = all[self.rng.usize(..all.len())].clone();
        let message = self.message(&method.input());
        (method, message)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    /// One of the tenant, or parts of both.
    fn pick_address(&mut self) -> Address {
        let pick =
            |rng: &mut Rng, pool: &Pool| pool.addresses[rng.usize(..pool.addresses.len())].clone();
        let mut address = pick(&mut self.rng, self.pool);
        if self.chance(15) {
            let (own, foreign) = (pick(&mut self.rng, self.own), pick(&mut self.rng, self.foreign));
            for part in [&mut address.app, &mut address.user, &mut address.session] {
                let texts = [
                    &own.app,
                    &own.user,
                    &own.session,
                    &foreign.app,
                    &foreign.user,
                    &foreign.session,
                ];
                if self.rng.bool() {
                    part.clone_from(texts[self.rng.usize(..6)]);
                }
            }
        }
        address
    }

    /// Sets one more field of the request, of any kind.
    fn replace_one(&mut self, message: &mut DynamicMessage) {
        use prost_reflect::ReflectMessage as _;
        let fields: Vec<_> = message.descriptor().fields().collect();
        if fields.is_empty() || self.chance(50) {
            return;
        }
        let field = &fields[self.rng.usize(..fields.len())];
        if let Some(value) = self.value(field) {
            message.set_field(field, value);
        }
    }

    fn message(&mut self, descriptor: &MessageDescriptor) -> DynamicMessage {
        let json = match descriptor.full_name() {
            "google.protobuf.Struct" => Some(json!({ self.key(): 1 })),
            "google.protobuf.Value" => Some(json!(1)),
            "google.protobuf.ListValue" => Some(json!([1])),
            // Neither expires anything during the test.
            "google.protobuf.Timestamp" => Some(json!("2100-01-01T00:00:00Z")),
            "google.protobuf.Duration" => Some(json!("36000s")),
            "google.protobuf.FieldMask" => Some(json!("displayName,labels")),
            _ => None,
        };
        if let Some(json) = json {
            return DynamicMessage::deserialize(descriptor.clone(), json).unwrap();
        }
        let mut message = DynamicMessage::new(descriptor.clone());
        let scope_depth = self.rng.usize(1..=3);
        for field in descriptor.fields().filter(|it| it.containing_oneof().is_none()) {
            let is_left_out = descriptor.name() == "Scope" && field.number() as usize > scope_depth;
            if !is_left_out
                && self.is_set(&field)
                && let Some(value) = self.value(&field)
            {
                message.set_field(&field, value);
            }
        }
        for oneof in descriptor.oneofs() {
            let fields: Vec<_> = oneof.fields().collect();
            let field = &fields[self.rng.usize(..fields.len())];
            let is_set = if fields.len() == 1 { 20 } else { 80 };
            if self.chance(is_set)
                && let Some(value) = self.value(field)
            {
                message.set_field(field, value);
            }
        }
        message
    }

    /// So that a good part of the requests is valid.
    fn is_set(&mut self, field: &FieldDescriptor) -> bool {
        let percent = match field.name() {
            "app_name" | "user_id" | "session_id" | "key" | "scope" | "event" | "append"
            | "template" => 97,
            "delta" | "session" | "update_mask" | "invocation_id" | "author" | "allow_existing" => {
                80
            }
            "events" | "return_state" | "include_state" | "json_form" | "selection" => 60,
            "state_delta" | "event_id" | "operations" => 40,
            "page_token" | "cursor" | "page_size" | "include_versions" => 35,
            _ => 12,
        };
        self.chance(percent)
    }

    fn value(&mut self, field: &FieldDescriptor) -> Option<Value> {
        if field.is_map() {
            // Only labels are sent, versions are read.
            let text = self.text("label");
            let is_text = *field.name() == *"labels";
            return is_text
                .then(|| Value::Map([(MapKey::String("l".into()), Value::String(text))].into()));
        }
        if field.is_list() {
            let count = self.rng.usize(1..=2);
            return Some(Value::List((0..count).filter_map(|_| self.single(field)).collect()));
        }
        self.single(field)
    }

    fn single(&mut self, field: &FieldDescriptor) -> Option<Value> {
        Some(match field.kind() {
            Kind::String => Value::String(self.text(field.name())),
            Kind::Bool => Value::Bool(self.rng.bool()),
            Kind::Int32 => Value::I32(self.rng.i32(0..=4)),
            Kind::Int64 => Value::I64(self.rng.i64(0..=6)),
            Kind::Double => Value::F64(1.5),
            Kind::Enum(it) => {
                let values: Vec<_> = it.values().collect();
                Value::EnumNumber(values[self.rng.usize(..values.len())].number())
            }
            Kind::Message(it) => Value::Message(self.message(&it)),
            _ => return None,
        })
    }

    fn key(&mut self) -> String {
        KEYS[self.rng.usize(..KEYS.len())].to_owned()
    }

    /// A text for a field of this name, sometimes one of another field of the other tenant.
    fn text(&mut self, name: &str) -> String {
        match self.rng.u32(..100) {
            0..4 => return self.foreign.any(&mut self.rng),
            4..6 => return String::new(),
            _ => {}
        }
        match name {
            "app_name" => self.address.app.clone(),
            "user_id" => self.address.user.clone(),
            "session_id" => self.address.session.clone(),
            "key" | "keys" | "remove" => self.key(),
            "set_json" | "state_json" | "patch_json" => json!({ self.key(): 1 }).to_string(),
            "values_json" => "[1]".to_owned(),
            "value_json" => "1".to_owned(),
            "body_json" => "{}".to_owned(),
            "template" => KEYS.map(|key| format!("{{{key}?}}")).concat(),
            _ => match self.pool.texts.get(name).filter(|texts| !texts.is_empty()) {
                Some(texts) => texts[self.rng.usize(..texts.len())].clone(),
                None => "x".to_owned(),
            },
        }
    }
}
