//! The event service.

use std::{pin::Pin, sync::Arc};

use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Handlers,
    append_stream::answers,
    call::{Call, unary},
    convert::{decode, encode},
};
use crate::proto::v1::{self, event_service_server::EventService};

#[tonic::async_trait]
impl EventService for Handlers {
    async fn append_event(
        &self,
        request: Request<v1::AppendEventRequest>,
    ) -> Result<Response<v1::AppendEventResponse>, Status> {
        unary(
            "AppendEvent",
            request,
            |request| decode::append_event(request, self.bare),
            async |context, (append, form)| {
                let answer = self.engine.append_events(&context, append).await?;
                Ok(encode::append_event(answer, form, 0))
            },
        )
        .await
    }

    async fn append_events(
        &self,
        request: Request<v1::AppendEventsRequest>,
    ) -> Result<Response<v1::AppendEventsResponse>, Status> {
        unary(
            "AppendEvents",
            request,
            |request| decode::append_events(request, self.bare),
            async |context, (append, form)| {
                let answer = self.engine.append_events(&context, append).await?;
                Ok(encode::append_events(answer, form))
            },
        )
        .await
    }

    type AppendEventStreamStream =
        Pin<Box<dyn Stream<Item = Result<v1::AppendEventStreamResponse, Status>> + Send>>;

    async fn append_event_stream(
        &self,
        request: Request<Streaming<v1::AppendEventStreamRequest>>,
    ) -> Result<Response<Self::AppendEventStreamStream>, Status> {
        let call = Call::new("AppendEventStream", request.metadata());
        let items = request.into_inner();
        let answers = answers(Arc::clone(&self.engine), self.bare, call, items);
        Ok(Response::new(Box::pin(answers)))
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        unary("ListEvents", request, decode::list_events, async |context, (list, form)| {
            let events = self.engine.list_events(&context, list).await?;
            encode::list_events(events, form)
        })
        .await
    }
}
