//! Events, sessions and their parts, each as a message within that of the `mode`.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use prost::Message;
use prost_types::Timestamp;

use super::json::{Mode, object};
use crate::rpc::{prelude::*, within};

pub fn event(event: &Event, mode: Mode) -> v1::Event {
    use v1::event::BodyForm::{Body, BodyJson};
    let mode = mode.inner();
    let mut message = event_envelope(event);
    if let Some(body) = &event.body {
        let (form, rounded) = mode.encode(Cow::Borrowed(body), object, Body, BodyJson);
        (message.body_form, message.rounded) = (Some(form), rounded);
    }
    if !event.changes.is_empty() {
        let (delta, rounded) = changes(&event.changes, mode);
        message.state_delta = Some(delta);
        message.rounded |= rounded;
    }
    message
}

/// Changes as a delta, and whether a number was rounded.
pub fn changes(changes: &Changes, mode: Mode) -> (v1::StateDelta, bool) {
    use v1::state_delta::SetForm::{Set, SetJson};
    let Changes { set, remove } = changes;
    let set = set.as_ref().map(|it| mode.inner().encode(Cow::Borrowed(it), object, Set, SetJson));
    let (set_form, rounded) = set.unzip();
    let remove = remove.iter().map(StateKey::to_string).collect();
    (v1::StateDelta { set_form, remove, operations: Vec::new() }, rounded.unwrap_or_default())
}

/// A message of which parts can be left out if it does not fit into an answer even as text.
pub trait LeaveOut: Message {
    fn leave_out(&mut self) {}
}

/// A single value always fits as text.
impl LeaveOut for v1::KeyChange {}

impl LeaveOut for v1::Session {
    fn leave_out(&mut self) {
        self.state_omitted = self.state_form.take().is_some();
        (self.state_rounded, self.versions) = (false, HashMap::new());
    }
}

impl LeaveOut for v1::UpdateStateResponse {
    fn leave_out(&mut self) {
        self.state_omitted = self.state_form.take().is_some();
        self.state_rounded = false;
    }
}

/// Limits keep a stored event smaller than an answer, and what leaves one out is the answer to a batch, whose sender has it.
impl LeaveOut for v1::Event {
    fn leave_out(&mut self) {
        (self.body_form, self.state_delta, self.rounded) = (None, None, false);
    }
}

impl LeaveOut for v1::WatchResponse {
    fn leave_out(&mut self) {
        use v1::watch_response::Kind;
        // Changes of one version are smaller than an answer, as an event is.
        if let Some(Kind::Snapshot(snapshot)) = &mut self.kind {
            snapshot.state_omitted = snapshot.state_form.take().is_some();
            snapshot.state_rounded = false;
        }
    }
}

/// An event without its body and its delta.
pub fn event_envelope(event: &Event) -> v1::Event {
    let Event {
        event_id,
        sequence,
        invocation_id,
        author,
        branch,
        event_time,
        commit_time,
        changes: _,
        body: _,
        rewind_to,
        rewound,
        versions: _,
        trace_id,
    } = event;
    v1::Event {
        event_id: event_id.to_string(),
        sequence: signed(*sequence),
        invocation_id: invocation_id.as_ref().map(InvocationId::to_string).unwrap_or_default(),
        author: author.to_string(),
        branch: branch.to_string(),
        event_time: Some(timestamp(*event_time)),
        commit_time: Some(timestamp(*commit_time)),
        // Nothing that was stored has sequence 0.
        partial: *sequence == 0,
        state_delta: None,
        body_form: None,
        rounded: false,
        rewind_to_sequence: rewind_to.map(signed),
        rewound: *rewound,
        trace_id: trace_id.map(|id| id.to_string()).unwrap_or_default(),
    }
}

