//! Passes calls to their services, by the methods that their descriptors name.

use std::sync::Arc;

use prost_reflect::DescriptorPool;
use tonic::{codec::CompressionEncoding, service::Routes};

use super::{BareIds, Handlers};
use crate::{
    domain::limits::MESSAGE_BYTES,
    engine::Engine,
    metrics::MethodKind,
    proto::{
        DESCRIPTOR_SET,
        v1::{
            admin_service_server as admin, event_service_server as events,
            session_service_server as sessions, state_service_server as states,
            watch_service_server as watches,
        },
    },
};

/// Most bytes of a request of health and reflection, which need no credential: more than the longest names.
pub const OPEN_REQUEST_BYTES: usize = 4096;

/// The services of the contract, as health names them.
pub const SERVICE_NAMES: [&str; 5] = [
    sessions::SERVICE_NAME,
    events::SERVICE_NAME,
    states::SERVICE_NAME,
    watches::SERVICE_NAME,
    admin::SERVICE_NAME,
];

/// The services of the contract, and both versions of reflection, which also describes health.
#[expect(clippy::expect_used, reason = "descriptors are compiled in, and every test reads them")]
pub fn routes(engine: Arc<Engine>, bare: BareIds) -> Routes {
    let handlers = Arc::new(Handlers { engine, bare });
    macro_rules! service {
        ($server:path) => {
            <$server>::from_arc(Arc::clone(&handlers))
                .max_decoding_message_size(MESSAGE_BYTES)
                .accept_compressed(CompressionEncoding::Gzip)
        };
    }
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Tools read the details of errors through reflection too.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = reflection().build_v1().expect("descriptors that were compiled in");
    let v1alpha = reflection().build_v1alpha().expect("descriptors that were compiled in");
    Routes::new(service!(sessions::SessionServiceServer<_>))
        .add_service(service!(events::EventServiceServer<_>))
        .add_service(service!(states::StateServiceServer<_>))
        .add_service(service!(watches::WatchServiceServer<_>))
        .add_service(service!(admin::AdminServiceServer<_>))
        .add_service(v1.max_decoding_message_size(OPEN_REQUEST_BYTES))
        .add_service(v1alpha.max_decoding_message_size(OPEN_REQUEST_BYTES))
        .prepare()
}

/// The path of every method, with its kind.
#[expect(clippy::expect_used, reason = "descriptors are compiled in, and every test reads them")]
pub fn methods() -> Vec<(String, MethodKind)> {
    let sets = [
        DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut methods = Vec::new();
    for set in sets {
        let pool = DescriptorPool::decode(set).expect("descriptors that were compiled in");
        for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            let streams = method.is_client_streaming() || method.is_server_streaming();
            methods.push((path, if streams { MethodKind::Streaming } else { MethodKind::Unary }));
        }
    }
    methods
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
    fn methods_have_their_paths() {
        let methods = methods();
        let kind = |path: &str| methods.iter().find(|(it, _)| it == path).map(|(_, kind)| *kind);
        assert_eq!(kind("/sessiond.v1.EventService/AppendEvent"), Some(MethodKind::Unary));
        assert_eq!(
            kind("/sessiond.v1.EventService/AppendEventStream"),
            Some(MethodKind::Streaming)
        );
        assert_eq!(kind("/sessiond.v1.WatchService/Watch"), Some(MethodKind::Streaming));
        assert_eq!(kind("/grpc.health.v1.Health/Check"), Some(MethodKind::Unary));
    }
}
