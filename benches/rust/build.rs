//! Generates the server stubs of the contract for the echo.

use std::error::Error;

const FILES: [&str; 3] = [
    "sessiond/v1/session_service.proto",
    "sessiond/v1/event_service.proto",
    "sessiond/v1/state_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let descriptors = protox::compile(FILES, ["../../proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        .generate_default_stubs(true)
        .compile_fds(descriptors)?;
    Ok(())
}
