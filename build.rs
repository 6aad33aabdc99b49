//! Compiles the wire contract in `proto/` into Rust, without `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

/// Every file of the contract, relative to `proto/`.
const FILES: [&str; 6] = [
    "sessiond/v1/types.proto",
    "sessiond/v1/session_service.proto",
    "sessiond/v1/event_service.proto",
    "sessiond/v1/state_service.proto",
    "sessiond/v1/watch_service.proto",
    "sessiond/v1/admin_service.proto",
];

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "cargo speaks with a build script through its environment and its output"
)]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Reflection serves these bytes; they keep the comments of the contract.
    fs::write(out.join("sessiond_descriptor.bin"), prost_encode(&descriptors))?;
    let mut config = tonic_prost_build::Config::new();
    // The command line finds a message's descriptor by its name.
    config.enable_type_names();
    tonic_prost_build::configure()
        .build_transport(true)
        .codec_path("crate::proto::codec::BoundedCodec")
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}

fn prost_encode(descriptors: &impl prost::Message) -> Vec<u8> {
    descriptors.encode_to_vec()
}
