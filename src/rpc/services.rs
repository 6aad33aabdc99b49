//! The handlers: each decodes its request, calls the engine and encodes the answer.

use futures_util::stream::try_unfold;
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream};

use super::{Handlers, append_stream::answers, call::Call, large::encoded, prelude::*};
use crate::{
    engine::dropped_keys,
    proto::v1::{
        admin_service_server::AdminService, event_service_server::EventService,
        session_service_server::SessionService, state_service_server::StateService,
        watch_service_server::WatchService,
    },
};

/// Implements a service: its unary calls, each with an expression that makes the response of what [`decode`] made of the request, and
/// its other items as they are.
macro_rules! service {
    ($service:ident |$engine:ident, $context:ident| {
        $($method:ident($request:ident: $decoded:pat_param) -> $response:ident = $answer:expr;)*
    } $($other:item)*) => {
        #[tonic::async_trait]
        impl $service for Handlers {
            $(async fn $method(
                &self,
                request: Request<v1::$request>,
            ) -> Result<Response<v1::$response>, Status> {
                let request_type = stringify!($request);
                let method = request_type.strip_suffix("Request").unwrap_or(request_type);
                let call = Call::new(method, &request);
                let answer = call.run(async {
                    let ($engine, $context) = (&self.engine, &call.context);
                    let request = request.into_inner();
                    let (bare, store) = (self.bare, self.engine.store.id());
                    let decoded = decode::decode(request, bare, store, decode::$method);
                    let $decoded = call.decoded(decoded)?;
                    $answer
                });
                answer.await.map(Response::new)
            })*
            $($other)*
        }
    };
}

service! { SessionService |engine, context| {
    create_session(CreateSessionRequest: (new, mode)) -> CreateSessionResponse = {
        let dropped = encode::dropped_temp_keys(new.state.iter().map(|(key, _)| key));
        let created = engine.store.create_session(context, new).await?;
        Ok(encoded(created, |it| encode::create_session(it, dropped, mode)).await)
    };
    get_session(GetSessionRequest: ((query, invocation), mode)) -> GetSessionResponse = {
        let answer = engine.get_session(context, query, invocation).await?;
        Ok(encoded(answer, |it| encode::get_session(it, mode)).await)
    };
    list_sessions(ListSessionsRequest: ((query, token), mode)) -> ListSessionsResponse = {
        let list = engine.list_sessions(context, query, token).await?;
        Ok(encoded(list, |it| encode::list_sessions(it, mode)).await)
    };
    update_session(UpdateSessionRequest: update) -> UpdateSessionResponse =
        Ok(encode::update_session(engine.store.update_session(context, update).await?, engine.store.id()));
    delete_session(DeleteSessionRequest: delete) -> DeleteSessionResponse =
        engine.delete_session(context, delete).await.map(|()| v1::DeleteSessionResponse {});
    fork_session(ForkSessionRequest: (fork, mode)) -> ForkSessionResponse =
        Ok(encoded(engine.store.fork_session(context, fork).await?, |it| encode::fork_session(it, mode)).await);
    rewind_session(RewindSessionRequest: (rewind, mode)) -> RewindSessionResponse =
        Ok(encoded(engine.store.rewind_session(context, rewind).await?, |it| encode::rewind_session(it, mode)).await);
}}

service! { EventService |engine, context| {
    append_event(AppendEventRequest: (append, mode)) -> AppendEventResponse = {
        let dropped = encode::dropped_temp_keys(dropped_keys(&append));
        let answer = engine.append_events(context, append).await?;
        Ok(encoded(answer, |it| encode::append_event(it, dropped, mode)).await)
    };
    append_events(AppendEventsRequest: (append, mode)) -> AppendEventsResponse = {
        let dropped = encode::dropped_temp_keys(dropped_keys(&append));
        let answer = engine.append_events(context, append).await?;
        Ok(encoded(answer, |it| encode::append_events(it, dropped, mode)).await)
    };
    batch_get_events(BatchGetEventsRequest: ((query, token), mode)) -> BatchGetEventsResponse = {
        let list = engine.batch_get_events(context, query, token).await?;
        Ok(encode::batch_get_events(&list, mode))
    };
    list_events(ListEventsRequest: ((query, token), mode)) -> ListEventsResponse =
        Ok(encode::list_events(engine.list_events(context, query, token).await?, mode));
}
    type AppendEventStreamStream = BoxStream<v1::AppendEventStreamResponse>;

    async fn append_event_stream(
        &self,
        request: Request<Streaming<v1::AppendEventStreamRequest>>,
    ) -> Result<Response<Self::AppendEventStreamStream>, Status> {
        let call = Call::new("AppendEventStream", &request);
        let answers = answers(self.clone(), call, request.into_inner());
        Ok(Response::new(Box::pin(answers)))
    }
}

service! { StateService |engine, context| {
    get_state(GetStateRequest: ((query, page, invocation), mode)) -> GetStateResponse = {
        let answer = engine.get_state(context, query, page, invocation).await?;
        Ok(encoded(answer, |it| encode::get_state(it, mode)).await)
    };
    update_state(UpdateStateRequest: (update, mode)) -> UpdateStateResponse =
        Ok(encoded(engine.update_state(context, update).await?, |it| encode::update_state(it, mode)).await);
    list_key_changes(ListKeyChangesRequest: ((query, token), mode)) -> ListKeyChangesResponse =
        Ok(encode::list_key_changes(engine.list_key_changes(context, query, token).await?, mode));
    render_template(RenderTemplateRequest: (key, template, invocation)) -> RenderTemplateResponse =
        engine.render_template(context, key, template, invocation).await
            .map(|text| v1::RenderTemplateResponse { text });
    end_invocation(EndInvocationRequest: (key, id)) -> EndInvocationResponse =
        engine.end_invocation(context, key, id).await.map(|()| v1::EndInvocationResponse {});
}}

service! { AdminService |engine, context| {
    list_applications(ListApplicationsRequest: (query, token)) -> ListApplicationsResponse =
        Ok(encode::list_applications(engine.list_applications(context, query, token).await?));
    list_users(ListUsersRequest: (query, token)) -> ListUsersResponse = {
        let app = query.app_name.clone();
        Ok(encode::list_users(engine.list_users(context, query, token).await?, &app))
    };
}}

#[tonic::async_trait]
impl WatchService for Handlers {
    type WatchStream = BoxStream<v1::WatchResponse>;

    /// The messages of a watch, until it ends or fails; a failure is the last one.
    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let call = Call::new("Watch", &request);
        let opened = call.run(async {
            let (request, store) = (request.into_inner(), self.engine.store.id());
            let decoded = decode::decode(request, self.bare, store, decode::watch);
            let (scope, from, mode) = call.decoded(decoded)?;
            Ok((self.engine.watch(&call.context, scope, from).await?, mode))
        });
        let (watch, mode) = opened.await?;
        let cursor = watch.first_cursor();
        let open = (watch, call, cursor);
        Ok(Response::new(Box::pin(try_unfold(open, move |(mut watch, call, cursor)| async move {
            let Some(next) = watch.next().await else { return Ok(None) };
            let message =
                encoded(next, |it| it.map(|(item, cursor)| encode::watch(item, cursor, mode)));
            let message = message.await.map_err(|error| {
                call.stream_status(&error, cursor.as_deref().map(|cursor| ("cursor", cursor)))
            })?;
            let cursor = Some(message.cursor.clone());
            Ok(Some((message, (watch, call, cursor))))
        }))))
    }
}
