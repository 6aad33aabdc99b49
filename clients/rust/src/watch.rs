//! Following what is committed, across restarts of the server.

use std::{collections::HashMap, time::Duration};

use adk_core::{AdkError, Event, Result};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tonic::{Status, Streaming};

use crate::{
    call::{Caller, Failure, kind, may_be_repeated, pause},
    error::unexpected,
    event::{delta, from_wire},
    more::Scope,
    proto::v1::{
        JsonForm, WatchRequest, WatchResponse, WatchStart, state_snapshot::StateForm,
        watch_response::Kind, watch_service_client::WatchServiceClient,
    },
    service::SessiondSessionService,
    session::parse_object,
};

/// The server says something every ten seconds. Who is silent for so long is gone without having said so.
const SILENCE: Duration = Duration::from_secs(35);

/// One message of a watch.
#[derive(Clone, Debug)]
pub struct Change {
    /// Where to go on right behind this, in another process or after a restart: see [`Since::Cursor`].
    pub cursor: String,
    /// What happened.
    pub kind: ChangeKind,
}

/// What a watch tells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The state at the start, keys with their prefixes.
    Snapshot(HashMap<String, Value>),
    /// An event of the session, each of them once and in order.
    Event(Box<Event>),
    /// What keys of the user's or the application's became, by others than the session's own events. A key that was removed,
    /// which the kit has no word for, became null.
    State(HashMap<String, Value>),
    /// Nothing is left to catch up on. Told again after each loss of the connection.
    CaughtUp,
    /// The session is gone. The watch ends.
    Deleted,
}

/// Where a watch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// With the state as it is, then what follows it.
    Snapshot,
    /// With the session's first event.
    Beginning,
    /// With the next change.
    Now,
    /// Right behind this cursor.
    Cursor(String),
}

impl SessiondSessionService {
    /// Follows what is committed in a scope: for a session its events, and the changes of its user's and application's state.
    ///
    /// The stream connects when it is polled first, and again whenever the connection is lost, with the patience of the
    /// service. Between the changes of a watch nothing is missing and nothing comes twice, also across such a loss.
    ///
    /// It ends after an error, or after [`ChangeKind::Deleted`]. Errors are `session.not_found`, `session.bad_cursor`,
    /// `session.cursor_of_other_store`, and `Unavailable` when the attempts to reach the server are used up.
    pub fn watch(&self, scope: &Scope, since: Since) -> BoxStream<'static, Result<Change>> {
        let (start, cursor) = match since {
            Since::Snapshot => (WatchStart::Snapshot, String::new()),
            Since::Beginning => (WatchStart::Beginning, String::new()),
            Since::Now => (WatchStart::Now, String::new()),
            Since::Cursor(cursor) => (WatchStart::Unspecified, cursor),
        };
        let request = scope.to_wire().map(|scope| WatchRequest {
            scope: Some(scope),
            cursor,
            start: start.into(),
            json_form: JsonForm::Text.into(),
        });
        match request {
            Ok(request) => {
                let watch = Watch {
                    caller: self.caller.clone(),
                    request,
                    stream: None,
                    attempts: 0,
                    ended: false,
                };
                stream::unfold(watch, |mut watch| async move {
                    let change = watch.next().await?;
                    Some((change, watch))
                })
                .fuse()
                .boxed()
            }
            Err(error) => stream::iter([Err(error)]).fuse().boxed(),
        }
    }
}

struct Watch {
    caller: Caller,
    /// With the cursor of the last message.
    request: WatchRequest,
    stream: Option<Streaming<WatchResponse>>,
    /// Failed ones since the last message.
    attempts: u32,
    ended: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Change>> {
        while !self.ended {
            let outcome = match self.message().await {
                Ok(message) => self.take(message).transpose(),
                Err(status) => self.lose(status).await.err().map(Err),
            };
            if let Some(change) = outcome {
                let last = |change: &Change| matches!(change.kind, ChangeKind::Deleted);
                self.ended = change.as_ref().map_or(true, last);
                return Some(change);
            }
        }
        None
    }

    /// The next message, of a new connection where there is none.
    async fn message(&mut self) -> std::result::Result<WatchResponse, Status> {
        let silent = |_| Status::unavailable("the server has fallen silent");
        if self.stream.is_none() {
            let mut client = WatchServiceClient::new(self.caller.channel.clone());
            let opening = client.watch(self.request.clone());
            let deadline = self.caller.patience.deadline;
            self.stream = Some(timeout(deadline, opening).await.map_err(silent)??.into_inner());
        }
        let stream = self.stream.as_mut().ok_or_else(|| Status::internal("no stream"))?;
        let message = timeout(SILENCE, stream.message()).await.map_err(silent)??;
        // The server ends a watch with a status, or after the end of the session, which ends this one.
        message.ok_or_else(|| Status::unavailable("the server has ended the watch"))
    }

    /// What a message tells, if anything.
    fn take(&mut self, message: WatchResponse) -> Result<Option<Change>> {
        self.attempts = 0;
        let WatchResponse { kind, cursor } = message;
        if !cursor.is_empty() {
            self.request.cursor.clone_from(&cursor);
        }
        let kind = match kind {
            Some(Kind::Snapshot(snapshot)) => match snapshot.state_form {
                Some(StateForm::StateJson(text)) => ChangeKind::Snapshot(parse_object(&text)?),
                _ => return Err(unexpected("sessiond sent no state as text")),
            },
            Some(Kind::Event(event)) => ChangeKind::Event(Box::new(from_wire(event)?)),
            Some(Kind::StateChange(change)) => ChangeKind::State(delta(change.delta)?),
            Some(Kind::CaughtUp(_)) => ChangeKind::CaughtUp,
            Some(Kind::SessionDeleted(_)) => ChangeKind::Deleted,
            // A kind that this client does not know yet is as quiet as a heartbeat.
            Some(Kind::Heartbeat(_)) | None => return Ok(None),
        };
        Ok(Some(Change { cursor, kind }))
    }

    /// Pauses before the next attempt, where there is one.
    async fn lose(&mut self, status: Status) -> Result<()> {
        self.stream = None;
        self.attempts += 1;
        let retry = self.caller.patience.retry;
        let kind = kind(&status);
        if !may_be_repeated(kind, &status) || self.attempts >= retry.attempts {
            return Err(AdkError::from(Failure { status, kind, attempts: self.attempts }));
        }
        tracing::debug!(attempts = self.attempts, %status, "the watch has lost its connection");
        sleep(pause(&retry, self.attempts, fastrand::f64())).await;
        Ok(())
    }
}
