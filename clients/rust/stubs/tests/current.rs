//! The stubs that are checked in are those of the contract beside them.

use std::fs;

use sessiond_adk_stubs::{STUBS, generate, home};

#[test]
fn the_stubs_are_those_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path()).unwrap();
    let wanted = fs::read_to_string(folder.path().join(STUBS)).unwrap();
    let present = fs::read_to_string(home().join(STUBS)).unwrap_or_default();
    assert!(present == wanted, "the stubs are older than the contract: run clients/rust/generate");
}

#[test]
fn nothing_else_lies_beside_them() {
    let names: Vec<_> =
        fs::read_dir(home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [STUBS]);
}
