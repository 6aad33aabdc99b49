//! The wire: decodes requests, calls the engine, encodes answers. The only layer that knows tonic and prost.

mod append_stream;
mod call;
pub mod convert;
mod event;
mod session;
mod state;
pub mod status;
mod watch;

use std::sync::Arc;

use tonic::service::Routes;

use crate::{
    domain::limits::MESSAGE_BYTES,
    engine::Engine,
    proto::{
        DESCRIPTOR_SET,
        v1::{
            event_service_server::{self, EventServiceServer},
            session_service_server::{self, SessionServiceServer},
            state_service_server::{self, StateServiceServer},
            watch_service_server::{self, WatchServiceServer},
        },
    },
};
use convert::decode::BareIds;

/// Bytes that this service sends at most. Answers are cut to [`MESSAGE_BYTES`] by content; this only catches what should not happen,
/// and leaves room so that it never catches anything else.
const SENT_BYTES: usize = MESSAGE_BYTES + 64 * 1024;

/// Every service of the contract, by the name that health knows it by.
pub const SERVICE_NAMES: [&str; 4] = [
    session_service_server::SERVICE_NAME,
    event_service_server::SERVICE_NAME,
    state_service_server::SERVICE_NAME,
    watch_service_server::SERVICE_NAME,
];

/// What users decide about the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct RpcOptions {
    /// Refuse sessions that are named by their id alone.
    pub require_full_keys: bool,
}

/// Every service of the contract, and reflection of it and of health in both of its versions.
pub fn routes(engine: Arc<Engine>, options: RpcOptions) -> Routes {
    let RpcOptions { require_full_keys } = options;
    let bare = if require_full_keys { BareIds::Refused } else { BareIds::Allowed };
    let handlers = Arc::new(Handlers { engine, bare });
    macro_rules! service {
        ($server:ident) => {
            $server::from_arc(Arc::clone(&handlers))
                .max_decoding_message_size(MESSAGE_BYTES)
                .max_encoding_message_size(SENT_BYTES)
        };
    }
    let routes = Routes::new(service!(SessionServiceServer))
        .add_service(service!(EventServiceServer))
        .add_service(service!(StateServiceServer))
        .add_service(service!(WatchServiceServer));
    with_reflection(routes)
}

#[expect(
    clippy::expect_used,
    reason = "the descriptors are compiled in, and every test reads them"
)]
fn with_reflection(routes: Routes) -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Tools read the details of errors through reflection too.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    routes
        .add_service(builder().build_v1().expect("descriptors that were compiled in"))
        .add_service(builder().build_v1alpha().expect("descriptors that were compiled in"))
}

/// What handles the calls of every service.
struct Handlers {
    engine: Arc<Engine>,
    bare: BareIds,
}

#[cfg(test)]
mod tests;
