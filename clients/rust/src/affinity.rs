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

/// The hint of a call that sends `request`. None if it concerns no application.
pub(crate) fn affinity(request: &impl Owned) -> Option<AsciiMetadataValue> {
    let (app_name, user_id) = request.owner()?;
    let hash = Sha256::digest(format!("{app_name}\0{user_id}"));
    format!("{:016x}", u64::from_be_bytes(*hash.first_chunk()?)).parse().ok()
}

/// A request that may concern an application or one of its users.
pub(crate) trait Owned {
    /// The names of the application and of the user, which is empty in a request that concerns all of them.
    fn owner(&self) -> Option<(&str, &str)>;
}

/// The owner of a request is named by `$names`, an optional message.
macro_rules! owned {
    ($($request:ty),+: |$self:ident| $names:expr) => {$(
        impl Owned for $request {
            fn owner(&$self) -> Option<(&str, &str)> {
                $names.map(|names| (&*names.app_name, &*names.user_id))
            }
        }
    )+};
}

owned!(
    AppendEventRequest, BatchGetEventsRequest, DeleteSessionRequest, EndInvocationRequest,
    ForkSessionRequest, GetSessionRequest, ListEventsRequest, RewindSessionRequest,
    UpdateSessionRequest: |self| self.key.as_ref()
);
owned!(GetStateRequest, UpdateStateRequest, WatchRequest: |self| self.scope.as_ref());
owned!(CreateSessionRequest, ListSessionsRequest: |self| Some(self));

impl Owned for HealthCheckRequest {
    fn owner(&self) -> Option<(&str, &str)> {
        None
    }
}
