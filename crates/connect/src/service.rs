//! The service of HTTP in front of one of gRPC.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use http::{Request, Response, StatusCode, request::Parts};
use prost_reflect::MethodDescriptor;
use tonic::{
    body::Body,
    codegen::{self, BoxFuture, Bytes, Service, StdError},
};

use crate::{
    Meter, Options,
    answer::{plain, refused, refused_stream, stream, unary},
    call::{Call, NoCall, path},
    request,
};

/// Speaks Connect, and passes calls of gRPC to `S`.
#[derive(Clone)]
pub struct Connect<S> {
    inner: S,
    options: Arc<Options>,
    methods: Arc<HashMap<String, MethodDescriptor>>,
}

impl<S> Connect<S> {
    /// Every method of every service of the pool.
    pub fn new(inner: S, options: Options) -> Self {
        let services: Vec<_> = options.pool.services().collect();
        let methods = services.iter().flat_map(|service| service.methods().collect::<Vec<_>>());
        let methods = Arc::new(methods.map(|method| (path(&method), method)).collect());
        Self { inner, options: Arc::new(options), methods }
    }

    /// The same in front of another service, such as that of another connection.
    pub fn in_front_of<T>(&self, inner: T) -> Connect<T> {
        let (options, methods) = (Arc::clone(&self.options), Arc::clone(&self.methods));
        Connect { inner, options, methods }
    }

    /// What a request calls, or the answer to it. Of a call that is not passed on, the rest of the request is still to be read.
    pub fn read(&self, parts: &Parts) -> Result<Call, Box<Response<Body>>> {
        let Some(method) = self.methods.get(parts.uri.path()) else {
            let text =
                "No method of the contract has this path. Paths are /PACKAGE.SERVICE/METHOD.";
            return Err(plain(StatusCode::NOT_FOUND, Vec::new(), text).into());
        };
        Call::read(parts, method).map_err(|no_call| match no_call {
            NoCall::Http(code, headers, text) => plain(code, headers, &text).into(),
            NoCall::Refused(reason) => {
                let is_stream = method.is_server_streaming() && !method.is_client_streaming();
                let status = (self.options.refusal)(reason);
                match is_stream {
                    true => refused_stream(&status, &self.options.pool).into(),
                    false => refused(&status, &self.options.pool).into(),
                }
            }
        })
    }
}

impl<S> Connect<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    /// Passes a call on, and its answer back.
    pub fn pass<B>(
        &mut self,
        call: Call,
        mut parts: Parts,
        body: B,
    ) -> BoxFuture<Response<Body>, Infallible>
    where
        B: codegen::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError>,
    {
        let (call, options, meter) = (Arc::new(call), Arc::clone(&self.options), Meter::default());
        call.to_grpc(&mut parts);
        parts.extensions.insert(meter.clone());
        let body =
            request::body(Body::new(body), Arc::clone(&call), Arc::clone(&options), meter.clone());
        let answer = self.inner.call(Request::from_parts(parts, body));
        Box::pin(async move {
            let answer = answer.await?;
            Ok(match call.is_stream {
                true => stream(answer, call, options, meter),
                false => unary(answer, &call, &options, &meter).await,
            })
        })
    }
}
