//! The requests of a history, and their answers as text that is the same for everybody.

use sessiond::{
    commit::{
        Answer, Append, Appended, CreateSession, Created, DeleteSession, ForkSession, OnExisting,
        Request, RequestKey, RewindSession, SessionUpdate, StateUpdate,
    },
    domain::{
        delta::Delta,
        error::{Error, Reason},
        event::{Fingerprint, NewEvent},
        field::{FieldPath, Path},
        id::{Author, DisplayName, InvocationId},
        session::{Expiration, Incarnation, Labels, SessionInfo},
        time::Time,
    },
};
use sessiond_test_support::requests as plain;
pub use sessiond_test_support::requests::{address, scope};

use crate::history::{Ask, End, Entry, Label, Write};

/// The time at which every history begins.
pub fn start() -> Time {
    Time::new(1_000, 7).unwrap()
}

/// The request for a write; `None` for a restart.
pub fn request(write: &Write, now: Time) -> Option<Request> {
    Some(match write.clone() {
        Write::Create { at, state, label, end, found } => Request::Create(CreateSession {
            state,
            labels: labels(label),
            expiration: end.map(|end| expiration(end, now)),
            on_existing: if found { OnExisting::Return } else { OnExisting::Refuse },
            ..plain::create(at, &[])
        }),
        Write::Update { at, name, label, end, guard } => Request::Update(SessionUpdate {
            key: address(at),
            display_name: name.map(|name| DisplayName::new(name).unwrap()),
            labels: label.map(labels),
            expiration: end.map(|end| end.map(|end| expiration(end, now))),
            precondition: guard,
        }),
        Write::Delete { at, guard, missing } => Request::Delete(DeleteSession {
            key: address(at),
            precondition: guard,
            allow_missing: missing,
        }),
        Write::Fork { at, up_to, to, guard } => {
            Request::Fork(ForkSession { precondition: guard, ..plain::fork(at, up_to, to) })
        }
        Write::Append { at, state, events, guard, ask } => {
            let events = events.into_iter().enumerate();
            Request::Append(Append {
                session: address(at),
                events: events.map(|(at, entry)| new_event(at, entry, now)).collect(),
                precondition: guard,
                request: ask.and_then(request_key),
                return_state: state,
            })
        }
        Write::Rewind { at, to, id, guard } => Request::Rewind(RewindSession {
            fingerprint: Fingerprint((1 << 100) + u128::from(to)),
            precondition: guard,
            ..plain::rewind(at, to, &marker_id(id))
        }),
        Write::UpdateState { at, delta, guard, ask } => Request::UpdateState(StateUpdate {
            precondition: guard,
            author: Author::new("cli").unwrap(),
            request: ask.and_then(request_key),
            ..plain::update(at, delta)
        }),
        Write::Sweep => Request::Sweep,
        Write::Restart => return None,
    })
}

/// Incarnations, numbered in the order in which they are met: stores number them as they like.
#[derive(Default)]
pub struct Names(Vec<Incarnation>);

impl Names {
    pub fn number(&mut self, incarnation: Incarnation) -> Incarnation {
        if incarnation == Incarnation(0) {
            return incarnation;
        }
        let known = self.0.iter().position(|known| *known == incarnation);
        let at = known.unwrap_or_else(|| {
            self.0.push(incarnation);
            self.0.len() - 1
        });
        Incarnation(at as u64 + 1)
    }

    pub fn rename(&mut self, info: &mut SessionInfo) {
        info.incarnation = self.number(info.incarnation);
    }
}

/// An answer without what a store may choose: numbers of incarnations, sizes of pieces, and the texts of messages.
pub fn text(mut answer: Result<Answer, Error>, names: &mut Names) -> String {
    match &mut answer {
        Ok(Answer::Created(Created { info, .. }) | Answer::Updated(info)) => names.rename(info),
        Ok(Answer::Forked((info, _)) | Answer::Appended(Appended { info, .. })) => {
            names.rename(info);
        }
        Ok(Answer::ForkBegun(fork)) => {
            fork.source_incarnation = names.number(fork.source_incarnation);
            fork.target_incarnation = names.number(fork.target_incarnation);
        }
        Ok(Answer::Copied(up_to)) => *up_to = 0,
        Ok(Answer::Swept(more)) => *more = false,
        Ok(Answer::Deleted(Some(incarnation))) => *incarnation = names.number(*incarnation),
        Ok(Answer::Deleted(None) | Answer::StateUpdated(_)) => {}
        Err(Error::Invalid(violations)) => {
            for violation in violations {
                violation.message.clear();
                violation.metadata.clear();
            }
        }
        Err(_) => {}
    }
    format!("{answer:?}")
}

/// One label, or none.
pub fn labels(label: Label) -> Labels {
    plain::labels(label.map(|value| ("l", value)).as_slice())
}

fn expiration(end: End, now: Time) -> Expiration {
    match end {
        End::At(secs) => Expiration::At(now.plus(secs, 0).unwrap()),
        End::After(secs) => Expiration::After { secs, nanos: 0 },
    }
}

fn request_key((id, content): Ask) -> Option<RequestKey> {
    plain::request(&id.to_string(), content)
}

/// Mostly an id of its own; the last two are those of events.
fn marker_id(id: u8) -> String {
    if id < 8 { format!("m{id}") } else { (id - 8).to_string() }
}

fn new_event(at: usize, entry: Entry, now: Time) -> NewEvent {
    let Entry { id, author, turn, event_secs, delta, body, refused } = entry;
    // Rounded, so that a repetition soon after is the same event.
    let event_time = event_secs.map(|secs| Time::new(now.secs() / 50 * 50 + secs, 0).unwrap());
    let mut event = NewEvent {
        invocation_id: turn.map(|turn| InvocationId::new(turn).unwrap()),
        author: Author::new(author).unwrap(),
        event_time,
        delta,
        body: body.map(plain::json),
        refusal: refused.then(|| Error::invalid("events", Reason::BadJson, "")),
        field: FieldPath::from(Path::REQUEST.field("events").index(at).field("state_delta")),
        ..plain::event(&id.to_string(), Delta::default())
    };
    event.fingerprint = event.content_fingerprint();
    event.delta = event.delta.split_temp().0;
    event
}