pub fn session(info: &SessionInfo, state: Option<&State>, mode: Mode) -> v1::Session {
    use v1::session::StateForm;
    let mut session = session_envelope(info, mode.store);
    if let Some(state) = state {
        let json = Cow::Owned(state.to_json());
        let (form, rounded) =
            mode.inner().encode(json, object, StateForm::State, StateForm::StateJson);
        (session.state_form, session.state_rounded) = (Some(form), rounded);
        session.versions = versions(&state.0, mode);
        session.damaged_keys = State::damaged(&state.0);
    }
    session
}

pub fn uid(life: Life, store: StoreId) -> String {
    Uid { store, life }.encode()
}

/// Empty for a scope that nothing is in.
pub fn optional_uid(life: Option<Life>, store: StoreId) -> String {
    life.map(|life| uid(life, store)).unwrap_or_default()
}

/// The versions of stored keys, if the `mode` has them.
pub fn versions(entries: &[StateEntry], mode: Mode) -> HashMap<String, i64> {
    if !mode.with_versions {
        return HashMap::new();
    }
    // `temp:` keys are not stored, so they have no version.
    let stored = entries.iter().filter(|it| it.key.scope().is_some() && !it.value.is_damaged());
    stored.map(|it| (it.key.to_string(), signed(it.version))).collect()
}

/// A session without its state.
pub fn session_envelope(info: &SessionInfo, store: StoreId) -> v1::Session {
    let SessionInfo {
        key,
        incarnation: _,
        last_sequence,
        create_time,
        update_time,
        last_event_time,
        expire_time,
        display_name,
        labels,
        forked_from,
        created_versions: _,
    } = info;
    let forked_from = forked_from.as_ref().map(|origin| {
        let ForkOrigin { key, sequence } = origin;
        v1::ForkOrigin { key: Some(session_key(key)), sequence: signed(*sequence) }
    });
    let labels = labels.as_map().iter();
    v1::Session {
        key: Some(session_key(key)),
        state_form: None,
        state_rounded: false,
        last_sequence: signed(*last_sequence),
        create_time: Some(timestamp(*create_time)),
        update_time: Some(timestamp(*update_time)),
        last_event_time: Some(timestamp(*last_event_time)),
        expiration: expire_time.map(|at| v1::session::Expiration::ExpireTime(timestamp(at))),
        display_name: display_name.to_string(),
        labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
        forked_from,
        versions: HashMap::new(),
        uid: uid(Life::of_session(info), store),
        state_omitted: false,
        damaged_keys: Vec::new(),
    }
}

/// Bytes of the dropped keys that an answer names: four of the longest. An answer has them beside its items.
const DROPPED_KEYS_BYTES: usize = 2048;

/// The `temp:` keys among keys that are written nowhere else: sorted, each once, as many as an answer names.
pub fn dropped_temp_keys<'k>(keys: impl Iterator<Item = &'k StateKey>) -> Vec<String> {
    let temp = keys.filter(|key| key.scope().is_none()).map(StateKey::as_str);
    let temp = BTreeSet::from_iter(temp).into_iter();
    within(temp, DROPPED_KEYS_BYTES, |key| key.len()).map(str::to_owned).collect()
}

pub fn session_key(key: &SessionKey) -> v1::SessionKey {
    let SessionKey { app_name, user_id, session_id } = key;
    v1::SessionKey {
        app_name: app_name.to_string(),
        user_id: user_id.to_string(),
        session_id: session_id.to_string(),
    }
}

pub fn event_ref(named: &EventRef) -> v1::EventRef {
    use v1::event_ref::Ref;
    let named = match named {
        EventRef::Id(id) => Ref::EventId(id.to_string()),
        EventRef::Sequence(sequence) => Ref::Sequence(sequence.cast_signed()),
    };
    v1::EventRef { r#ref: Some(named) }
}

pub fn timestamp(time: Time) -> Timestamp {
    // Nanoseconds of a second always fit.
    Timestamp { seconds: time.secs(), nanos: i32::try_from(time.nanos()).unwrap_or_default() }
}

/// A sequence or a version, which stays below what a database's integer holds.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
