//! A process takes its credentials from the environment, as the `sessiond` command does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::Path,
    process::{Command, Stdio},
};

use sessiond_adk_testing::{Authority, Server, Store};
use tempfile::TempDir;

/// Runs a writer without writers. Whether it has connected to the server.
fn connects(address: &str, variables: &[(&str, &Path)]) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_writer"))
        .args([address, "w", "0", "0"])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.stdout.starts_with(b"ready")
}

#[test]
fn the_files_of_the_environment_are_used() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path());
    let (certificate, key) = authority.issue("server");
    let ca = authority.file.to_str().unwrap();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let flags = ["--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", ca];
    let server = Server::start_with(Store::Memory, &flags);
    let address = server.address().trim_start_matches("https://");
    // A port that speaks TLS only, tried once.
    let address = |scheme| format!("{scheme}://{address}?attempts=1");

    let (certificate, key) = authority.issue("agent");
    let all = [
        ("SESSIOND_TLS_CA", authority.file.as_path()),
        ("SESSIOND_CLIENT_TLS_CERT", &certificate),
        ("SESSIOND_CLIENT_TLS_KEY", &key),
    ];
    assert!(connects(&address("https"), &all));
    assert!(!connects(&address("https"), &all[..1]), "no certificate of the client");
    assert!(!connects(&address("https"), &all[..2]), "no key");
    assert!(!connects(&address("http"), &all), "files of TLS without TLS");
    let missing = folder.path().join("missing");
    let token = ("SESSIOND_TOKEN_FILE", missing.as_path());
    assert!(!connects(&address("https"), &[&all[..], &[token]].concat()), "no token");
}
