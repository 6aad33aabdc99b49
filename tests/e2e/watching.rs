//! A watch as a client holds it: its stream, its last cursor, and the state that follows from what it was told.

use serde_json::{Map, Value};
use sessiond::proto::v1::{
    Event, Scope, StateDelta, WatchRequest, WatchResponse, WatchStart, watch_response::Kind,
};
use tonic::{Status, Streaming};

use crate::{
    harness::{Service, within},
    judge,
    make::TEXT,
    read::{HasState, set_in},
};

/// A watch of a scope, with text.
pub fn watch(scope: Scope, start: WatchStart) -> WatchRequest {
    WatchRequest { scope: Some(scope), cursor: String::new(), start: start as i32, json_form: TEXT }
}

/// The same watch, right after a cursor.
pub fn resume(scope: Scope, cursor: &str) -> WatchRequest {
    WatchRequest { cursor: cursor.into(), ..watch(scope, WatchStart::Unspecified) }
}

/// A cursor of a scope's watch from now on.
pub async fn cursor(service: &Service, scope: Scope) -> String {
    let mut watching = Watching::open(service, watch(scope, WatchStart::Now)).await;
    watching.caught_up().await;
    watching.cursor
}

/// What one stream of a watch has said so far.
pub struct Watching {
    stream: Streaming<WatchResponse>,
    /// The last cursor received.
    pub cursor: String,
    /// Whether this stream has caught up.
    pub caught_up: bool,
    /// What state becomes by all that was received, keys with prefix.
    pub folded: Map<String, Value>,
}

impl Watching {
    pub async fn open(service: &Service, request: WatchRequest) -> Self {
        Self::try_open(service, request).await.unwrap()
    }

    /// A refusal comes as the status of the call or in the place of its first message.
    pub async fn try_open(service: &Service, request: WatchRequest) -> Result<Self, Status> {
        let answer = within("a watch", service.watches().watch(request)).await;
        let stream = answer.inspect_err(judge::well_formed)?.into_inner();
        Ok(Self { stream, cursor: String::new(), caught_up: false, folded: Map::new() })
    }

    /// The next message, a heartbeat or an end as well.
    pub async fn message(&mut self) -> Result<Option<Kind>, Status> {
        let message = within("a message of a watch", self.stream.message()).await;
        let Some(message) = message.inspect_err(judge::well_formed)? else {
            return Ok(None);
        };
        judge::fits(prost::Message::encoded_len(&message));
        let WatchResponse { kind, cursor } = message;
        assert!(!cursor.is_empty(), "every message has a cursor");
        self.cursor = cursor;
        let kind = kind.unwrap();
        match &kind {
            Kind::Snapshot(snapshot) if snapshot.state_omitted => {}
            Kind::Snapshot(snapshot) => {
                let Value::Object(state) = snapshot.state() else { panic!() };
                self.folded = state;
            }
            Kind::Event(event) => self.fold(event.state_delta.as_ref()),
            Kind::StateChange(change) => self.fold(change.delta.as_ref()),
            Kind::CaughtUp(_) => {
                assert!(!self.caught_up, "caught up twice");
                self.caught_up = true;
            }
            Kind::Heartbeat(_) | Kind::SessionDeleted(_) => {}
        }
        Ok(Some(kind))
    }

    fn fold(&mut self, delta: Option<&StateDelta>) {
        let Some(delta) = delta else { return };
        if let Value::Object(set) = set_in(delta) {
            self.folded.extend(set);
        }
        for key in &delta.remove {
            self.folded.remove(key);
        }
    }

    /// The next message that is no heartbeat.
    pub async fn next(&mut self) -> Kind {
        loop {
            match self.message().await.unwrap().expect("a watch that goes on") {
                Kind::Heartbeat(_) => {}
                kind => return kind,
            }
        }
    }

    /// The next message, which has to be an event.
    pub async fn event(&mut self) -> Event {
        match self.next().await {
            Kind::Event(event) => event,
            kind => panic!("no event: {kind:?}"),
        }
    }

    /// The next message, which has to be a change of a shared scope: what it sets and what it removes.
    pub async fn change(&mut self) -> (Value, Vec<String>) {
        match self.next().await {
            Kind::StateChange(change) => {
                assert!(change.commit_time.is_some());
                let delta = change.delta.unwrap();
                assert!(delta.operations.is_empty());
                (set_in(&delta), delta.remove)
            }
            kind => panic!("no change: {kind:?}"),
        }
    }

    /// All messages up to the one that says that there are no more, without that one.
    pub async fn until_caught_up(&mut self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        loop {
            match self.next().await {
                Kind::CaughtUp(_) => return kinds,
                kind => kinds.push(kind),
            }
        }
    }

    /// Sees that nothing is left but this.
    pub async fn caught_up(&mut self) {
        assert_eq!(self.until_caught_up().await, []);
    }

    /// How the watch ends, where it is about to.
    pub async fn ends(&mut self) -> Result<(), Status> {
        loop {
            match self.message().await {
                Ok(None) => return Ok(()),
                Ok(Some(Kind::Heartbeat(_))) => {}
                Ok(Some(kind)) => panic!("no end: {kind:?}"),
                Err(status) => return Err(status),
            }
        }
    }
}
