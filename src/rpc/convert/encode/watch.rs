//! Messages of a watch.

use super::{
    event::{changes, event},
    fields::{signed, timestamp},
    json::Mode,
    size::fits,
};
use crate::{
    domain::error::Error,
    engine::WatchItem,
    proto::v1::{
        CaughtUp, Heartbeat, SessionDeleted, StateChange, StateSnapshot, WatchResponse,
        state_snapshot::StateForm, watch_response::Kind,
    },
    rpc::convert::Form,
};

/// One message with the cursor right behind it. What does not fit in the form asked for is sent as text. Text that does not fit ends
/// the watch, since nothing may be left out of it.
pub fn watch(item: WatchItem, cursor: String, form: Form) -> Result<WatchResponse, Error> {
    let response = message(&item, cursor, form)?;
    if fits(&response) {
        return Ok(response);
    }
    let response = message(&item, response.cursor, Form::Text)?;
    if fits(&response) { Ok(response) } else { Err(Error::AnswerTooLarge) }
}

fn message(item: &WatchItem, cursor: String, form: Form) -> Result<WatchResponse, Error> {
    let mode = Mode::Write(form);
    let kind = match item {
        WatchItem::Snapshot { state, last_sequence } => {
            let (form, state_rounded) =
                mode.state(state, 2, StateForm::State, StateForm::StateJson)?;
            let last_sequence = signed(*last_sequence);
            Kind::Snapshot(StateSnapshot { state_form: Some(form), state_rounded, last_sequence })
        }
        WatchItem::Event(it) => Kind::Event(event(it, mode, 1)?),
        WatchItem::StateChange { changes: it, commit_time } => {
            let (delta, _) = changes(it, mode, 2)?;
            let commit_time = Some(timestamp(*commit_time));
            Kind::StateChange(StateChange { delta: Some(delta), commit_time })
        }
        WatchItem::CaughtUp => Kind::CaughtUp(CaughtUp {}),
        WatchItem::Heartbeat(now) => {
            Kind::Heartbeat(Heartbeat { server_time: Some(timestamp(*now)) })
        }
        WatchItem::SessionDeleted => Kind::SessionDeleted(SessionDeleted {}),
    };
    Ok(WatchResponse { kind: Some(kind), cursor })
}
