//! The [Connect protocol](https://connectrpc.com/docs/protocol/) over any gRPC service: unary calls by POST in JSON and binary, reads by GET,
//! and server streams.
//!
//! [`Connect`] stands in front of a service of gRPC. It turns a request into the one that a gRPC client would send, and the
//! answer back, so that everything between (authentication, limits, logs, deadlines) stands in one place. Messages are converted by
//! their descriptors.

mod answer;
mod call;
mod codec;
mod error;
mod frames;
mod from_json;
mod openapi;
mod request;
mod service;
mod to_json;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use prost::bytes::Bytes;
use prost_reflect::DescriptorPool;
use tonic::Status;

pub use answer::plain;
pub use call::Call;
pub use openapi::{Title, openapi};
pub use service::Connect;

/// What a server sets.
#[derive(Clone)]
pub struct Options {
    /// Describes the services, and the details of their errors.
    pub pool: DescriptorPool,
    /// Bytes of a request's message, before and after it is decompressed.
    pub message_bytes: usize,
    /// The status of a request that is refused here: its code, what is wrong, and what to do.
    pub refusal: fn(Refused) -> Status,
}

/// Why a request is refused before the service sees it.
pub enum Refused {
    /// It is not a message of its type. What is wrong, and what to do.
    Invalid(String, &'static str),
    /// It has no message, or several.
    NotOne,
    /// Its message is compressed, and its headers do not say so.
    Flags,
    TooLarge,
    /// The client streams, which a browser cannot.
    ClientStreams,
    /// The deadline of a stream has passed.
    Deadline,
    /// Its compression is not known.
    Compression,
}

/// Charges what a call buffers here. The service gets one with each request, as an extension, and sets what it charges.
#[derive(Clone, Default)]
pub struct Meter(Arc<MeterState>);

#[derive(Default)]
struct MeterState {
    charge: OnceLock<Arc<dyn Charge>>,
    is_refused: AtomicBool,
}

/// An account of bytes.
pub trait Charge: Send + Sync {
    /// Charges bytes of a request. Errors: the status of a full account.
    fn take(&self, bytes: usize) -> Result<(), Status>;

    fn give_back(&self, bytes: usize);

    /// Charges bytes of an answer until what it returns is dropped.
    fn unread(&self, bytes: usize) -> Box<dyn Send + Sync>;
}

impl Meter {
    pub fn set(&self, charge: Arc<dyn Charge>) {
        // The first one stays.
        let _ = self.0.charge.set(charge);
    }

    /// The call is refused: what is left of its request is read and kept nowhere.
    pub fn refuse(&self) {
        self.0.is_refused.store(true, Relaxed);
    }

    pub fn is_refused(&self) -> bool {
        self.0.is_refused.load(Relaxed)
    }

    fn get(&self) -> Option<&Arc<dyn Charge>> {
        self.0.charge.get()
    }
}

/// What a request charged. It is given back at the end.
struct Charged {
    meter: Meter,
    bytes: usize,
}

impl Charged {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        if let Some(charge) = self.meter.get() {
            charge.take(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Makes up to `most` bytes, which are charged before.
    fn making(
        &mut self,
        most: usize,
        options: &Options,
        make: impl FnOnce() -> Result<Vec<u8>, Refused>,
    ) -> Result<Bytes, Status> {
        self.take(most)?;
        let mut made = make().map_err(options.refusal)?;
        made.shrink_to_fit();
        self.give_back(most - made.len().min(most));
        Ok(made.into())
    }

    fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if let Some(charge) = self.meter.get() {
            charge.give_back(bytes);
            self.bytes -= bytes;
        }
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}
