//! Messages of a watch.

use prost::Message;

use super::{
    event::{changes, event},
    room::Room,
    session::{signed, timestamp},
    shape::{Shape, state_that_fits},
};
use crate::{
    domain::error::Error,
    engine::WatchItem,
    proto::v1::{
        CaughtUp, Heartbeat, SessionDeleted, StateChange, StateSnapshot, WatchResponse,
        watch_response::Kind,
    },
    rpc::convert::Form,
};

/// One message with the cursor right behind it. What does not fit the form asked for comes as text; what does not fit as text
/// either ends the watch, since nothing may be left out of it.
pub fn watch(item: WatchItem, cursor: String, form: Form) -> Result<WatchResponse, Error> {
    match message(&item, cursor.clone(), form) {
        Err(Error::AnswerTooLarge) => message(&item, cursor, Form::Text),
        message => message,
    }
}

fn message(item: &WatchItem, cursor: String, form: Form) -> Result<WatchResponse, Error> {
    let mut room = Room::of_answer();
    let shape = Shape::Rather(form);
    let kind = match item {
        WatchItem::Snapshot { state, last_sequence } => {
            let fitting = state_that_fits(state, form, 2, &mut room);
            let (shaped, state_rounded) = fitting.ok_or(Error::AnswerTooLarge)?;
            let last_sequence = signed(*last_sequence);
            let state_form = Some(shaped.into());
            let snapshot = StateSnapshot { state_form, state_rounded, last_sequence };
            return Ok(WatchResponse { kind: Some(Kind::Snapshot(snapshot)), cursor });
        }
        WatchItem::Event(it) => Kind::Event(event(it, shape, 1, room.left())?),
        WatchItem::StateChange { changes: it, commit_time } => {
            let (delta, _) = changes(it, shape, 2, room.left())?;
            let commit_time = Some(timestamp(*commit_time));
            Kind::StateChange(StateChange { delta: Some(delta), commit_time })
        }
        WatchItem::CaughtUp => Kind::CaughtUp(CaughtUp {}),
        WatchItem::Heartbeat(now) => {
            Kind::Heartbeat(Heartbeat { server_time: Some(timestamp(*now)) })
        }
        WatchItem::SessionDeleted => Kind::SessionDeleted(SessionDeleted {}),
    };
    let response = WatchResponse { kind: Some(kind), cursor };
    if room.take(response.encoded_len()) { Ok(response) } else { Err(Error::AnswerTooLarge) }
}
