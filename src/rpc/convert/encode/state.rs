//! Answers of the state service.

use prost::Message;

use super::{
    room::{Room, full_page},
    session::{session_key, signed, timestamp},
    shape::{Shape, state_that_fits},
};
use crate::{
    domain::{
        error::Error,
        id::Author,
        session::{State, StateEntry},
    },
    engine::{KeyChangeList, StateAnswer, UpdateAnswer},
    proto::v1::{GetStateResponse, KeyChange, ListKeyChangesResponse, UpdateStateResponse},
    rpc::convert::Form,
    store,
};

/// GetState.
pub fn get_state(
    answer: StateAnswer,
    with_versions: bool,
    form: Form,
) -> Result<GetStateResponse, Error> {
    let StateAnswer { state } = answer;
    let mut room = Room::of_answer();
    let (shaped, state_rounded) = Shape::Exactly(form).state(&state, 1, room.left())?;
    let State(entries) = state;
    // Nothing stores `temp:` keys, so they have none.
    let stored = entries.into_iter().filter(|entry| with_versions && entry.key.scope().is_some());
    let version = |StateEntry { key, value: _, version }| (key.to_string(), signed(version));
    let versions = stored.map(version).collect();
    let response = GetStateResponse { state_form: Some(shaped.into()), state_rounded, versions };
    if room.take(response.encoded_len()) { Ok(response) } else { Err(Error::AnswerTooLarge) }
}

/// UpdateState.
pub fn update_state(answer: UpdateAnswer, form: Form) -> UpdateStateResponse {
    let UpdateAnswer { state, replayed } = answer;
    match state_that_fits(&state, form, 1, &mut Room::of_answer()) {
        None => UpdateStateResponse { state_form: None, state_rounded: false, replayed },
        Some((shaped, state_rounded)) => {
            UpdateStateResponse { state_form: Some(shaped.into()), state_rounded, replayed }
        }
    }
}

/// ListKeyChanges.
pub fn list_key_changes(list: KeyChangeList, form: Form) -> Result<ListKeyChangesResponse, Error> {
    let changes = full_page(&list.changes, |change, left| key_change(change, form, left))?;
    let next_page_token = list.next_page_token(changes.len()).unwrap_or_default();
    Ok(ListKeyChangesResponse { changes, next_page_token })
}

fn key_change(change: &store::KeyChange, form: Form, room: usize) -> Result<KeyChange, Error> {
    let store::KeyChange { version, value, commit_time, author, source } = change;
    let value_form = match value {
        None => None,
        // A single value has no flag: whoever needs exact numbers asks for text.
        Some(value) => Some(Shape::Exactly(form).value(value, 2, room)?.0.into()),
    };
    Ok(KeyChange {
        version: signed(*version),
        value_form,
        commit_time: Some(timestamp(*commit_time)),
        author: Author::to_string(author),
        session: source.as_ref().map(|(key, _)| session_key(key)),
        sequence: source.as_ref().map_or(0, |(_, sequence)| signed(*sequence)),
    })
}
