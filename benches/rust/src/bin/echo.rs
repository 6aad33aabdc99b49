//! Answers the calls of `sessiond bench` without deciding or storing anything: what HTTP/2 and protobuf allow on this machine.
//!
//! ```text
//! echo 127.0.0.1:0     prints its address
//! ```

use std::{
    error::Error,
    time::{SystemTime, UNIX_EPOCH},
};

use mimalloc::MiMalloc;
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;
use tonic::{
    Request, Response, Status, Streaming,
    codegen::BoxStream,
    transport::{Server, server::TcpIncoming},
};

use v1::{
    append_event_stream_response::Outcome, event::BodyForm, event_service_server as events,
    session, session_service_server as sessions, state_service_server as state,
};

#[allow(clippy::all, reason = "generated")]
mod v1 {
    tonic::include_proto!("sessiond.v1");
}

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(Clone)]
struct Echo {
    /// The answer to a read: 20 keys of each scope, and 20 events.
    read: v1::GetSessionResponse,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: ADDRESS")?;
    let listener = TcpListener::bind(address).await?;
    println!("echo listens on {}", listener.local_addr()?);
    let echo = Echo { read: read() };
    Server::builder()
        .add_service(events::EventServiceServer::new(echo.clone()))
        .add_service(sessions::SessionServiceServer::new(echo.clone()))
        .add_service(state::StateServiceServer::new(echo))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await?;
    Ok(())
}

fn now() -> Option<prost_types::Timestamp> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(prost_types::Timestamp {
        seconds: since.as_secs().cast_signed(),
        nanos: since.subsec_nanos().cast_signed(),
    })
}

/// A session with the fields of an answer.
fn session_of(key: Option<v1::SessionKey>) -> v1::Session {
    v1::Session {
        key,
        last_sequence: 1,
        create_time: now(),
        update_time: now(),
        last_event_time: now(),
        uid: "0198d8a0-0000-7000-8000-000000000000".into(),
        ..Default::default()
    }
}

fn read() -> v1::GetSessionResponse {
    let keys = (0..20).flat_map(|n| ["app:", "user:", ""].map(|scope| format!("{scope}key-{n}")));
    let members: Vec<_> = keys.map(|key| format!(r#""{key}":"a value of some length""#)).collect();
    let session = v1::Session {
        state_form: Some(session::StateForm::StateJson(format!("{{{}}}", members.join(",")))),
        ..session_of(Some(v1::SessionKey::default()))
    };
    let event = v1::Event {
        event_id: "0198d8a0-0000-7000-8000-000000000000".into(),
        sequence: 1,
        invocation_id: "bench-invocation".into(),
        author: "bench".into(),
        event_time: now(),
        commit_time: now(),
        body_form: Some(BodyForm::BodyJson(format!(r#"{{"text":"{}"}}"#, "x".repeat(1013)))),
        ..Default::default()
    };
    let (session, events) = (Some(session), vec![event; 20]);
    v1::GetSessionResponse { session, events, ..Default::default() }
}

fn appended(request: v1::AppendEventRequest) -> v1::AppendEventResponse {
    let event = v1::Event {
        event_id: "0198d8a0-0000-7000-8000-000000000000".into(),
        sequence: 1,
        event_time: now(),
        commit_time: now(),
        ..request.event.unwrap_or_default()
    };
    let session = Some(session_of(request.key));
    v1::AppendEventResponse { event: Some(event), session, ..Default::default() }
}

#[tonic::async_trait]
impl events::EventService for Echo {
    async fn append_event(
        &self,
        request: Request<v1::AppendEventRequest>,
    ) -> Result<Response<v1::AppendEventResponse>, Status> {
        Ok(Response::new(appended(request.into_inner())))
    }

    async fn append_events(
        &self,
        _: Request<v1::AppendEventsRequest>,
    ) -> Result<Response<v1::AppendEventsResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn append_event_stream(
        &self,
        request: Request<Streaming<v1::AppendEventStreamRequest>>,
    ) -> Result<Response<BoxStream<v1::AppendEventStreamResponse>>, Status> {
        let mut index = -1;
        let answers = request.into_inner().map(move |item| {
            index += 1;
            let outcome = Some(Outcome::Appended(appended(item?.append.unwrap_or_default())));
            Ok(v1::AppendEventStreamResponse { index, outcome })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

#[tonic::async_trait]
impl sessions::SessionService for Echo {
    async fn create_session(
        &self,
        _: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        let session = Some(session_of(None));
        let created = v1::CreateSessionResponse { session, created: true, ..Default::default() };
        Ok(Response::new(created))
    }

    async fn get_session(
        &self,
        _: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        Ok(Response::new(self.read.clone()))
    }

    async fn delete_session(
        &self,
        _: Request<v1::DeleteSessionRequest>,
    ) -> Result<Response<v1::DeleteSessionResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl state::StateService for Echo {
    async fn update_state(
        &self,
        _: Request<v1::UpdateStateRequest>,
    ) -> Result<Response<v1::UpdateStateResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
}
