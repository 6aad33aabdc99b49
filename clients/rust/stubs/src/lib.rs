//! Generates the stubs of `sessiond-adk` from `proto/` at the root of the checkout, without `protoc`.
//!
//! A published crate cannot reach the contract, so the stubs are checked in. `tests/current.rs` fails if they are outdated.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

/// Relative to [`contract`].
const FILES: [&str; 6] = [
    "sessiond/v1/types.proto",
    "sessiond/v1/session_service.proto",
    "sessiond/v1/event_service.proto",
    "sessiond/v1/state_service.proto",
    "sessiond/v1/watch_service.proto",
    "sessiond/v1/admin_service.proto",
];

/// The generated file, named after the package of the contract.
pub const STUBS: &str = "sessiond.v1.rs";

pub fn contract() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../proto")
}

/// The folder of the checked-in stubs.
pub fn stubs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/proto")
}

/// Writes [`STUBS`] into `folder`: messages and clients without servers.
///
/// # Errors
///
/// A contract that does not compile, or a folder that cannot be written.
pub fn generate(folder: &Path) -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(FILES, [contract()])?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .out_dir(folder)
        .compile_fds(descriptors)?;
    let file = folder.join(STUBS);
    let code = fs::read_to_string(&file)?;
    fs::write(file, format!("//! Generated from `proto/` by `clients/rust/generate`.\n{code}"))?;
    Ok(())
}
