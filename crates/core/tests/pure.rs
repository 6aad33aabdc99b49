//! The crate stays pure: no async runtime, no input and output, no clock.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

/// Dependencies that compute only.
const PURE: [&str; 10] = [
    "base64",
    "futures-util",
    "hashbrown",
    "indexmap",
    "memchr",
    "ring",
    "serde",
    "serde_json",
    "unicode-ident",
    "xxhash-rust",
];

/// Modules and types of the standard library that reach outside.
const OUTSIDE: [&str; 7] =
    ["std::fs", "std::net", "std::env", "std::process", "std::thread", "Instant", "SystemTime"];

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push((path.display().to_string(), fs::read_to_string(&path).unwrap())),
        }
    }
}

#[test]
fn nothing_waits_or_reaches_outside() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap();
    let dependencies = dependencies.lines().take_while(|line| !line.starts_with('['));
    for line in dependencies.filter(|line| !line.is_empty()) {
        let name = line.split(['.', ' ']).next().unwrap();
        assert!(PURE.contains(&name), "{name} may wait or reach outside");
    }
    let mut found = Vec::new();
    sources(&root.join("src"), &mut found);
    assert!(found.len() > 30);
    for (path, text) in found {
        let outside = OUTSIDE.iter().find(|word| text.contains(*word));
        assert_eq!(outside, None, "{path}");
    }
}
