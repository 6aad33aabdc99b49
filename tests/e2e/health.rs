//! What every gRPC server has beside its own services: health, reflection, and an answer to what it does not know.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::FileDescriptorProto;
use tokio::sync::mpsc;
use tokio_stream::{once, wrappers::UnboundedReceiverStream};
use tonic::{Code, Request};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

use crate::harness::{Service, owning_server, with_server, within};

with_server! {
    every_service_is_serving
    both_versions_of_reflection_describe_the_contract
    what_is_not_there_is_unimplemented
}

owning_server! {
    health_goes_down_before_the_server_does
    open_streams_of_health_and_reflection_do_not_hold_up_a_stop
}

const SERVICES: [&str; 5] = [
    "sessiond.v1.AdminService",
    "sessiond.v1.EventService",
    "sessiond.v1.SessionService",
    "sessiond.v1.StateService",
    "sessiond.v1.WatchService",
];

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

pub async fn is_serving(service: &Service, name: &str) -> bool {
    let answer = HealthClient::new(service.channel()).check(of(name)).await.unwrap();
    answer.into_inner().status() == ServingStatus::Serving
}

async fn every_service_is_serving(service: &Service) {
    assert!(is_serving(service, "").await);
    for name in SERVICES.into_iter().chain(["sessiond.writes"]) {
        assert!(is_serving(service, name).await, "{name}");
    }
    let unknown = HealthClient::new(service.channel()).check(of("sessiond.v1.Nothing")).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
}

async fn health_goes_down_before_the_server_does(service: Service) {
    let mut watched = Vec::new();
    for name in ["", SERVICES[0]] {
        let stream = HealthClient::new(service.connect().await).watch(of(name)).await;
        let mut stream = stream.unwrap().into_inner();
        let first = within("the health", stream.message()).await.unwrap().unwrap();
        assert_eq!(first.status(), ServingStatus::Serving);
        watched.push(stream);
    }
    service.stop().await;
    for mut stream in watched {
        let next = within("the health", stream.message()).await.unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NotServing);
    }
}

/// Calls one version of the reflection service over a stream of one request.
macro_rules! reflect {
    ($version:ident, $channel:expr, $request:expr) => {{
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest::*,
            server_reflection_response::MessageResponse,
        };
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some($request) };
        let mut client = ServerReflectionClient::new($channel);
        let mut answers = client.server_reflection_info(once(request)).await.unwrap().into_inner();
        let answer = within("reflection", answers.message()).await.unwrap().unwrap();
        match answer.message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => {
                Reflected::Services(list.service.into_iter().map(|it| it.name).collect())
            }
            MessageResponse::FileDescriptorResponse(files) => {
                Reflected::Files(files.file_descriptor_proto)
            }
            other => panic!("{other:?}"),
        }
    }};
}

enum Reflected {
    Services(BTreeSet<String>),
    Files(Vec<Vec<u8>>),
}

async fn both_versions_of_reflection_describe_the_contract(service: &Service) {
    for (reflected, own) in [
        (reflect!(v1, service.channel(), ListServices(String::new())), "v1"),
        (reflect!(v1alpha, service.channel(), ListServices(String::new())), "v1alpha"),
    ] {
        let Reflected::Services(names) = reflected else { panic!() };
        for name in SERVICES {
            assert!(names.contains(name), "{names:?}");
        }
        assert!(names.contains("grpc.health.v1.Health"), "{names:?}");
        let own = format!("grpc.reflection.{own}.ServerReflection");
        assert!(names.contains(&own), "{names:?}");
    }
    let methods = [
        ("sessiond.v1.EventService", 5),
        ("sessiond.v1.SessionService", 7),
        ("sessiond.v1.StateService", 5),
        ("sessiond.v1.WatchService", 1),
    ];
    for (name, count) in methods {
        for reflected in [
            reflect!(v1, service.channel(), FileContainingSymbol(name.into())),
            reflect!(v1alpha, service.channel(), FileContainingSymbol(name.into())),
        ] {
            let Reflected::Files(files) = reflected else { panic!() };
            let described = files
                .iter()
                .flat_map(|file| FileDescriptorProto::decode(&file[..]).unwrap().service)
                .find(|it| name.ends_with(it.name()))
                .unwrap();
            assert_eq!(described.method.len(), count);
        }
    }
    // A message and a file by its name, of which the contract imports others.
    for reflected in [
        reflect!(v1, service.channel(), FileContainingSymbol("sessiond.v1.Session".into())),
        reflect!(v1, service.channel(), FileByFilename("sessiond/v1/types.proto".into())),
        reflect!(v1, service.channel(), FileByFilename("google/protobuf/struct.proto".into())),
        // What the details of errors are.
        reflect!(v1, service.channel(), FileContainingSymbol("google.rpc.ErrorInfo".into())),
        reflect!(v1alpha, service.channel(), FileContainingSymbol("google.rpc.BadRequest".into())),
    ] {
        assert!(matches!(reflected, Reflected::Files(files) if !files.is_empty()));
    }
}

/// A stream of health that somebody watches, and one of reflection that a tool keeps open, have no end of their own.
async fn open_streams_of_health_and_reflection_do_not_hold_up_a_stop(service: Service) {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest,
    };
    let channel = service.connect().await;
    let mut health = HealthClient::new(channel.clone()).watch(of("")).await.unwrap().into_inner();
    within("the health", health.message()).await.unwrap().unwrap();
    let (requests, receiver) = mpsc::unbounded_channel();
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    requests.send(request).unwrap();
    let stream = UnboundedReceiverStream::new(receiver);
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(stream)
        .await
        .unwrap()
        .into_inner();
    within("reflection", answers.message()).await.unwrap().unwrap();
    service.stop().await;
    drop((health, requests, answers));
}

async fn what_is_not_there_is_unimplemented(service: &Service) {
    let paths = [
        "/sessiond.v1.EventService/Nothing",
        "/sessiond.v1.EventService/",
        "/sessiond.v2.EventService/AppendEvent",
        "/x/y",
    ];
    for path in paths {
        let mut client = tonic::client::Grpc::new(service.channel());
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckRequest>::default();
        let request = Request::new(HealthCheckRequest::default());
        let status = client.unary(request, path.parse().unwrap(), codec).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
        assert!(status.get_details_error_info().is_none());
    }
    assert!(is_serving(service, "").await);
}
