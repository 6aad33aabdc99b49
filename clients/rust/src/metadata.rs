//! The metadata of a call: the token, the trace context of the caller, and the hint for load balancers.

use std::sync::Arc;

use tonic::{Request, metadata::AsciiMetadataValue};

use crate::credentials::TokenFile;

/// Adds metadata to requests. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallMetadata {
    token: Option<Arc<TokenFile>>,
}

impl CallMetadata {
    pub fn new(token: Option<TokenFile>) -> Self {
        Self { token: token.map(Arc::new) }
    }

    /// A request that is sent now.
    pub fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.header());
        }
        #[cfg(feature = "opentelemetry")]
        trace::inject(request.metadata_mut());
        request
    }

    /// The same, with the hint of its call.
    pub fn hinted<Q>(&self, message: Q, hint: Option<&AsciiMetadataValue>) -> Request<Q> {
        let mut request = self.request(message);
        if let Some(hint) = hint {
            request.metadata_mut().insert("sessiond-affinity", hint.clone());
        }
        request
    }
}

#[cfg(feature = "opentelemetry")]
mod trace {
    use opentelemetry::{global, propagation::Injector};
    use tonic::metadata::{MetadataKey, MetadataMap};

    use crate::observe::observe;

    /// Adds the current context, with the propagator that the application has set.
    pub fn inject(metadata: &mut MetadataMap) {
        observe(|| {
            global::get_text_map_propagator(|propagator| propagator.inject(&mut Carrier(metadata)));
        });
    }

    struct Carrier<'a>(&'a mut MetadataMap);

    impl Injector for Carrier<'_> {
        fn set(&mut self, key: &str, value: String) {
            // gRPC has no form for others, such as a binary key.
            if let (Ok(key), Ok(value)) = (MetadataKey::from_bytes(key.as_bytes()), value.parse())
                // The token, and what gRPC writes itself.
                && !self.0.contains_key(&key)
                && !key.as_str().starts_with("grpc-")
            {
                self.0.insert(key, value);
            }
        }
    }
}
