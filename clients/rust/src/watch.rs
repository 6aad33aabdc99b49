//! Watching commits, across restarts of the server.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use adk_core::{AdkError, Result};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Status, Streaming, transport::Channel};

use crate::{
    address::Scope,
    affinity::affinity,
    call::{Caller, pause},
    error::unexpected,
    event::state_changes,
    failure::Failure,
    history::StoredEvent,
    json::parse_object,
    observe::observe,
    proto::v1::{
        GetStateRequest, JsonForm, WatchRequest, WatchResponse, WatchStart,
        state_snapshot::StateForm, watch_response::Kind, watch_service_client::WatchServiceClient,
    },
    service::SessiondSessionService,
    state_pages::{read_state, warn_damaged},
};

/// The server sends a heartbeat every ten seconds, so after this long without a message the connection is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(35);

/// A watch has no deadline. A server that is away for this long does not come back soon.
const LONGEST_OUTAGE: Duration = Duration::from_secs(60);

/// One message of a watch.
#[derive(Clone, Debug)]
pub struct Change {
    /// Resumes the watch right after this message, also in another process: see [`Since::Cursor`].
    pub cursor: String,
    /// The content of the message.
    pub kind: ChangeKind,
}

/// The content of a message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The state at the start. Keys have their prefixes.
    Snapshot {
        /// By key.
        state: HashMap<String, Value>,
        /// Of the newest event, in a watch of a session.
        last_sequence: i64,
    },
    /// An event of the session. Each comes once and in order.
    Event(Box<StoredEvent>),
    /// New values of the user's or the application's keys, unless an event of the session has set them. A removed key is null.
    State(HashMap<String, Value>),
    /// Everything that was committed before the watch has been sent. Comes once.
    CaughtUp,
    /// The session was deleted or has expired. The watch ends.
    Deleted,
}

/// The start of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// The current state, then later changes.
    Snapshot,
    /// The session's first event.
    Beginning,
    /// The next change.
    Now,
    /// Right after this cursor.
    Cursor(String),
}

impl SessiondSessionService {
    /// Watches the commits of a scope: for a session its events, and the changes of its user's and application's state.
    ///
    /// The stream connects when it is first polled, and reconnects by the service's call policy, for up to a minute. Nothing is
    /// lost and nothing comes twice, also across a reconnect. A watch whose token has expired or was removed goes on with the one that the
    /// token file has then.
    ///
    /// It ends after an error, or after [`ChangeKind::Deleted`]. Errors are `session.not_found`, `session.bad_cursor`,
    /// `session.cursor_of_other_store`, and `Unavailable` after the last attempt to reach the server.
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
                    failing_since: None,
                    has_caught_up: false,
                    has_told: false,
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
    /// With the channel that it runs on.
    stream: Option<(Streaming<WatchResponse>, Arc<Channel>)>,
    /// Failures since the last message.
    attempts: u32,
    failing_since: Option<Instant>,
    has_caught_up: bool,
    /// The open stream has sent a message.
    has_told: bool,
    ended: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Change>> {
        while !self.ended {
            let outcome = match self.message().await {
                Ok(message) => self.convert(message).await.transpose(),
                Err(status) => self.reconnect(status).await.err().map(Err),
            };
            if let Some(change) = outcome {
                let is_last = |change: &Change| matches!(change.kind, ChangeKind::Deleted);
                self.ended = change.as_ref().map_or(true, is_last);
                return Some(change);
            }
        }
        None
    }

    /// Reads the next message, and connects first if necessary.
    async fn message(&mut self) -> std::result::Result<WatchResponse, Status> {
        let silent = |_| Status::unavailable("the server sent no heartbeat");
        if self.stream.is_none() {
            let channel = self.caller.channels.for_watch();
            let mut client = WatchServiceClient::new(channel.as_ref().clone());
            let hint = affinity(&self.request);
            let request = self.caller.metadata.hinted(self.request.clone(), hint.as_ref());
            let opening = client.watch(request);
            let deadline = self.caller.policy.deadline;
            let stream = timeout(deadline, opening).await.map_err(silent)??.into_inner();
            self.stream = Some((stream, channel));
        }
        let (stream, _) = self.stream.as_mut().ok_or_else(|| Status::internal("no stream"))?;
        let message = timeout(SILENCE_TIMEOUT, stream.message()).await.map_err(silent)??;
        // A server that closes a watch sends a status, or SessionDeleted before.
        message.ok_or_else(|| Status::unavailable("the server closed the watch"))
    }

