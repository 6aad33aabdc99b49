//! Carries a history out on a store, and gives every answer as text that is the same for all stores.

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use sessiond::{
    domain::{
        error::Error,
        event::{Event, Fingerprint, NewEvent, event_fingerprint},
        id::{
            AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId,
            UserId,
        },
        json::{Json, object_text},
        scope::{Scope, SessionKey, SessionRef},
        session::{Incarnation, Labels, SessionInfo},
        time::Time,
    },
    store::{
        Append, Appended, CreateSession, ForkSession, OnExisting, Request, RewindSession,
        SessionUpdate, StateUpdate, Store,
    },
};
use tempfile::TempDir;

use crate::{
    backends::Backend,
    history::{Ask, End, Entry, Label, Step, Write},
};

/// A store, its clock, and how its sessions' lives are called.
pub struct Player {
    backend: &'static Backend,
    folder: TempDir,
    pub store: Arc<dyn Store>,
    pub now: Time,
    lives: Vec<Incarnation>,
}

impl Player {
    pub async fn new(backend: &'static Backend) -> Self {
        let folder = TempDir::new().unwrap();
        let store = (backend.open)(folder.path().into()).await;
        let now = Time::new(1_000, 7).unwrap();
        Self { backend, folder, store, now, lives: Vec::new() }
    }

    /// Carries one step out. What a restart answers is nothing, and what a store that is not durable does at one is also nothing.
    pub async fn play(&mut self, step: &Step) -> String {
        self.now = self.now.plus(step.wait_secs, 1).unwrap();
        let now = self.now;
        match step.write.clone() {
            Write::Create { at, state, label, end, found } => {
                let create = CreateSession {
                    key: address(at),
                    state,
                    display_name: DisplayName::new("").unwrap(),
                    labels: labels(label),
                    expire_time: end_time(end, now),
                    on_existing: if found { OnExisting::Return } else { OnExisting::Refuse },
                    now,
                };
                let mut created = self.store.create_session(create).await;
                self.about(&mut created, |created| &mut created.info)
            }
            Write::Update { at, name, label, end } => {
                let update = SessionUpdate {
                    key: address(at),
                    display_name: name.map(|name| DisplayName::new(name).unwrap()),
                    labels: label.map(labels),
                    expire_time: end.map(|end| end_time(end, now)),
                    now,
                };
                let mut updated = self.store.update_session(update).await;
                self.about(&mut updated, |info| info)
            }
            Write::Delete { at } => {
                let deleted = self.store.delete_session(address(at), now).await;
                format!("{deleted:?}")
            }
            Write::Fork { at, up_to, to } => {
                let session_id = SessionId::new(to).unwrap();
                let fork = ForkSession { source: address(at), up_to, session_id, now };
                let mut forked = self.store.fork_session(fork).await;
                self.about(&mut forked, |view| &mut view.info)
            }
            Write::Append { at, bare, events, guard, ask } => {
                let key = address(at);
                let append = Append {
                    session: match bare {
                        true => SessionRef::Bare(key.session_id),
                        false => SessionRef::Full(key),
                    },
                    events: events.into_iter().map(|entry| new_event(entry, now)).collect(),
                    precondition: guard,
                    request: request(ask),
                    return_state: true,
                    now,
                };
                let appended = self.store.append(append).await;
                self.appended(appended)
            }
            Write::Rewind { at, to, id, guard } => {
                let rewind = RewindSession {
                    key: address(at),
                    to,
                    event_id: marker_id(id),
                    author: Author::system(),
                    fingerprint: Fingerprint((1 << 100) + u128::from(to)),
                    precondition: guard,
                    now,
                };
                let appended = self.store.rewind_session(rewind).await;
                self.appended(appended)
            }
            Write::UpdateState { at, delta, guard, ask } => {
                let update = StateUpdate {
                    scope: scope(at),
                    delta,
                    precondition: guard,
                    author: Author::new("cli").unwrap(),
                    request: request(ask),
                    now,
                };
                let updated = self.store.update_state(update).await;
                format!("{updated:?}")
            }
            Write::Sweep => {
                while self.store.sweep(now).await.unwrap() {}
                String::new()
            }
            Write::Restart => {
                if self.backend.durable {
                    self.store.close().await;
                    self.store = (self.backend.open)(PathBuf::from(self.folder.path())).await;
                }
                String::new()
            }
        }
    }

    fn appended(&mut self, mut appended: Result<Appended, Error>) -> String {
        if let Ok(appended) = &mut appended {
            appended.events.iter_mut().for_each(|appended| sort_marker(&mut appended.event));
        }
        self.about(&mut appended, |appended| &mut appended.info)
    }

    /// An answer with a session in it.
    fn about<T: Debug>(
        &mut self,
        answer: &mut Result<T, Error>,
        info: impl FnOnce(&mut T) -> &mut SessionInfo,
    ) -> String {
        if let Ok(answer) = answer {
            self.name_life(info(answer));
        }
        format!("{answer:?}")
    }

    /// Stores number lives as they like: here they are numbered in the order in which they are met.
    pub fn name_life(&mut self, info: &mut SessionInfo) {
        info.incarnation = self.life(info.incarnation);
    }

    /// As [`Player::name_life`].
    pub fn life(&mut self, incarnation: Incarnation) -> Incarnation {
        if incarnation == Incarnation(0) {
            return incarnation;
        }
        let known = self.lives.iter().position(|life| *life == incarnation);
        let at = known.unwrap_or_else(|| {
            self.lives.push(incarnation);
            self.lives.len() - 1
        });
        Incarnation(at as u64 + 1)
    }
}

/// In which order a rewind writes what it restores is up to the store.
pub fn sort_marker(event: &mut Event) {
    if event.rewind_to.is_none() {
        return;
    }
    if let Some(set) = &event.changes.set {
        let mut members = set.members();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let members = members.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        event.changes.set = Some(object_text(members));
    }
    event.changes.remove.sort();
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

fn end_time(end: End, now: Time) -> Option<Time> {
    end.map(|secs| now.plus(secs, 0).unwrap())
}

fn request(ask: Ask) -> Option<Request> {
    ask.map(|(id, content)| Request {
        id: RequestId::new(id.to_string()).unwrap(),
        fingerprint: Fingerprint(content),
    })
}

/// Mostly an id of its own; the last two are those of events.
fn marker_id(id: u8) -> EventId {
    let text = if id < 8 { format!("m{id}") } else { (id - 8).to_string() };
    EventId::new(text).unwrap()
}

fn new_event(entry: Entry, now: Time) -> NewEvent {
    let Entry { id, author, turn, event_secs, delta, body } = entry;
    let invocation_id = turn.map(|turn| InvocationId::new(turn).unwrap());
    let author = Author::new(author).unwrap();
    let branch = Branch::new("").unwrap();
    let body = body.map(|body| Json::parse(body.to_owned()).unwrap());
    // Not the time itself, or nothing would ever be the same again.
    let event_time = event_secs.map(|secs| Time::new(now.secs() / 50 * 50 + secs, 0).unwrap());
    NewEvent {
        event_id: EventId::new(id.to_string()).unwrap(),
        fingerprint: event_fingerprint(
            invocation_id.as_ref(),
            &author,
            &branch,
            event_time,
            &delta,
            body.as_ref(),
        ),
        invocation_id,
        author,
        branch,
        event_time,
        delta,
        body,
        refusal: None,
    }
}
