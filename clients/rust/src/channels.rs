//! The channels of a service: the first one has all calls and the first watches, each further one has watches only.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tonic::transport::{Channel, Endpoint};

/// A server allows 256 streams on a connection, and whatever is begun beyond them waits in silence until one ends. The rest is
/// for calls.
const WATCHES_PER_CHANNEL: usize = 200;

/// A channel counts its watches by the references to it, and closes with the last one.
#[derive(Debug)]
pub(crate) struct Channels {
    first: Arc<Channel>,
    /// Makes further channels, each with a connection of its own. None for a channel of the caller's.
    endpoint: Option<Endpoint>,
    further: Mutex<Vec<Weak<Channel>>>,
}

impl Channels {
    pub fn to(endpoint: Endpoint) -> Self {
        let first = Arc::new(endpoint.connect_lazy());
        Self { first, endpoint: Some(endpoint), further: Mutex::default() }
    }

    pub fn of_caller(channel: Channel) -> Self {
        Self { first: Arc::new(channel), endpoint: None, further: Mutex::default() }
    }

    pub fn first(&self) -> Channel {
        self.first.as_ref().clone()
    }

    /// The channel for one more watch, which holds it until it ends.
    pub fn for_watch(&self) -> Arc<Channel> {
        let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
        further.retain(|channel| channel.strong_count() > 0);
        // One reference to the first is ours.
        let Some(endpoint) =
            self.endpoint.as_ref().filter(|_| Arc::strong_count(&self.first) > WATCHES_PER_CHANNEL)
        else {
            return Arc::clone(&self.first);
        };
        let free = further.iter().find(|channel| channel.strong_count() < WATCHES_PER_CHANNEL);
        free.and_then(Weak::upgrade).unwrap_or_else(|| {
            let opened = Arc::new(endpoint.connect_lazy());
            further.push(Arc::downgrade(&opened));
            opened
        })
    }
}
