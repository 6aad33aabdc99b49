//! Buffers a request before it takes a permit of the concurrency limit, so that clients that do not send the rest hold none. Bounded in
//! bytes and in time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full};
use tokio::{select, time::timeout};
use tonic::{
    Status,
    body::Body,
    codegen::{Bytes, http::Request},
};

use super::{admission::TOO_MANY_CALLS, health::refusal};
use crate::domain::{
    error::{Error, Reason, Violation},
    limits::MESSAGE_BYTES,
};

/// Request body timeout: the largest message, over a slow network.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a request: a message of the largest size with its length, also where compression made it longer.
const REQUEST_BYTES: usize = MESSAGE_BYTES + 8 * 1024;

/// Bytes of all buffered requests until their calls are answered: a hundred of the largest.
const ALL_BYTES: usize = 100 * MESSAGE_BYTES;

#[derive(Clone, Default)]
pub struct RequestBuffers(Arc<AtomicUsize>);

pub struct Buffered {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Buffered {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let before = self.all.fetch_add(bytes, Relaxed);
        self.bytes += bytes;
        if before + bytes <= ALL_BYTES {
            return Ok(());
        }
        Err(refusal(&TOO_MANY_CALLS))
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

impl RequestBuffers {
    /// Reads a request of one message. A shutdown, `draining`, does not wait for the rest of it.
    pub async fn whole(
        &self,
        request: Request<Body>,
        draining: impl Future<Output = ()>,
    ) -> Result<(Request<Body>, Buffered), Status> {
        let mut held = Buffered { all: Arc::clone(&self.0), bytes: 0 };
        let (parts, body) = request.into_parts();
        let body = select! {
            biased;
            // Most requests have come with their headers.
            read = timeout(TIMEOUT, read(body, &mut held)) => read.unwrap_or_else(|_| Err(late()))?,
            () = draining => return Err(refusal(&Error::Draining)),
        };
        Ok((Request::from_parts(parts, body), held))
    }
}

fn late() -> Status {
    let cause = format!("request body timed out after {} s", TIMEOUT.as_secs());
    let message = format!("Incomplete request: {cause}. End the request after its message.");
    let fault = Violation::new("", Reason::BadMessage, message).with("cause", cause);
    refusal(&Error::Invalid(vec![fault]))
}

/// Reads a body to its end.
async fn read(mut body: Body, held: &mut Buffered) -> Result<Body, Status> {
    let mut parts: Vec<Bytes> = Vec::new();
    // Requests of gRPC have no trailers.
    while let Some(frame) = body.frame().await.transpose()? {
        if let Ok(data) = frame.into_data() {
            held.take(data.len())?;
            parts.push(data);
        }
        if held.bytes > REQUEST_BYTES {
            return Err(refusal(&Error::MessageTooLarge));
        }
    }
    Ok(match parts.len() {
        1 => Body::new(Full::from(parts.remove(0))),
        // The decoder copies them, once.
        _ => Body::new(axum::body::Body::from_stream(stream::iter(parts).map(Ok::<_, Status>))),
    })
}

#[cfg(test)]
mod tests;
