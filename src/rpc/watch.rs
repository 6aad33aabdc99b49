//! The watch service.

use std::pin::Pin;

use futures_util::stream::unfold;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{
    Handlers,
    call::Call,
    convert::{Form, decode, encode},
};
use crate::{
    engine::Watch,
    proto::v1::{WatchRequest, WatchResponse, watch_service_server::WatchService},
};

type Messages = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl WatchService for Handlers {
    type WatchStream = Messages;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Messages>, Status> {
        let call = Call::new("Watch", request.metadata());
        let opened = call.run(async {
            let (scope, from, form) = decode::watch(request.into_inner())?;
            Ok((self.engine.watch(call.context(), scope, from).await?, form))
        });
        let (watch, form) = opened.await?;
        Ok(Response::new(messages(watch, form, call)))
    }
}

/// The messages of a watch, until it ends or fails; a failure is the last one.
fn messages(watch: Watch, form: Form, call: Call) -> Messages {
    let open = Some((watch, call, None::<String>));
    Box::pin(unfold(open, move |open| async move {
        let (mut watch, call, cursor) = open?;
        let next = watch.next().await?;
        Some(match next.and_then(|(item, cursor)| encode::watch(item, cursor, form)) {
            Ok(message) => {
                let cursor = Some(message.cursor.clone());
                (Ok(message), Some((watch, call, cursor)))
            }
            Err(error) => (Err(call.watch_status(&error, cursor.as_deref())), None),
        })
    }))
}
