//! The checked-in stubs match the contract.

use std::fs;

use sessiond_adk_stubs::{STUBS, generate, stubs_folder};

#[test]
fn the_stubs_match_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path()).unwrap();
    let wanted = fs::read_to_string(folder.path().join(STUBS)).unwrap();
    let present = fs::read_to_string(stubs_folder().join(STUBS)).unwrap_or_default();
    assert!(present == wanted, "The stubs are outdated. Run clients/rust/generate.");
}

#[test]
fn the_folder_holds_nothing_else() {
    let names: Vec<_> =
        fs::read_dir(stubs_folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [STUBS]);
}
