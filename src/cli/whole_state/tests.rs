//! State in pages, from a server whose answers take two keys.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait, transport};

use super::*;
use crate::{
    cli::{bearer::TokenArgs, connect::ConnectArgs, convert::state_of, tls::TlsArgs},
    proto::v1::state_service_server::{StateService, StateServiceServer},
};

#[test]
fn pages_become_one_answer() {
    let page = |text: &str, version: (&str, i64), damaged: &[&str]| v1::GetStateResponse {
        state_form: Some(StateForm::StateJson(text.to_owned())),
        versions: [(version.0.to_owned(), version.1)].into(),
        damaged_keys: damaged.iter().map(|key| (*key).to_owned()).collect(),
        uid: "u".to_owned(),
        ..Default::default()
    };
    let mut state = page(r#"{"app:a":1.00}"#, ("app:a", 1), &["app:y"]);
    join(
        &mut state,
        v1::GetStateResponse {
            state_omitted: true,
            ..page(r#"{"k":2}"#, ("k", 7), &["app:x", "app:y"])
        },
    );
    assert_eq!(
        state,
        v1::GetStateResponse {
            state_form: Some(StateForm::StateJson(r#"{"app:a":1.00,"k":2}"#.to_owned())),
            versions: [("app:a".to_owned(), 1), ("k".to_owned(), 7)].into(),
            state_omitted: true,
            damaged_keys: vec!["app:x".to_owned(), "app:y".to_owned()],
            uid: "u".to_owned(),
            ..Default::default()
        }
    );
}

const KEYS: [&str; 5] = ["app:a", "user:b", "c", "d", "e"];

/// Answers two keys at a time. One of a page is too large, and one of the application is damaged.
struct Pages;

#[async_trait]
impl StateService for Pages {
    async fn get_state(
        &self,
        request: Request<v1::GetStateRequest>,
    ) -> Result<Response<v1::GetStateResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.json_form, JSON_FORM);
        let from: usize = request.page_token.parse().unwrap_or_default();
        let (keys, next) = (&KEYS[from..KEYS.len().min(from + 2)], from + 2);
        let members = keys.iter().map(|key| format!("\"{key}\":1.00")).collect::<Vec<_>>();
        let versions = keys.iter().map(|key| ((*key).to_owned(), 3));
        Ok(Response::new(v1::GetStateResponse {
            state_form: Some(StateForm::StateJson(format!("{{{}}}", members.join(",")))),
            versions: versions.filter(|_| request.include_versions).collect(),
            next_page_token: if next < KEYS.len() { next.to_string() } else { String::new() },
            state_omitted: from == 2,
            damaged_keys: if from == 0 { vec!["app:x".to_owned()] } else { Vec::new() },
            uid: "life".to_owned(),
            ..Default::default()
        }))
    }

    async fn update_state(
        &self,
        _: Request<v1::UpdateStateRequest>,
    ) -> Result<Response<v1::UpdateStateResponse>, Status> {
        Err(Status::internal("a read"))
    }

    async fn list_key_changes(
        &self,
        _: Request<v1::ListKeyChangesRequest>,
    ) -> Result<Response<v1::ListKeyChangesResponse>, Status> {
        Err(Status::internal("a read"))
    }

    async fn render_template(
        &self,
        _: Request<v1::RenderTemplateRequest>,
    ) -> Result<Response<v1::RenderTemplateResponse>, Status> {
        Err(Status::internal("a read"))
    }

    async fn end_invocation(
        &self,
        _: Request<v1::EndInvocationRequest>,
    ) -> Result<Response<v1::EndInvocationResponse>, Status> {
        Err(Status::internal("a read"))
    }
}

async fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let service = transport::Server::builder().add_service(StateServiceServer::new(Pages));
    tokio::spawn(service.serve_with_incoming(TcpListenerStream::new(listener)));
    let args = ConnectArgs {
        server,
        timeout: Duration::from_secs(60),
        tls: TlsArgs::default(),
        token: TokenArgs::default(),
        output: None,
    };
    Server::connect(&args).await.unwrap()
}

const WHOLE: &str = r#"{"app:a":1.00,"user:b":1.00,"c":1.00,"d":1.00,"e":1.00}"#;

#[tokio::test]
async fn all_pages_are_read() {
    let state = whole_state(&server().await, state_request(v1::Scope::default())).await.unwrap();
    assert_eq!(state.state_form, Some(StateForm::StateJson(WHOLE.to_owned())));
    assert_eq!((state.next_page_token.as_str(), state.uid.as_str()), ("", "life"));
    assert!(state.state_omitted, "a value of the second page is missing");
    assert_eq!(state.damaged_keys, ["app:x"]);
}

#[tokio::test]
async fn a_session_whose_state_was_left_out_gets_it_unless_it_is_of_the_past() {
    let server = server().await;
    let read = async |state_omitted, as_of_sequence| {
        let mut session = v1::Session { state_omitted, ..Default::default() };
        let request =
            v1::GetSessionRequest { as_of_sequence, include_versions: true, ..Default::default() };
        complete(&server, &mut session, &request).await.unwrap();
        session
    };
    let session = read(true, None).await;
    assert_eq!(state_of(&session), WHOLE);
    assert_eq!((session.versions.len(), session.versions["c"]), (5, 3));
    assert_eq!(session.damaged_keys, ["app:x"]);
    assert_eq!(read(false, None).await.state_form, None, "nothing was left out");
    let past = read(true, Some(1)).await;
    assert!(past.state_omitted && past.state_form.is_none(), "no pages are of the past");
}
