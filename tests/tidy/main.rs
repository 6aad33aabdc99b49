//! Reads the tracked files and fails where they leave the conventions of the house.
//!
//! Every check is a function from a file's path and text to what is wrong in it. Below each one stand snippets that
//! it must find fault with and snippets that it must let pass.

mod attributes;
mod habits;
mod layers;
mod rooms;
mod shape;
mod source;
mod words;

use std::{fmt, fs, path::Path, process::Command};

use source::Source;

/// One thing that is wrong, at a line counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    path: String,
    line: usize,
    says: String,
}

impl Violation {
    fn new(path: &str, line: usize, says: impl Into<String>) -> Self {
        Self { path: path.into(), line, says: says.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.says)
    }
}

/// The tracked files, and those that would be tracked with the next commit, with their text. What is no text is left out.
fn files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listing = Command::new("git")
        // The checkout may belong to another user, as in containers.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"])
        .args(["--exclude-standard"])
        .current_dir(root)
        .output()
        .unwrap_or_else(|error| panic!("git lists the files to check: {error}"));
    assert!(listing.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listing.stderr));
    let files: Vec<_> = String::from_utf8_lossy(&listing.stdout)
        .split_terminator('\0')
        .filter_map(|path| Some((path.to_owned(), fs::read_to_string(root.join(path)).ok()?)))
        .collect();
    for known in ["src/lib.rs", "tests/tidy/main.rs", "tests/run", "Cargo.toml"] {
        assert!(files.iter().any(|(path, _)| path == known), "the listing lacks {known}");
    }
    files
}

/// The tracked Rust files, read.
fn sources() -> Vec<Source> {
    files()
        .into_iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| Source::parse(&path, &text))
        .collect()
}

#[track_caller]
fn assert_none(violations: impl IntoIterator<Item = Violation>) {
    let lines: Vec<_> = violations.into_iter().map(|found| found.to_string()).collect();
    assert!(lines.is_empty(), "{} found:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn dependencies_point_down() {
    assert_none(sources().iter().flat_map(layers::arrows));
}

#[test]
fn drivers_and_the_wire_stay_in_their_rooms() {
    assert_none(sources().iter().flat_map(rooms::strangers));
}

#[test]
fn the_domain_is_pure() {
    assert_none(sources().iter().flat_map(rooms::impurities));
}

#[test]
fn files_read_like_a_page() {
    assert_none(
        files()
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .flat_map(|(path, text)| shape::shape(path, text)),
    );
}

#[test]
fn nothing_unwraps_without_a_reason() {
    assert_none(sources().iter().flat_map(habits::unwraps));
}

#[test]
fn attributes_have_reasons_and_no_test_is_ignored() {
    assert_none(sources().iter().flat_map(attributes::attributes));
}

#[test]
fn nothing_is_unfinished() {
    let code = sources();
    let code = code.iter().flat_map(habits::unfinished);
    let files = files();
    let notes = files.iter().flat_map(|(path, text)| words::promises(path, text));
    assert_none(code.chain(notes));
}

#[test]
fn no_test_hopes_by_sleeping() {
    let sources = sources();
    let sleeps = sources.iter().flat_map(habits::sleeps);
    assert_none(sleeps.chain(habits::second_polls(&sources)));
}

#[test]
fn no_registry_is_named() {
    assert_none(files().iter().flat_map(|(path, text)| words::registries(path, text)));
}

#[test]
fn no_path_of_a_machine_is_named() {
    assert_none(files().iter().flat_map(|(path, text)| words::machines(path, text)));
}
