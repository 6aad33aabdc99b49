//! The methods of every service, as their descriptors name them.

use prost_reflect::DescriptorPool;

use crate::{metrics::MethodKind, proto::DESCRIPTOR_SET};

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

#[test]
fn methods_have_their_paths() {
    let methods = methods();
    let kind = |path: &str| methods.iter().find(|(it, _)| it == path).map(|(_, kind)| *kind);
    assert_eq!(kind("/sessiond.v1.EventService/AppendEvent"), Some(MethodKind::Unary));
    assert_eq!(kind("/sessiond.v1.EventService/AppendEventStream"), Some(MethodKind::Streaming));
    assert_eq!(kind("/sessiond.v1.WatchService/Watch"), Some(MethodKind::Streaming));
    assert_eq!(kind("/grpc.health.v1.Health/Check"), Some(MethodKind::Unary));
}
