//! Free-form JSON in the form asked for, and what becomes of it where it does not fit.

use prost::{Message, length_delimiter_len};
use prost_types::{Struct, Value};

use super::{
    room::{Room, field_bytes},
    structs::{self, Built, Misfit},
};
use crate::{
    domain::{error::Error, json::Json, session::State},
    proto::v1::{
        event::BodyForm, get_state_response, key_change::ValueForm, session, state_delta::SetForm,
        state_snapshot, update_state_response,
    },
    rpc::convert::Form,
};

/// The form asked for, and what happens where it cannot hold a value.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A read: it is refused.
    Exactly(Form),
    /// A write or a watch, which never fails because of its answer: the field comes as text.
    Rather(Form),
}

/// A piece of JSON in one of the two forms.
#[derive(Debug)]
pub enum Shaped<T> {
    /// As a message.
    Message(T),
    /// As text.
    Text(String),
}

impl Shape {
    /// An object, at `depth` levels below the answer.
    pub fn object(
        self,
        json: &Json,
        depth: usize,
        room: usize,
    ) -> Result<(Shaped<Struct>, bool), Error> {
        self.shaped(|| structs::object(json, depth, room), || json.as_str().to_owned())
    }

    /// Any value.
    pub fn value(
        self,
        json: &Json,
        depth: usize,
        room: usize,
    ) -> Result<(Shaped<Value>, bool), Error> {
        self.shaped(|| structs::value(json, depth, room), || json.as_str().to_owned())
    }

    /// State.
    pub fn state(
        self,
        state: &State,
        depth: usize,
        room: usize,
    ) -> Result<(Shaped<Struct>, bool), Error> {
        self.shaped(|| structs::state(state, depth, room), || state.to_json().into_string())
    }

    fn shaped<T>(
        self,
        message: impl FnOnce() -> Built<T>,
        text: impl FnOnce() -> String,
    ) -> Result<(Shaped<T>, bool), Error> {
        let misfit: Misfit = match self {
            Self::Exactly(Form::Text) | Self::Rather(Form::Text) => {
                return Ok((Shaped::Text(text()), false));
            }
            Self::Exactly(Form::Struct) | Self::Rather(Form::Struct) => match message() {
                Ok((message, rounded)) => return Ok((Shaped::Message(message), rounded)),
                Err(misfit) => misfit,
            },
        };
        match self {
            Self::Exactly(_) => Err(misfit.into()),
            Self::Rather(_) => Ok((Shaped::Text(text()), false)),
        }
    }
}

impl<T: Message> Shaped<T> {
    /// Bytes of this as a field of its message.
    fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => field_bytes(message),
            Self::Text(text) => 1 + length_delimiter_len(text.len()) + text.len(),
        }
    }
}

/// State in the form asked for, as text where that does not fit, and not at all where text does not either.
pub fn state_that_fits(
    state: &State,
    form: Form,
    depth: usize,
    room: &mut Room,
) -> Option<(Shaped<Struct>, bool)> {
    [form, Form::Text].into_iter().find_map(|form| {
        let (shaped, rounded) = Shape::Exactly(form).state(state, depth, room.left()).ok()?;
        room.take(shaped.bytes()).then_some((shaped, rounded))
    })
}

/// Each `oneof` of the two forms.
macro_rules! oneof {
    ($oneof:ty, $content:ty, $message:ident, $text:ident) => {
        impl From<Shaped<$content>> for $oneof {
            fn from(shaped: Shaped<$content>) -> Self {
                match shaped {
                    Shaped::Message(message) => Self::$message(message),
                    Shaped::Text(text) => Self::$text(text),
                }
            }
        }
    };
}

oneof!(session::StateForm, Struct, State, StateJson);
oneof!(get_state_response::StateForm, Struct, State, StateJson);
oneof!(update_state_response::StateForm, Struct, State, StateJson);
oneof!(state_snapshot::StateForm, Struct, State, StateJson);
oneof!(BodyForm, Struct, Body, BodyJson);
oneof!(SetForm, Struct, Set, SetJson);
oneof!(ValueForm, Value, Value, ValueJson);
