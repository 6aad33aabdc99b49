//! Free-form JSON in the form asked for, as one of the two fields of a `oneof`.

use prost_types::{Struct, Value};

use super::structs::{self, Built};
use crate::{
    domain::{json::Json, session::State},
    rpc::convert::Form,
};

/// The form asked for, and what happens to a value that `Struct` cannot hold: too deep, or larger than an answer.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// A read is refused.
    Read(Form),
    /// A write and a watch send the value as text.
    Write(Form),
}

/// Each answers the field and whether a number in it was rounded. Text is never rounded.
impl Mode {
    /// An object, at `depth` levels below the answer.
    pub fn object<T>(
        self,
        json: &Json,
        depth: usize,
        message: fn(Struct) -> T,
        text: fn(String) -> T,
    ) -> Built<T> {
        self.encode(|| structs::object(json, depth), message, || text(json.as_str().to_owned()))
    }

    /// Any value.
    pub fn value<T>(
        self,
        json: &Json,
        depth: usize,
        message: fn(Value) -> T,
        text: fn(String) -> T,
    ) -> Built<T> {
        self.encode(|| structs::value(json, depth), message, || text(json.as_str().to_owned()))
    }

    /// State as one object.
    pub fn state<T>(
        self,
        state: &State,
        depth: usize,
        message: fn(Struct) -> T,
        text: fn(String) -> T,
    ) -> Built<T> {
        self.encode(
            || structs::state(state, depth),
            message,
            || text(state.to_json().into_string()),
        )
    }

    fn encode<M, T>(
        self,
        build: impl FnOnce() -> Built<M>,
        message: fn(M) -> T,
        text: impl FnOnce() -> T,
    ) -> Built<T> {
        let (Self::Read(form) | Self::Write(form)) = self;
        if form == Form::Text {
            return Ok((text(), false));
        }
        match (build(), self) {
            (Ok((built, rounded)), _) => Ok((message(built), rounded)),
            (Err(error), Self::Read(_)) => Err(error),
            (Err(_), Self::Write(_)) => Ok((text(), false)),
        }
    }
}
