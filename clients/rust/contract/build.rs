//! Finds the tests of adk-session in the sources that cargo has unpacked, and names them as modules, so that they are compiled
//! from there and not from a copy.

use std::{env, error::Error, fs, path::Path, process::Command};

use serde_json::Value;

/// The tests that every session service has to pass. The other published tests are about one backend each.
const PUBLISHED: [&str; 3] =
    ["session_contract_inmemory", "identity_isolation_tests", "inmemory_tests"];

const ALLOW: &str = "#[allow(warnings, clippy::all, clippy::unwrap_used, clippy::expect_used, \
                     clippy::allow_attributes_without_reason, reason = \"published by ADK\")]";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../Cargo.lock");
    // Without a platform cargo wants the packages of every platform, and those of others have not been downloaded.
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", &env::var("TARGET")?, "--manifest-path"])
        .arg(Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let upstream = packages.iter().find(|package| package["name"] == "adk-session");
    let manifest =
        upstream.and_then(|package| package["manifest_path"].as_str()).ok_or("no adk-session")?;
    let tests = Path::new(manifest).parent().ok_or("no folder")?.join("tests");
    // A shared target directory may outlive the sources.
    println!("cargo:rerun-if-changed={}", tests.display());
    let modules = PUBLISHED.map(|name| {
        let file = tests.join(name).with_extension("rs");
        format!("{ALLOW}\n#[path = {:?}]\nmod {name};\n", file.display().to_string())
    });
    let out = Path::new(&env::var("OUT_DIR")?).join("published.rs");
    fs::write(out, modules.concat())?;
    Ok(())
}
