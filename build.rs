//! Compiles the wire contract in `proto/` into Rust, without `protoc`.

use std::{env, error::Error, fs, path::PathBuf, process::Command};

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
    println!("cargo:rustc-env=COMMIT_SUFFIX={}", commit()?.unwrap_or_default());
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Reflection serves these bytes; they keep the comments of the contract.
    fs::write(out.join("sessiond_descriptor.bin"), prost_encode(&descriptors))?;
    let mut config = tonic_prost_build::Config::new();
    // The command line finds a message's descriptor by its name.
    config.enable_type_names();
    tonic_prost_build::configure()
        .build_transport(true)
        .codec_path("crate::rpc::codec::ContractCodec")
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}

/// The commit of the tree, ` (0123456789ab)`, in a release build within its repository. Equal trees make equal programs: nothing here
/// depends on the time or the place. Other builds have none, because each commit would build them anew.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "cargo speaks with a build script through its environment and its output"
)]
fn commit() -> Result<Option<String>, Box<dyn Error>> {
    let root = fs::canonicalize(env::var("CARGO_MANIFEST_DIR")?)?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(&root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // A package within another repository is not of that one's commit.
    let is_own = || {
        git(&["rev-parse", "--show-toplevel"]).is_some_and(|top| root.as_os_str() == top.as_str())
    };
    if env::var("PROFILE")? != "release" || !is_own() {
        return Ok(None);
    }
    for file in ["HEAD", "logs/HEAD"] {
        // One that is missing would build anew each time.
        if let Some(path) = git(&["rev-parse", "--git-path", file])
            && root.join(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    Ok(git(&["rev-parse", "--short=12", "HEAD"]).map(|commit| format!(" ({commit})")))
}

fn prost_encode(descriptors: &impl prost::Message) -> Vec<u8> {
    descriptors.encode_to_vec()
}
