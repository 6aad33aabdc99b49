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

use super::{stopped, under_way::Calls};
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
    calls: Calls,
}

impl Front {
    /// `ready` is set when the services are; `draining` turns true when the server stops; `calls` counts those under way.
    pub(super) fn new(
        health: Routes,
        ready: Arc<OnceLock<Routes>>,
        draining: watch::Receiver<bool>,
        calls: Calls,
    ) -> Self {
        Self { health, ready, draining, calls }
    }
}

type Answer = Result<http::Response<Body>, Infallible>;
type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl Service<http::Request<Body>> for Front {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pending;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready: what bounds the calls under way is HTTP/2 below and the queues above.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if !FOREIGN.iter().any(|prefix| path.starts_with(prefix)) {
            return self.serve(request);
        }
        // Both directions end: whoever reads what a client sends holds its connection open for as long as it may send more.
        let draining = self.draining.clone();
        let request = request.map(|sent| until_stopped(sent, draining, None));
        let answer = self.serve(request);
        let draining = self.draining.clone();
        Box::pin(async move {
            let last = Some(status(Error::Draining, ""));
            Ok(answer.await?.map(|told| until_stopped(told, draining, last)))
        })
    }
}

impl Front {
    /// Gives a call to those who are there to take it.
    fn serve(&mut self, request: http::Request<Body>) -> Pending {
        let under_way = self.calls.begin();
        let mut services = match self.ready.get() {
            Some(services) => services.clone(),
            None if request.uri().path().starts_with(HEALTH) => self.health.clone(),
            None => return Box::pin(async { Ok(status(Error::Starting, "").into_http()) }),
        };
        let answer = services.call(request);
        Box::pin(async move { Ok(answer.await?.map(|told| under_way.until_the_end_of(told))) })
    }
}

/// A body that also ends when the server stops; one of an answer tells why.
fn until_stopped(inner: Body, draining: watch::Receiver<bool>, last: Option<Status>) -> Body {
    let stopped = Box::pin(stopped(draining));
    Body::new(UntilStopped { inner, stopped, last, ended: false })
}

/// A body that ends when the server stops and nothing of it is ready.
struct UntilStopped<F> {
    inner: Body,
    stopped: F,
    /// What is told in the end.
    last: Option<Status>,
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
        let Some(last) = self.last.take() else {
            return Poll::Ready(None);
        };
        let mut trailers = http::HeaderMap::new();
        let written = last.add_header(&mut trailers);
        Poll::Ready(Some(written.map(|()| Frame::trailers(trailers))))
    }

    // A refusal is headers alone: as long as its body may still have frames, clients look for the status behind them.
    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use tonic_health::server::health_reporter;
    use tonic_types::StatusExt as _;

    use super::*;
    use crate::domain::error::Reason;

    /// A server whose store is not open yet, and what stops it.
    fn starting() -> (Front, watch::Sender<bool>) {
        let draining = watch::Sender::new(false);
        let health = Routes::new(health_reporter().1);
        let front = Front::new(health, Arc::default(), draining.subscribe(), Calls::default());
        (front, draining)
    }

    /// Calls with one message, which comes with its flag and length before it.
    async fn call(front: &mut Front, path: &str, message: &str) -> http::Response<Body> {
        let request = http::Request::post(format!("http://here{path}"))
            .header("content-type", "application/grpc")
            .body(Body::new(message.to_owned()))
            .unwrap();
        front.call(request).await.unwrap()
    }

    #[tokio::test]
    async fn until_the_store_is_open_calls_are_told_to_wait_and_health_answers() {
        let (mut front, _draining) = starting();
        let told = call(&mut front, "/sessiond.v1.SessionService/GetSession", "\0\0\0\0\0").await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::Unavailable);
        let info = status.get_details_error_info().unwrap();
        assert_eq!(info.reason, Reason::Starting.as_str());
        let told = call(&mut front, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
        assert!(Status::from_header_map(told.headers()).is_none(), "it answers");
    }

    #[tokio::test]
    async fn a_refusal_of_health_is_headers_alone() {
        let (mut front, _draining) = starting();
        // HealthCheckRequest { service: "x" }
        let told = call(&mut front, "/grpc.health.v1.Health/Check", "\0\0\0\0\x03\x0a\x01x").await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::NotFound);
        assert!(told.body().is_end_stream(), "the status is the end of the answer");
    }
}
