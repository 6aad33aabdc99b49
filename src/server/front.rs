//! What stands before the services: until the store is open, health answers and everything else is told to wait; when the server
//! stops, streams that no service of ours ends are ended here.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use http_body::Frame;
use tokio::sync::watch;
use tonic::{
    Status,
    body::Body,
    codegen::{Bytes, Service, http},
    service::Routes,
};

use crate::{domain::error::Error, rpc::status::status};

/// Path of every call of the health service.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Paths of services that are not ours, whose streams would go on for as long as their clients like.
const FOREIGN: [&str; 2] = [HEALTH, "/grpc.reflection."];

/// Sends calls to the services once they are there.
#[derive(Clone)]
pub(super) struct Front {
    health: Routes,
    ready: Arc<OnceLock<Routes>>,
    draining: watch::Receiver<bool>,
}

impl Front {
    /// `ready` is set when the services are; `draining` turns true when the server stops.
    pub(super) fn new(
        health: Routes,
        ready: Arc<OnceLock<Routes>>,
        draining: watch::Receiver<bool>,
    ) -> Self {
        Self { health, ready, draining }
    }
}

type Answer = Result<http::Response<Body>, Infallible>;

impl Service<http::Request<Body>> for Front {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready: what bounds the calls under way is HTTP/2 below and the queues above.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let foreign = FOREIGN.iter().any(|prefix| path.starts_with(prefix));
        let answer = match self.ready.get() {
            Some(services) => services.clone().call(request),
            None if path.starts_with(HEALTH) => self.health.call(request),
            None => return Box::pin(async { Ok(status(Error::Starting, "").into_http()) }),
        };
        if !foreign {
            return Box::pin(answer);
        }
        let mut draining = self.draining.clone();
        Box::pin(async move {
            let stopped = Box::pin(async move {
                // A server that is gone has stopped as well.
                let _ = draining.wait_for(|&draining| draining).await;
            });
            Ok(answer.await?.map(|inner| Body::new(UntilStopped { inner, stopped, ended: false })))
        })
    }
}

/// The body of an answer, which ends with DRAINING when the server stops and nothing is ready to be sent.
struct UntilStopped<F> {
    inner: Body,
    stopped: F,
    ended: bool,
}

impl<F: Future<Output = ()> + Unpin> http_body::Body for UntilStopped<F> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // First what is ready: that the server no longer serves is the last thing that a health watch tells.
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        if Pin::new(&mut self.stopped).poll(context).is_pending() {
            return Poll::Pending;
        }
        self.ended = true;
        let mut trailers = http::HeaderMap::new();
        let written = status(Error::Draining, "").add_header(&mut trailers);
        Poll::Ready(Some(written.map(|()| Frame::trailers(trailers))))
    }
}
