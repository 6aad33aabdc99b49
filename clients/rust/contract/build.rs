//! Finds the tests of adk-session in the sources that cargo has unpacked, and names them as modules, so that they are compiled
//! from there and not from a copy.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The tests that every session service has to pass. The other published tests are about one backend each.
const PUBLISHED: [&str; 3] =
    ["session_contract_inmemory", "identity_isolation_tests", "inmemory_tests"];

/// The tests of adk-runner that make ADK's in-memory service. Its others bring a session service of their own, except
/// `sandbox_runner_tests`, of a feature that needs a container runtime, and one of `runner_tests`, a file that needs all of
/// adk-plugin and adk-skill.
const OF_THE_RUNNER: [&str; 1] = ["compaction_e2e_test"];

/// Published tests of which all but these fit. They are compiled without them.
const ALL_BUT: [(&str, &[&str]); 2] = [
    // Writes into the tables of ADK's store.
    ("sqlite_tests", &["test_sqlite_get_warns_and_skips_undecodable_event"]),
    // Expects a list with events and without shared state, as the in-memory service has it.
    ("encrypted_session_tests", &["list_returns_decrypted_state"]),
];

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
    let tests_of = |crate_name: &str| -> Result<PathBuf, Box<dyn Error>> {
        let upstream = packages.iter().find(|package| package["name"] == crate_name);
        let manifest = upstream.and_then(|package| package["manifest_path"].as_str());
        let manifest = manifest.ok_or_else(|| format!("no {crate_name}"))?;
        let tests = Path::new(manifest).parent().ok_or("no folder")?.join("tests");
        // A shared target directory may outlive the sources.
        println!("cargo:rerun-if-changed={}", tests.display());
        Ok(tests)
    };
    let (tests, runner) = (tests_of("adk-session")?, tests_of("adk-runner")?);
    let module = |folder: &Path, name: &str| {
        let file = folder.join(name).with_extension("rs");
        format!("{ALLOW}\n#[path = {:?}]\nmod {name};\n", file.display().to_string())
    };
    let modules = PUBLISHED.map(|name| module(&tests, name));
    let of_the_runner = OF_THE_RUNNER.map(|name| module(&runner, name)).concat();
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let mut modules = modules.concat() + &of_the_runner;
    for (name, excluded) in ALL_BUT {
        let mut text = fs::read_to_string(tests.join(name).with_extension("rs"))?;
        for test in excluded {
            text = without(&text, test).ok_or_else(|| format!("{name} has no test {test}"))?;
        }
        let file = out.join(name).with_extension("rs");
        fs::write(&file, text)?;
        modules += &format!("{ALLOW}\n#[path = {:?}]\nmod {name};\n", file.display().to_string());
    }
    fs::write(out.join("published.rs"), modules)?;
    Ok(())
}

/// The text without a test function.
fn without(text: &str, test: &str) -> Option<String> {
    let name = text.find(&format!("async fn {test}("))?;
    let start = text[..name].rfind("#[tokio::test]")?;
    let indent = start - text[..start].rfind('\n')? - 1;
    let end = format!("\n{}}}\n", " ".repeat(indent));
    let end = name + text[name..].find(&end)? + end.len();
    Some(format!("{}{}", &text[..start], &text[end..]))
}
