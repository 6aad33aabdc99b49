//! Tools find every service and every type by reflection, old ones and new ones.

use tokio_stream::StreamExt;
use tonic_reflection::pb;

use super::server;

const SERVICES: [&str; 7] = [
    "grpc.health.v1.Health",
    "sessiond.v1.EventService",
    "sessiond.v1.SessionService",
    "sessiond.v1.StateService",
    "sessiond.v1.WatchService",
    // Each version names itself as well; which of them is asked decides which one that is.
    "grpc.reflection",
    "",
];

macro_rules! lists_services {
    ($test:ident, $version:ident) => {
        #[tokio::test]
        async fn $test() {
            use pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest,
                server_reflection_response::MessageResponse,
            };
            let server = server().await;
            let mut client = ServerReflectionClient::new(server.channel.clone());
            let ask = |request| ServerReflectionRequest {
                host: String::new(),
                message_request: Some(request),
            };
            let questions = vec![
                ask(MessageRequest::ListServices(String::new())),
                ask(MessageRequest::FileContainingSymbol("sessiond.v1.StateDelta".into())),
            ];
            let answers = client.server_reflection_info(tokio_stream::iter(questions)).await;
            let mut answers = answers.unwrap().into_inner();
            let Some(MessageResponse::ListServicesResponse(list)) =
                answers.next().await.unwrap().unwrap().message_response
            else {
                panic!("no services");
            };
            let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
            for wanted in SERVICES {
                assert!(names.iter().any(|name| name.starts_with(wanted)), "{wanted}: {names:?}");
            }
            let Some(MessageResponse::FileDescriptorResponse(file)) =
                answers.next().await.unwrap().unwrap().message_response
            else {
                panic!("no file");
            };
            assert!(!file.file_descriptor_proto.is_empty());
        }
    };
}

lists_services!(the_current_version_knows_every_service, v1);
lists_services!(the_older_version_knows_every_service, v1alpha);
