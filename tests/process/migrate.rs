//! `sessiond migrate`: what it would do, and that it does it, on a file and on a database.

use std::{
    fs,
    process::{Command, Output},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::{Database, shared_server},
    harness::{Server, file_in, program},
};

fn migrate(store: &str, more: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(["migrate", "--store", store]).args(more).env_remove("SESSIOND_STORE");
    command.output().unwrap()
}

#[track_caller]
fn says(store: &str, more: &[&str]) -> Value {
    let output = migrate(store, more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_new_database_gets_its_tables_and_no_step_twice() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let steps = json!(["create the tables"]);
    for _ in 0..2 {
        let tried = says(&database.url, &["--dry-run"]);
        assert_eq!(tried, json!({"dry_run": true, "steps": steps}));
    }
    assert_eq!(says(&database.url, &[]), json!({"dry_run": false, "steps": steps}));
    assert_eq!(says(&database.url, &["--dry-run"]), json!({"dry_run": true, "steps": []}));
    assert!(Server::start_on(&database.url, &[]).stop().status.success());
}

#[test]
fn the_number_of_partitions_is_that_of_the_first_migration() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let migrate = |number| migrate(&database.url, &["--postgres-partitions", number]);
    assert_eq!(migrate("48").status.code(), Some(2), "48 does not divide the places");
    assert!(migrate("4").status.success());
    let refused = migrate("8");
    let says = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{says}");
    assert!(says.contains("have 4 partitions instead of 8"), "{says}");
    assert!(Server::start_on(&database.url, &[]).stop().status.success());
}

#[test]
fn a_file_has_no_partitions() {
    let folder = TempDir::new().unwrap();
    let refused = migrate(&file_in(folder.path()), &["--postgres-partitions", "4"]);
    let says = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{says}");
    assert!(says.contains("Only a PostgreSQL database has partitions."), "{says}");
}

#[test]
fn a_file_of_this_version_needs_no_step() {
    let folder = TempDir::new().unwrap();
    let store = file_in(folder.path());
    assert!(Server::start_on(&store, &[]).stop().status.success());
    assert_eq!(says(&store, &["--dry-run"]), json!({"dry_run": true, "steps": []}));
    assert_eq!(says(&store, &[]), json!({"dry_run": false, "steps": []}));
}

/// No released version is older than this one, so there is no file yet that the program migrates. Steps are tested in the store.
#[test]
fn a_file_from_before_the_first_release_is_refused_and_stays() {
    let folder = TempDir::new().unwrap();
    let store = file_in(folder.path());
    let path = folder.path().join("test.db");
    let made = "PRAGMA application_id = 0x73657364; PRAGMA user_version = 8; CREATE TABLE t (x)";
    rusqlite::Connection::open(&path).unwrap().execute_batch(made).unwrap();
    let before = fs::read(&path).unwrap();
    let file = path.to_str().unwrap();
    for arguments in [
        &["serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", &store][..],
        &[
            "serve",
            "--http-listen",
            "off",
            "--verify",
            "--listen",
            "127.0.0.1:0",
            "--store",
            &store,
        ],
        &["migrate", "--dry-run", "--store", &store],
        &["migrate", "--store", &store],
        &["verify", file],
        &["compact", file],
    ] {
        let mut command = Command::new(program());
        let output = command.args(arguments).env_remove("SESSIOND_STORE").output().unwrap();
        let says = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {says}");
        let wanted = "has other tables than this sessiond: a build that was not released made it. \
            Export its sessions with that sessiond (`sessiond export`), and import them into a new file (`sessiond import`).";
        assert!(says.contains(wanted), "{arguments:?}: {says}");
        assert!(fs::read(&path).unwrap() == before, "{arguments:?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let folder = TempDir::new().unwrap();
    let store = file_in(folder.path());
    for more in [&["--dry-run"][..], &[]] {
        let output = migrate(&store, more);
        let says = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "there is nothing to migrate: {says}");
        let path = store.trim_start_matches("sqlite:");
        assert!(says.contains(&format!("there is no file '{path}'")), "{says}");
    }
}

#[test]
fn a_password_in_the_environment_is_printed_by_no_command() {
    for arguments in
        [&["serve", "--help"][..], &["migrate", "--help"], &["doctor", "--help"], &["doctor"]]
    {
        let mut command = Command::new(program());
        command.args(arguments).env("SESSIOND_STORE", "postgres://me:secret@127.0.0.1:1/none");
        let output = command.env("SESSIOND_SERVER", "127.0.0.1:1").output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).unwrap();
        assert!(printed.contains("store") && !printed.contains("secret"), "{printed}");
    }
}

#[test]
fn a_store_that_cannot_be_migrated_is_refused_without_its_password() {
    let nowhere = "postgres://me:secret@127.0.0.1:1/none?sslmode=wrong";
    let mistyped = "postgre://h/d?user=me&password=secret";
    for (store, wanted) in
        [(nowhere, "sslmode"), ("mysql://me:secret@h/d", "postgres://"), (mistyped, "'postgre:…'")]
    {
        let output = migrate(store, &[]);
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{says}");
        assert!(says.contains(wanted) && !says.contains("secret"), "{says}");
    }
}
