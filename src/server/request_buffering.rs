//! Buffers a request before it takes a permit of the concurrency limit, so that clients that do not send the rest hold none. Bounded in
//! bytes and in time.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{Stream, StreamExt as _, poll, stream};
use http_body_util::{BodyExt as _, Full};
use tokio::{select, time::sleep};
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

/// Bytes of a request that are read before it is decoded: a message of the largest size with its length. The decoder refuses a larger
/// one for its length.
const REQUEST_BYTES: usize = MESSAGE_BYTES + 1024;

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
    pub async fn whole<D: Future<Output = ()>>(
        &self,
        request: Request<Body>,
        draining: impl FnOnce() -> D,
    ) -> Result<(Request<Body>, Buffered), Status> {
        let mut held = Buffered { all: Arc::clone(&self.0), bytes: 0 };
        let (parts, body) = request.into_parts();
        let body = {
            let mut reading = pin!(read(body, &mut held));
            match poll!(&mut reading) {
                // Most requests have come with their headers.
                Poll::Ready(read) => read,
                Poll::Pending => select! {
                    read = reading => read,
                    () = sleep(TIMEOUT) => Err(late()),
                    () = draining() => Err(refusal(&Error::Draining)),
                },
            }
        }?;
        Ok((Request::from_parts(parts, body), held))
    }
}

fn late() -> Status {
    let cause = format!("request body timed out after {} s", TIMEOUT.as_secs());
    let message = format!("Incomplete request: {cause}. End the request after its message.");
    let fault = Violation::new("", Reason::BadMessage, message).with("cause", cause);
    refusal(&Error::Invalid(vec![fault]))
}

/// Reads a body to its end, or as much of it as a request may have.
async fn read(mut body: Body, held: &mut Buffered) -> Result<Body, Status> {
    let mut parts: Vec<Bytes> = Vec::new();
    while held.bytes <= REQUEST_BYTES {
        match body.frame().await.transpose()?.map(|frame| frame.into_data()) {
            Some(Ok(data)) => {
                held.take(data.len())?;
                parts.push(data);
            }
            // Requests of gRPC have no trailers.
            Some(Err(_)) => {}
            None if parts.len() == 1 => return Ok(Body::new(Full::from(parts.remove(0)))),
            None => return Ok(Body::new(axum::body::Body::from_stream(stream_of(parts)))),
        }
    }
    let all = stream_of(parts).chain(body.into_data_stream());
    Ok(Body::new(axum::body::Body::from_stream(all)))
}

fn stream_of(parts: Vec<Bytes>) -> impl Stream<Item = Result<Bytes, Status>> {
    stream::iter(parts).map(Ok)
}

#[cfg(test)]
mod tests;
