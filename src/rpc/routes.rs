//! Passes calls to their services.

use std::{convert::Infallible, sync::Arc};

use tonic::{
    body::Body,
    codec::CompressionEncoding,
    codegen::{BoxFuture, Service as _, http},
    service,
};

use super::{BareIds, Handlers};
use crate::{
    domain::limits::MESSAGE_BYTES,
    engine::Engine,
    proto::{
        DESCRIPTOR_SET,
        v1::{
            admin_service_server as admin, event_service_server as events,
            session_service_server as sessions, state_service_server as states,
            watch_service_server as watches,
        },
    },
};

/// Bytes of the requests of health and reflection, which nobody needs a credential for: the longest names.
pub const OPEN_REQUEST_BYTES: usize = 4096;

/// The services of the contract, as health names them.
pub const SERVICE_NAMES: [&str; 5] = [
    sessions::SERVICE_NAME,
    events::SERVICE_NAME,
    states::SERVICE_NAME,
    watches::SERVICE_NAME,
    admin::SERVICE_NAME,
];

/// Passes a call to the service that its path names.
pub type Routes = Box<dyn Fn(http::Request<Body>) -> Answer + Send + Sync>;

type Answer = BoxFuture<http::Response<Body>, Infallible>;

/// The services of the contract, and both versions of reflection, which also describes health. A router for paths of any form would add
/// 4 % to the instructions of a call outside of the store.
pub fn routes(engine: Arc<Engine>, bare: BareIds) -> Routes {
    let handlers = Arc::new(Handlers { engine, bare });
    macro_rules! service {
        ($server:path) => {
            <$server>::from_arc(Arc::clone(&handlers))
                .max_decoding_message_size(MESSAGE_BYTES)
                .accept_compressed(CompressionEncoding::Gzip)
        };
    }
    let sessions = service!(sessions::SessionServiceServer<_>);
    let events = service!(events::EventServiceServer<_>);
    let states = service!(states::StateServiceServer<_>);
    let watches = service!(watches::WatchServiceServer<_>);
    let admin = service!(admin::AdminServiceServer<_>);
    // It also answers calls of services that do not exist.
    let reflection = reflection();
    Box::new(move |request| match names(request.uri().path()).map_or("", |(service, _)| service) {
        sessions::SERVICE_NAME => sessions.clone().call(request),
        events::SERVICE_NAME => events.clone().call(request),
        states::SERVICE_NAME => states.clone().call(request),
        watches::SERVICE_NAME => watches.clone().call(request),
        admin::SERVICE_NAME => admin.clone().call(request),
        _ => Box::pin(reflection.clone().call(request)),
    })
}

/// The names of service and method in a path; `None` if it does not have the form `/SERVICE/METHOD`.
pub fn names(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('/')?.split_once('/')
}

#[expect(clippy::expect_used, reason = "descriptors are compiled in, and every test reads them")]
fn reflection() -> service::Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Tools read the details of errors through reflection too.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = builder().build_v1().expect("descriptors that were compiled in");
    let v1alpha = builder().build_v1alpha().expect("descriptors that were compiled in");
    service::Routes::new(v1.max_decoding_message_size(OPEN_REQUEST_BYTES))
        .add_service(v1alpha.max_decoding_message_size(OPEN_REQUEST_BYTES))
        .prepare()
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
}
