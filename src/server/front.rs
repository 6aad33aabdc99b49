//! What stands before the services: until the store is open, health answers and everything else is told to wait.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tonic::{
    body::Body,
    codegen::{Service, http},
    service::Routes,
};

use crate::{domain::error::Error, rpc::status::status};

/// Path of every call of the health service.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Sends calls to the services once they are there.
#[derive(Clone)]
pub(super) struct Front {
    health: Routes,
    ready: Arc<OnceLock<Routes>>,
}

impl Front {
    /// `ready` is set when the services are.
    pub(super) fn new(health: Routes, ready: Arc<OnceLock<Routes>>) -> Self {
        Self { health, ready }
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
        match self.ready.get() {
            Some(services) => Box::pin(services.clone().call(request)),
            None if request.uri().path().starts_with(HEALTH) => {
                Box::pin(self.health.call(request))
            }
            None => Box::pin(async { Ok(status(Error::Starting, "").into_http()) }),
        }
    }
}
