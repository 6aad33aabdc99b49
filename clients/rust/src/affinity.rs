//! A hint that load balancers can hash to keep the calls of a user on one replica. The server does not read it.

use sha2::{Digest, Sha256};
use tonic::metadata::AsciiMetadataValue;
use tonic_health::pb::HealthCheckRequest;

use crate::proto::v1::{
    AppendEventRequest, BatchGetEventsRequest, CreateSessionRequest, DeleteSessionRequest,
    EndInvocationRequest, ForkSessionRequest, GetSessionRequest, GetStateRequest,
    ListEventsRequest, ListSessionsRequest, RewindSessionRequest, UpdateSessionRequest,
    UpdateStateRequest, WatchRequest,
};

/// The hint of a call that concerns an owner.
pub(crate) fn affinity((app_name, user_id): (&str, &str)) -> Option<AsciiMetadataValue> {
    let hash = Sha256::digest(format!("{app_name}\0{user_id}"));
    format!("{:016x}", u64::from_be_bytes(*hash.first_chunk()?)).parse().ok()
}

/// A request that may concern an application or one of its users.
pub(crate) trait Owned {
    /// The names of the application and of the user, which is empty in a request that concerns all of them.
    fn owner(&self) -> Option<(&str, &str)>;
}

macro_rules! owned {
    ($part:ident: $($request:ty),+) => {$(
        impl Owned for $request {
            fn owner(&self) -> Option<(&str, &str)> {
                self.$part.as_ref().map(|part| (&*part.app_name, &*part.user_id))
            }
        }
    )+};
}

owned!(key: AppendEventRequest, DeleteSessionRequest, EndInvocationRequest, ForkSessionRequest);
owned!(key: GetSessionRequest, ListEventsRequest, RewindSessionRequest, UpdateSessionRequest);
owned!(key: BatchGetEventsRequest);
owned!(scope: GetStateRequest, UpdateStateRequest, WatchRequest);

impl Owned for CreateSessionRequest {
    fn owner(&self) -> Option<(&str, &str)> {
        Some((&self.app_name, &self.user_id))
    }
}

impl Owned for ListSessionsRequest {
    fn owner(&self) -> Option<(&str, &str)> {
        Some((&self.app_name, &self.user_id))
    }
}

impl Owned for HealthCheckRequest {
    fn owner(&self) -> Option<(&str, &str)> {
        None
    }
}
