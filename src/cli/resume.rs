//! A watch that resumes at its cursor after a lost connection, a restart of the server or the end of its token.

use std::{mem, time::Duration};

use tonic::{Code, Status, Streaming};

use super::{
    connect::Server,
    failure::{Failure, tell},
};
use crate::proto::v1::{WatchRequest, WatchResponse};

/// The wait before the second attempt to resume. It doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// A server that comes back is found within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Connections in a row that may break without a status of the server. After that, something else is wrong.
const BREAKS: u32 = 5;

/// The token has expired or was removed from the server, and its file may have the next one.
const TOKEN_ENDS: [&str; 2] = ["CREDENTIAL_EXPIRED", "CREDENTIAL_INVALID"];

pub struct Watch {
    server: Server,
    /// Holds the cursor of the last message.
    request: WatchRequest,
    stream: Option<Streaming<WatchResponse>>,
    /// Something was received. Before that, a failure ends the watch.
    begun: bool,
}

impl Watch {
    /// Connects with the first message. The connection must have no timeout, because it would end the watch.
    pub fn new(server: &Server, request: WatchRequest) -> Self {
        let begun = !request.cursor.is_empty();
        Self { server: server.clone(), request, stream: None, begun }
    }

    /// The next message; `None` after the last one. Waits as long as the server is away.
    pub async fn next(&mut self) -> Result<Option<WatchResponse>, Failure> {
        let (mut wait, mut lost, mut breaks) = (FIRST_WAIT, false, 0);
        loop {
            let status = match self.receive().await {
                Ok(message) => {
                    if lost {
                        tell("note: reconnected, no changes were missed");
                    }
                    return Ok(message);
                }
                Err(status) => status,
            };
            let broken = is_broken(&status);
            breaks += u32::from(broken);
            let failure = Failure::from(status);
            self.stream = None;
            if self.begun && self.renews_token(&failure) {
                continue;
            }
            if !self.begun || !(failure.is_retryable() || (broken && breaks <= BREAKS)) {
                return Err(failure);
            }
            if !mem::replace(&mut lost, true) {
                tell("note: connection lost, waiting for the server");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Whether the token has ended and its file has another one.
    fn renews_token(&mut self, failure: &Failure) -> bool {
        let ended = TOKEN_ENDS.iter().any(|reason| failure.has_reason(reason));
        ended
            && self.server.renew_token().unwrap_or_else(|unusable| {
                tell(&format!("note: {}", unusable.text()));
                false
            })
    }

    async fn receive(&mut self) -> Result<Option<WatchResponse>, Status> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                none.insert(self.server.watch().watch(self.request.clone()).await?.into_inner())
            }
        };
        let message = stream.message().await?;
        if let Some(message) = &message {
            self.begun = true;
            if !message.cursor.is_empty() {
                self.request.cursor.clone_from(&message.cursor);
            }
        }
        Ok(message)
    }
}

/// Whether the connection may have broken between two messages, which the transport reports by codes for anything unknown.
fn is_broken(status: &Status) -> bool {
    matches!(status.code(), Code::Unknown | Code::Internal) && status.details().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_without_a_reason_count_as_a_broken_connection() {
        assert!(is_broken(&Status::unknown("h2 protocol error: connection reset")));
        assert!(!is_broken(&Status::not_found("gone")));
        let reason = Status::with_details(Code::Internal, "x", vec![1].into());
        assert!(!is_broken(&reason), "the server says what is wrong");
    }
}