    /// Remembers the cursor. None for a heartbeat, and for what has been told before.
    async fn convert(&mut self, message: WatchResponse) -> Result<Option<Change>> {
        self.attempts = 0;
        self.failing_since = None;
        self.has_told = true;
        self.caller.outage.succeeded();
        let WatchResponse { kind, cursor } = message;
        if !cursor.is_empty() {
            self.request.cursor.clone_from(&cursor);
        }
        let kind = match kind {
            Some(Kind::Snapshot(snapshot)) => match snapshot.state_form {
                _ if snapshot.state_omitted => {
                    let scope = self.request.scope.clone();
                    let request = GetStateRequest { scope, ..GetStateRequest::default() };
                    let found = read_state(&self.caller, request).await?;
                    self.snapshot(&found.text, &found.damaged_keys, snapshot.last_sequence)?
                }
                Some(StateForm::StateJson(text)) => {
                    self.snapshot(&text, &snapshot.damaged_keys, snapshot.last_sequence)?
                }
                _ => return Err(unexpected("sessiond sent no state as text")),
            },
            Some(Kind::Event(event)) => ChangeKind::Event(Box::new(StoredEvent::new(event)?)),
            Some(Kind::StateChange(change)) => ChangeKind::State(state_changes(change.delta)?),
            // The server sends it once per stream.
            Some(Kind::CaughtUp(_)) if mem::replace(&mut self.has_caught_up, true) => {
                return Ok(None);
            }
            Some(Kind::CaughtUp(_)) => ChangeKind::CaughtUp,
            Some(Kind::SessionDeleted(_)) => ChangeKind::Deleted,
            // Kinds of a newer server are skipped.
            Some(Kind::Heartbeat(_)) | None => return Ok(None),
        };
        Ok(Some(Change { cursor, kind }))
    }

    fn snapshot(&self, state: &str, damaged: &[String], last_sequence: i64) -> Result<ChangeKind> {
        let session_id = self.request.scope.as_ref().map_or("", |scope| &scope.session_id);
        warn_damaged(session_id, damaged);
        Ok(ChangeKind::Snapshot { state: parse_object(state)?, last_sequence })
    }

    /// Pauses before the next attempt. Fails if no attempt is left.
    async fn reconnect(&mut self, status: Status) -> Result<()> {
        self.stream = None;
        self.attempts += 1;
        let failure = Failure::new(status, self.attempts);
        let failing = self.failing_since.get_or_insert_with(Instant::now).elapsed();
        let is_last =
            self.attempts >= self.caller.policy.retry.attempts || failing >= LONGEST_OUTAGE;
        // The credential that the stream was opened with has ended. The caller may have another one by now.
        let is_over = mem::take(&mut self.has_told)
            && ["CREDENTIAL_EXPIRED", "CREDENTIAL_INVALID"].iter().any(|it| failure.is(it));
        if is_last || !(is_over || failure.is_retryable()) {
            return Err(AdkError::from(failure));
        }
        if let Some(mut info) = failure.info().filter(|info| info.reason == "DRAINING")
            && let Some(cursor) = info.metadata.remove("cursor")
        {
            // Also before the first message.
            self.request.cursor = cursor;
        }
        self.caller.outage.retrying(&failure);
        let pause = pause(&self.caller.policy, &failure);
        observe(
            || tracing::debug!(attempts = self.attempts, ?pause, status = %failure.status, "watch failed, reconnecting"),
        );
        sleep(pause).await;
        Ok(())
    }
}
