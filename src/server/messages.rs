//! The messages of a request: each comes whole, in time, within its limit, decompressed, and charged to the account of its call, before
//! the services see any of it.

use std::{
    future::{Future, pending},
    io::Read as _,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use flate2::bufread::GzDecoder;
use futures_util::stream;
use http_body_util::{BodyExt as _, Full};
use prost::bytes::BytesMut;
use tokio::{
    select,
    sync::watch,
    time::{Instant, timeout_at},
};
use tonic::{
    Status,
    body::Body,
    codegen::{Bytes, http::HeaderMap},
};

use super::health::{Phase, draining, refusal};
use crate::{
    domain::{error::Error, limits::MESSAGE_BYTES},
    rpc::{Method, OPEN_REQUEST_BYTES, status::bad_message},
    store::{account::CallAccount, instant},
};

/// The time in which a message comes, from its first byte on; in that of a unary call, from its headers on: the largest message, over a
/// slow network.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes before each message: a flag that says whether it is compressed, and its length.
const HEADER: usize = 5;

const ONE_MESSAGE: &str = "Send one message per call.";

pub struct Messages {
    body: Body,
    method: Arc<Method>,
    is_gzip: bool,
    /// No message may be compressed.
    is_plain: bool,
    account: CallAccount,
    /// The rest is not waited for at a shutdown. `None`: it is.
    phase: Option<watch::Receiver<Phase>>,
    /// Resolves at a shutdown. It begins with the first wait, because most unary requests have come with their headers.
    draining: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// What has come and was not passed on.
    buffer: BytesMut,
    /// What is charged: the buffer and the message that was passed on last.
    charged: usize,
}

impl Messages {
    /// Those of a call.
    pub fn new(
        body: Body,
        headers: &HeaderMap,
        method: Arc<Method>,
        account: CallAccount,
        phase: Option<watch::Receiver<Phase>>,
    ) -> Self {
        // The services refuse encodings that they do not know.
        let encoding = headers.get("grpc-encoding");
        let is_gzip = encoding.is_some_and(|encoding| encoding == "gzip");
        let is_plain = encoding.is_none_or(|encoding| encoding == "identity");
        Self {
            body,
            method,
            is_gzip,
            is_plain,
            account,
            phase,
            draining: None,
            buffer: BytesMut::new(),
            charged: 0,
        }
    }

    /// The body of a request of one message, once all of it has come. Its bytes, and those of what it is decoded into, stay charged.
    pub async fn one(mut self) -> Result<Body, Status> {
        let until = Some(instant() + TIMEOUT);
        let Some(message) = self.next(until).await? else {
            return Err(bad_message("no message", ONE_MESSAGE));
        };
        if !self.buffer.is_empty() || self.fill(until).await? {
            return Err(bad_message("more than one message in a unary call", ONE_MESSAGE));
        }
        Ok(Body::new(Full::from(message)))
    }

    /// The body of a stream, whose messages pass one by one as they come. The charge of one is given back when the next one is asked for.
    pub fn stream(self) -> Body {
        let messages = stream::try_unfold(self, |mut messages| async move {
            messages.account.give_back(messages.charged - messages.buffer.len());
            messages.charged = messages.buffer.len();
            let next = messages.next(None).await?;
            Ok::<_, Status>(next.map(|message| (message, messages)))
        });
        Body::new(axum::body::Body::from_stream(messages))
    }

    /// The next message with its header, uncompressed; `None`: the request ends.
    async fn next(&mut self, mut until: Option<Instant>) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.take(until).await? {
                return Ok(Some(message));
            }
            if !self.buffer.is_empty() {
                until.get_or_insert_with(|| instant() + TIMEOUT);
            }
            if !self.fill(until).await? {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(bad_message("it ends before it is complete", "Send it whole.")),
                };
            }
        }
    }

    /// Reads on. Whether anything has come.
    async fn fill(&mut self, until: Option<Instant>) -> Result<bool, Status> {
        let frame = async {
            loop {
                // Requests of gRPC have no trailers.
                match self.body.frame().await.transpose()?.map(|frame| frame.into_data()) {
                    None => return Ok::<_, Status>(None),
                    Some(Ok(data)) if !data.is_empty() => return Ok(Some(data)),
                    Some(_) => {}
                }
            }
        };
        let in_time = async {
            match until {
                None => frame.await,
                Some(until) => timeout_at(until, frame).await.unwrap_or_else(|_| Err(late())),
            }
        };
        let end = async {
            match &self.phase {
                Some(phase) => {
                    let wait = || Box::pin(draining(phase.clone())) as _;
                    self.draining.get_or_insert_with(wait).await;
                }
                None => pending().await,
            }
        };
        let data = select! {
            biased;
            data = in_time => data?,
            () = end => match self.method.client_streams {
                true => None,
                false => return Err(refusal(&Error::Draining)),
            },
        };
        let Some(data) = data else { return Ok(false) };
        self.charge(data.len(), until).await?;
        self.buffer.extend_from_slice(&data);
        Ok(true)
    }

    /// Charges bytes. A stream waits, and so does its client by the window of HTTP/2; a unary call is refused.
    async fn charge(&mut self, bytes: usize, until: Option<Instant>) -> Result<(), Status> {
        let until = until.unwrap_or_else(|| instant() + TIMEOUT);
        while let Err(full) = self.account.take(bytes) {
            if !self.method.client_streams
                || timeout_at(until, self.account.capacity(bytes)).await.is_err()
            {
                return Err(refusal(&full));
            }
        }
        self.charged += bytes;
        Ok(())
    }

    /// Takes a whole message from the buffer, if one is there. Charges what it is decompressed into before it is, and what it is decoded into.
    async fn take(&mut self, until: Option<Instant>) -> Result<Option<Bytes>, Status> {
        let Some(&[flag, ref length @ ..]) = self.buffer.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if flag > 1 || (flag == 1 && self.is_plain) {
            let advice = "Send 0 for a plain message, and 1 with `grpc-encoding: gzip`.";
            return Err(bad_message("its compression flag is wrong", advice));
        }
        if length > self.limit() {
            return Err(refusal(&Error::MessageTooLarge));
        }
        if self.buffer.len() - HEADER < length {
            return Ok(None);
        }
        let is_gzip = flag == 1 && self.is_gzip;
        if is_gzip {
            // It may become as much.
            self.charge(self.limit(), until).await?;
        }
        let sent = self.buffer.split_to(HEADER + length).freeze();
        let whole = if is_gzip { self.decompressed(&sent)? } else { sent };
        if is_gzip {
            let less = self.limit() + HEADER + length - whole.len();
            self.account.give_back(less);
            self.charged -= less;
        }
        let memory = self.method.request.map_or(Some(0), |kind| kind.memory(&whole[HEADER..]));
        let memory = memory
            .ok_or_else(|| bad_message("too many messages within it", "Send less per call."))?;
        self.charge(memory, until).await?;
        Ok(Some(whole))
    }

    fn limit(&self) -> usize {
        if self.method.request.is_some() { MESSAGE_BYTES } else { OPEN_REQUEST_BYTES }
    }

    /// The message with the header of one that is not compressed.
    fn decompressed(&self, sent: &[u8]) -> Result<Bytes, Status> {
        let limit = self.limit();
        let mut whole = vec![0; HEADER];
        let read = GzDecoder::new(&sent[HEADER..]).take(limit as u64 + 1).read_to_end(&mut whole);
        read.map_err(|error| {
            let cause = format!("it cannot be decompressed: {error}");
            bad_message(&cause, "Compress it with gzip, or not at all.")
        })?;
        let length = whole.len() - HEADER;
        if length > limit {
            return Err(refusal(&Error::MessageTooLarge));
        }
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        whole[1..HEADER].copy_from_slice(&length);
        Ok(whole.into())
    }
}

fn late() -> Status {
    let cause = format!("request body timed out after {} s", TIMEOUT.as_secs());
    bad_message(&cause, "End the request after its message.")
}

#[cfg(test)]
mod tests;
