//! A request is read whole before it takes a place among the calls in flight, so that a client that does not send the rest of it takes no
//! place from others. What has been read is bounded in bytes and in time.

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

/// How long a request may take to come: the largest message, over a slow network.
const ARRIVAL: Duration = Duration::from_secs(30);

/// Bytes of a request that are read before it is decoded: a message of the largest size with its length. The decoder refuses a larger
/// one for its length.
const REQUEST_BYTES: usize = MESSAGE_BYTES + 1024;

/// Bytes of the requests of all calls that have come and are not answered: a hundred of the largest.
const ALL_BYTES: usize = 100 * MESSAGE_BYTES;

/// The requests that have come.
#[derive(Clone, Default)]
pub struct Arrivals(Arc<AtomicUsize>);

/// The bytes of a request, from its first one until its call is answered.
pub struct Held {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Held {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let before = self.all.fetch_add(bytes, Relaxed);
        self.bytes += bytes;
        if before + bytes <= ALL_BYTES {
            return Ok(());
        }
        Err(refusal(&TOO_MANY_CALLS))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

impl Arrivals {
    /// Reads a request that is one message. `draining` is the shutdown, which does not wait for the rest of a request.
    pub async fn whole<D: Future<Output = ()>>(
        &self,
        request: Request<Body>,
        draining: impl FnOnce() -> D,
    ) -> Result<(Request<Body>, Held), Status> {
        let mut held = Held { all: Arc::clone(&self.0), bytes: 0 };
        let (parts, body) = request.into_parts();
        let body = {
            let mut reading = pin!(read(body, &mut held));
            match poll!(&mut reading) {
                // Most requests have come with their headers.
                Poll::Ready(read) => read,
                Poll::Pending => select! {
                    read = reading => read,
                    () = sleep(ARRIVAL) => Err(late()),
                    () = draining() => Err(refusal(&Error::Draining)),
                },
            }
        }?;
        Ok((Request::from_parts(parts, body), held))
    }
}

fn late() -> Status {
    let cause = format!("it did not come whole within {} s", ARRIVAL.as_secs());
    let message =
        format!("The request is not complete: {cause}. End the request after its message.");
    let fault = Violation::new("", Reason::BadMessage, message).with("cause", cause);
    refusal(&Error::Invalid(vec![fault]))
}

/// Reads a body to its end, or as much of it as a request may have.
async fn read(mut body: Body, held: &mut Held) -> Result<Body, Status> {
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
