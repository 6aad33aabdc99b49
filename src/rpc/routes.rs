//! Passes calls to their services, by the methods that their descriptors name.

use std::sync::Arc;

use prost_reflect::{DescriptorPool, MethodDescriptor};
use prost_types::method_options::IdempotencyLevel;
use tonic::{codec::CompressionEncoding, service::Routes};

use super::{BareIds, Handlers};
use crate::{
    domain::limits::MESSAGE_BYTES,
    engine::Engine,
    proto::{
        DESCRIPTOR_SET,
        memory::MessageKind,
        v1::{
            admin_service_server as admin, event_service_server as events,
            session_service_server as sessions, state_service_server as states,
            watch_service_server as watches,
        },
    },
};

/// Most bytes of a request of health and reflection: more than the longest names.
pub const OPEN_REQUEST_BYTES: usize = 4096;

/// The services of the contract, as health names them.
pub const SERVICE_NAMES: [&str; 5] = [
    sessions::SERVICE_NAME,
    events::SERVICE_NAME,
    states::SERVICE_NAME,
    watches::SERVICE_NAME,
    admin::SERVICE_NAME,
];

/// The services of the contract and, if asked for, both versions of reflection, which also describes health.
#[expect(clippy::expect_used, reason = "descriptors are compiled in, and every test reads them")]
pub fn routes(engine: Arc<Engine>, bare: BareIds, with_reflection: bool) -> Routes {
    let handlers = Arc::new(Handlers { engine, bare });
    macro_rules! service {
        ($server:path) => {
            <$server>::from_arc(Arc::clone(&handlers))
                .max_decoding_message_size(MESSAGE_BYTES)
                .accept_compressed(CompressionEncoding::Gzip)
        };
    }
    let mut routes = Routes::new(service!(sessions::SessionServiceServer<_>))
        .add_service(service!(events::EventServiceServer<_>))
        .add_service(service!(states::StateServiceServer<_>))
        .add_service(service!(watches::WatchServiceServer<_>))
        .add_service(service!(admin::AdminServiceServer<_>));
    if with_reflection {
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                // Tools read the details of errors through reflection too.
                .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        };
        let v1 = reflection().build_v1().expect("descriptors that were compiled in");
        let v1alpha = reflection().build_v1alpha().expect("descriptors that were compiled in");
        routes = routes.add_service(v1).add_service(v1alpha);
    }
    routes.prepare()
}

/// A method, as its descriptor tells it.
#[derive(Clone, Debug)]
pub struct Method {
    /// Such as `/sessiond.v1.EventService/AppendEvent`.
    pub path: String,
    pub client_streams: bool,
    pub server_streams: bool,
    pub has_side_effects: bool,
    /// `None`: of health or reflection, whose requests are short.
    pub request: Option<MessageKind>,
}

impl Method {
    pub fn is_unary(&self) -> bool {
        !(self.client_streams || self.server_streams)
    }
}

/// Every method of every service.
#[expect(clippy::expect_used, reason = "descriptors are compiled in, and every test reads them")]
pub fn methods() -> Vec<Method> {
    let sets = [
        DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let pool = |set| DescriptorPool::decode(set).expect("descriptors that were compiled in");
    let services = sets.into_iter().flat_map(|set| pool(set).services().collect::<Vec<_>>());
    services
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|it| method(&it))
        .collect()
}

fn method(method: &MethodDescriptor) -> Method {
    let options = method.method_descriptor_proto().options.clone().unwrap_or_default();
    Method {
        path: format!("/{}/{}", method.parent_service().full_name(), method.name()),
        client_streams: method.is_client_streaming(),
        server_streams: method.is_server_streaming(),
        has_side_effects: options.idempotency_level() != IdempotencyLevel::NoSideEffects,
        request: MessageKind::named(method.input().full_name()),
    }
}

/// The names of service and method in a path; `None` if it does not have the form `/SERVICE/METHOD`.
pub fn names(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('/')?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_service_and_a_method() {
        let path = "/sessiond.v1.EventService/AppendEvent";
        assert_eq!(names(path), Some((events::SERVICE_NAME, "AppendEvent")));
        for path in ["", "/", "*", "/service", "service/method"] {
            assert_eq!(names(path), None, "{path}");
        }
        assert_eq!(names("//method"), Some(("", "method")));
    }

    #[test]
    fn methods_are_as_the_contract_says() {
        let methods = methods();
        let find = |path: &str| methods.iter().find(|it| it.path == path).unwrap();
        let reads = methods.iter().filter(|it| it.is_unary() && !it.has_side_effects);
        let mut reads: Vec<_> =
            reads.filter_map(|it| names(&it.path).map(|(_, name)| name)).collect();
        reads.sort_unstable();
        let expected = [
            "BatchGetEvents",
            "GetSession",
            "GetState",
            "ListApplications",
            "ListEvents",
            "ListKeyChanges",
            "ListSessions",
            "ListUsers",
            "RenderTemplate",
        ];
        assert_eq!(reads, expected);
        let stream = find("/sessiond.v1.EventService/AppendEventStream");
        assert!(stream.client_streams && stream.server_streams && stream.request.is_some());
        let watch = find("/sessiond.v1.WatchService/Watch");
        assert!(watch.server_streams && !watch.client_streams && !watch.has_side_effects);
        let health = find("/grpc.health.v1.Health/Check");
        assert!(health.is_unary() && health.request.is_none());
        assert!(find("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").client_streams);
    }
}
