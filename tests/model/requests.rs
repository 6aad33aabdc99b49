//! The requests of a history, and their answers as text that is the same for everybody.

use sessiond::{
    commit::{
        Answer, Append, Appended, CreateSession, Created, DeleteSession, ForkSession, OnExisting,
        Request, RequestKey, RewindSession, SessionUpdate, StateUpdate,
    },
    domain::{
        delta::ScopeDelta,
        error::{Error, Reason},
        event::{Fingerprint, NewEvent},
        field::{FieldPath, Path},
        id::{
            AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId,
            UserId,
        },
        json::Json,
        scope::{Scope, SessionKey},
        session::{Expiration, Incarnation, Labels, SessionInfo},
        time::Time,
    },
};

use crate::history::{Ask, End, Entry, Label, Write};

/// The time at which every history begins.
pub fn start() -> Time {
    Time::new(1_000, 7).unwrap()
}

/// The request for a write; `None` for a restart.
pub fn request(write: &Write, now: Time) -> Option<Request> {
    Some(match write.clone() {
        Write::Create { at, state, label, end, found } => Request::Create(CreateSession {
            key: address(at),
            state,
            display_name: DisplayName::new("").unwrap(),
            labels: labels(label),
            expiration: end.map(|end| expiration(end, now)),
            on_existing: if found { OnExisting::Return } else { OnExisting::Refuse },
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
            let session_id = SessionId::new(to).unwrap();
            Request::Fork(ForkSession {
                source: address(at),
                up_to,
                session_id,
                precondition: guard,
            })
        }
        Write::Append { at, state, events, guard, ask } => {
            let events = events.into_iter().enumerate();
            Request::Append(Append {
                session: address(at),
                events: events.map(|(at, entry)| new_event(at, entry, now)).collect(),
                precondition: guard,
                request: ask.map(request_key),
                return_state: state,
            })
        }
        Write::Rewind { at, to, id, guard } => Request::Rewind(RewindSession {
            key: address(at),
            to,
            event_id: marker_id(id),
            author: Author::system(),
            fingerprint: Fingerprint((1 << 100) + u128::from(to)),
            precondition: guard,
        }),
        Write::UpdateState { at, delta, guard, ask } => Request::UpdateState(StateUpdate {
            delta: ScopeDelta::new(scope(at), delta).unwrap(),
            precondition: guard,
            author: Author::new("cli").unwrap(),
            request: ask.map(request_key),
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

/// `app`, `app/user` or `app/user/session`.
pub fn scope(path: &str) -> Scope {
    let mut parts = path.splitn(3, '/');
    let app = AppName::new(parts.next().unwrap()).unwrap();
    let user = parts.next().map(|user| UserId::new(user).unwrap());
    let session = parts.next().map(|session| SessionId::new(session).unwrap());
    match (user, session) {
        (None, _) => Scope::Application(app),
        (Some(user), None) => Scope::User(app, user),
        (Some(user_id), Some(session_id)) => {
            Scope::Session(SessionKey { app_name: app, user_id, session_id })
        }
    }
}

/// `app/user/session`.
pub fn address(path: &str) -> SessionKey {
    match scope(path) {
        Scope::Session(key) => key,
        other => panic!("no session: {other:?}"),
    }
}

/// One label, or none.
pub fn labels(label: Label) -> Labels {
    let labels = label.iter().map(|value| ("l".to_owned(), (*value).to_owned()));
    Labels::new(labels.collect()).unwrap()
}

fn expiration(end: End, now: Time) -> Expiration {
    match end {
        End::At(secs) => Expiration::At(now.plus(secs, 0).unwrap()),
        End::After(secs) => Expiration::After { secs, nanos: 0 },
    }
}

fn request_key((id, content): Ask) -> RequestKey {
    RequestKey { id: RequestId::new(id.to_string()).unwrap(), fingerprint: Fingerprint(content) }
}

/// Mostly an id of its own; the last two are those of events.
fn marker_id(id: u8) -> EventId {
    let text = if id < 8 { format!("m{id}") } else { (id - 8).to_string() };
    EventId::new(text).unwrap()
}

fn new_event(at: usize, entry: Entry, now: Time) -> NewEvent {
    let Entry { id, author, turn, event_secs, delta, body, refused } = entry;
    let invocation_id = turn.map(|turn| InvocationId::new(turn).unwrap());
    let author = Author::new(author).unwrap();
    let branch = Branch::new("").unwrap();
    let body = body.map(|body| Json::parse(body.to_owned()).unwrap());
    // Rounded, so that a repetition soon after is the same event.
    let event_time = event_secs.map(|secs| Time::new(now.secs() / 50 * 50 + secs, 0).unwrap());
    let mut event = NewEvent {
        event_id: EventId::new(id.to_string()).unwrap(),
        invocation_id,
        author,
        branch,
        event_time,
        partial: false,
        delta,
        body,
        fingerprint: Fingerprint::default(),
        refusal: refused.then(|| Error::invalid("events", Reason::BadJson, "")),
        field: FieldPath::from(Path::REQUEST.field("events").index(at).field("state_delta")),
    };
    event.fingerprint = event.content_fingerprint();
    event.delta = event.delta.split_temp().0;
    event
}
