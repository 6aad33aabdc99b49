//! The wire contract, generated from `proto/` by `build.rs`.
#![allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    rustdoc::all,
    reason = "generated code; its documentation is the contract's own"
)]

/// `sessiond.v1`.
pub mod v1 {
    tonic::include_proto!("sessiond.v1");
}

/// The encoded `FileDescriptorSet` of the contract, for reflection.
pub const DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/sessiond_descriptor.bin"));

/// The code as gRPC spells it: `NOT_FOUND`, not `NotFound`.
pub fn code_name(code: tonic::Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}
