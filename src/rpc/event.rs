//! The event service.

use std::{pin::Pin, sync::Arc};

use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Handlers,
    append_stream::answers,
    call::{Call, call, renamed},
    convert::{decode, encode},
};
use crate::proto::v1::{
    AppendEventRequest, AppendEventResponse, AppendEventStreamRequest, AppendEventStreamResponse,
    AppendEventsRequest, AppendEventsResponse, ListEventsRequest, ListEventsResponse,
    event_service_server::EventService,
};

#[tonic::async_trait]
impl EventService for Handlers {
    async fn append_event(
        &self,
        request: Request<AppendEventRequest>,
    ) -> Result<Response<AppendEventResponse>, Status> {
        call("AppendEvent", async {
            let (append, form) = decode::append_event(request.into_inner(), self.bare)?;
            let answer = self.engine.append_events(append).await;
            let answer = answer.map_err(|error| renamed(error, "events[0]", "event"))?;
            Ok(encode::append_event(answer, form, 0))
        })
        .await
    }

    async fn append_events(
        &self,
        request: Request<AppendEventsRequest>,
    ) -> Result<Response<AppendEventsResponse>, Status> {
        call("AppendEvents", async {
            let (append, form) = decode::append_events(request.into_inner(), self.bare)?;
            let answer = self.engine.append_events(append).await?;
            Ok(encode::append_events(answer, form))
        })
        .await
    }

    type AppendEventStreamStream =
        Pin<Box<dyn Stream<Item = Result<AppendEventStreamResponse, Status>> + Send>>;

    async fn append_event_stream(
        &self,
        request: Request<Streaming<AppendEventStreamRequest>>,
    ) -> Result<Response<Self::AppendEventStreamStream>, Status> {
        let call = Call("AppendEventStream");
        let items = request.into_inner();
        let answers = answers(Arc::clone(&self.engine), self.bare, call, items);
        Ok(Response::new(Box::pin(answers)))
    }

    async fn list_events(
        &self,
        request: Request<ListEventsRequest>,
    ) -> Result<Response<ListEventsResponse>, Status> {
        call("ListEvents", async {
            let (list, form) = decode::list_events(request.into_inner())?;
            let events = self.engine.list_events(list).await?;
            encode::list_events(events, form)
        })
        .await
    }
}
