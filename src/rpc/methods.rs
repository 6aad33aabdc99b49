//! The methods of every service, as their descriptors name them.

use prost::Message as _;
use prost_types::FileDescriptorSet;

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
        let set = FileDescriptorSet::decode(set).expect("descriptors that were compiled in");
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let streams = method.client_streaming() || method.server_streaming();
                    let kind = if streams { MethodKind::Streaming } else { MethodKind::Unary };
                    methods.push((path, kind));
                }
            }
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
