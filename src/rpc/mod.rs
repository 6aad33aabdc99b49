//! The services: each handler decodes its request, calls the engine and encodes the answer.
//!
//! Of the layers below [`crate::server`], only this one knows tonic and prost.

mod append_stream;
mod call;
pub mod convert;
mod methods;
mod prelude;
mod services;
pub mod status;

use std::sync::Arc;

use tonic::{codec::CompressionEncoding, service::Routes};

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
pub use convert::decode::BareIds;
pub use methods::methods;

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

/// The services of the contract, and both versions of reflection, which also describes health.
pub fn routes(engine: Arc<Engine>, bare: BareIds) -> Routes {
    let handlers = Arc::new(Handlers { engine, bare });
    macro_rules! service {
        ($server:path) => {
            <$server>::from_arc(Arc::clone(&handlers))
                .max_decoding_message_size(MESSAGE_BYTES)
                .accept_compressed(CompressionEncoding::Gzip)
        };
    }
    let routes = Routes::new(service!(sessions::SessionServiceServer<_>))
        .add_service(service!(events::EventServiceServer<_>))
        .add_service(service!(states::StateServiceServer<_>))
        .add_service(service!(watches::WatchServiceServer<_>))
        .add_service(service!(admin::AdminServiceServer<_>));
    with_reflection(routes)
}

#[expect(clippy::expect_used, reason = "descriptors are compiled in, and every test reads them")]
fn with_reflection(routes: Routes) -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Tools read the details of errors through reflection too.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    routes
        .add_service(
            builder()
                .build_v1()
                .expect("descriptors that were compiled in")
                .max_decoding_message_size(OPEN_REQUEST_BYTES),
        )
        .add_service(
            builder()
                .build_v1alpha()
                .expect("descriptors that were compiled in")
                .max_decoding_message_size(OPEN_REQUEST_BYTES),
        )
}

/// Handles the calls of every service.
#[derive(Clone)]
struct Handlers {
    engine: Arc<Engine>,
    bare: BareIds,
}

#[cfg(test)]
mod tests;
