//! The wire contract, generated from `proto/` by `build.rs`.
#![allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    rustdoc::all,
    reason = "generated code; its documentation is the contract's own"
)]

pub mod memory;

use prost_reflect::DescriptorPool;

/// `sessiond.v1`.
#[allow(clippy::too_many_lines, reason = "it is generated")]
pub mod v1 {
    tonic::include_proto!("sessiond.v1");
}

/// The encoded `FileDescriptorSet` of the contract, for reflection.
pub const DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/sessiond_descriptor.bin"));

/// Descriptors of the contract, with those of the details of errors.
#[expect(clippy::expect_used, reason = "descriptors are compiled in, and every test reads them")]
pub fn pool() -> DescriptorPool {
    let mut pool = DescriptorPool::decode(DESCRIPTOR_SET).expect("the contract's descriptors");
    pool.decode_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .expect("descriptors of google.rpc");
    pool
}

/// The code as gRPC spells it: `NOT_FOUND`, not `NotFound`.
pub const fn code_name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
