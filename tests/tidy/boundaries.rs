//! Each driver and the wire stay in their folders, and the domain is pure.

use crate::{
    Violation,
    source::{Source, Token},
};

/// Prefixes of names, and the only folders (or files of that name) where they may appear.
struct Boundary {
    words: &'static [&'static str],
    folders: &'static [&'static str],
    says: &'static str,
}

const BOUNDARIES: [Boundary; 5] = [
    Boundary {
        words: &["rusqlite", "libsqlite3_sys"],
        folders: &["src/store/sqlite"],
        says: "SQLite's driver stays in src/store/sqlite",
    },
    Boundary {
        words: &["tokio_postgres", "postgres_", "deadpool"],
        folders: &["src/store/postgres"],
        says: "PostgreSQL's driver stays in src/store/postgres",
    },
    Boundary {
        words: &["tonic", "prost", "hyper", "tower"],
        folders: &["src/rpc", "src/server", "src/proto", "src/cli", "src/main"],
        says: "the wire stays in rpc, server, proto and cli",
    },
    Boundary {
        words: &["prometheus"],
        folders: &["src/metrics"],
        says: "the exporter stays in src/metrics",
    },
    Boundary {
        words: &["indicatif"],
        folders: &["src/cli"],
        says: "progress bars stay in src/cli; report progress to an observer",
    },
];

/// Names that make code impure, by kind.
const IMPURE: [(&[&str], &str); 4] = [
    (
        &["async", "await", "async_trait", "tokio", "tokio_stream", "futures"],
        "the domain does not wait",
    ),
    (
        &["SystemTime", "Instant", "UNIX_EPOCH", "elapsed"],
        "the domain reads no clock; times come in as values",
    ),
    (
        &["rand", "getrandom", "fastrand", "RandomState", "uuid", "Uuid"],
        "the domain has no randomness; ids come in as values",
    ),
    (&["fs", "env", "net", "process", "thread"], "the domain does not use the machine"),
];

fn lies_in(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn violation(source: &Source, token: &Token, says: &str) -> Violation {
    Violation::new(&source.path, token.line, format!("`{}`: {says}", token.text))
}

/// Drivers and the wire outside of their folders.
pub fn drivers(source: &Source) -> Vec<Violation> {
    let path = &source.path;
    if !path.starts_with("src/") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for boundary in
        BOUNDARIES.iter().filter(|it| !it.folders.iter().any(|folder| lies_in(path, folder)))
    {
        let named = |word: &str| boundary.words.iter().any(|prefix| word.starts_with(prefix));
        let words =
            source.idents().filter(|(at, token)| named(&token.text) && is_crate(source, *at));
        found.extend(words.map(|(_, token)| violation(source, token, boundary.says)));
    }
    found
}

/// Whether the word at `at` stands where a crate's name does, rather than for a variable or a field.
fn is_crate(source: &Source, at: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |before| source.text(before));
    source.text(at + 1) == "::" || matches!(before, "use" | "crate")
}

/// Impure names in the domain.
pub fn impurities(source: &Source) -> Vec<Violation> {
    if !lies_in(&source.path, "src/domain") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, token) in source.idents() {
        for (words, says) in IMPURE {
            // `fs`, `env` and their like are the standard library's only as its modules.
            let counts = words[0] != "fs" || of_std(source, at);
            if words.contains(&&*token.text) && counts {
                found.push(violation(source, token, says));
            }
        }
    }
    found
}

/// Whether the word at `at` is a module directly below `std`, alone or in a `use` group.
fn of_std(source: &Source, at: usize) -> bool {
    if at >= 2 && source.text(at - 1) == "::" {
        return source.text(at - 2) == "std";
    }
    let groups = source.tokens.iter().enumerate().take(at).filter(|(_, token)| token.text == "{");
    let around = groups.filter(|(_, open)| open.mate > at).map(|(open, _)| open).next_back();
    around.is_some_and(|open| {
        open >= 2 && source.text(open - 1) == "::" && source.text(open - 2) == "std"
    })
}

#[test]
fn drivers_elsewhere_are_seen() {
    for (path, text) in [
        ("src/store/mod.rs", "use rusqlite::Connection;"),
        ("src/store/sqlite_too/mod.rs", "use rusqlite::Connection;"),
        ("src/store/postgres/mod.rs", "fn f(_: rusqlite::Error) {}"),
        ("src/engine/mod.rs", "use tokio_postgres::Client;"),
        ("src/engine/mod.rs", "use tonic::Status;"),
        ("src/domain/error.rs", "impl From<X> for ::tonic_types::Y {}"),
        ("src/store/mod.rs", "#[derive(prost::Message)] struct X;"),
        ("src/config.rs", "use {std::fs, tonic::transport};"),
        ("src/lib.rs", "extern crate prost as p;"),
    ] {
        assert_eq!(drivers(&Source::parse(path, text)).len(), 1, "{path}: {text}");
    }
}

#[test]
fn drivers_pass_in_their_folders() {
    for (path, text) in [
        ("src/store/sqlite/writer.rs", "use rusqlite::Connection;"),
        ("src/store/sqlite.rs", "use rusqlite::Connection;"),
        ("src/rpc/convert.rs", "use prost_types::Struct; use tonic::Status;"),
        ("src/server.rs", "use tonic::transport::Server;"),
        (
            "src/store/mod.rs",
            "// rusqlite::Connection\nconst X: &str = \"rusqlite::\"; let tower = prostrate;",
        ),
        ("tests/e2e.rs", "use tonic::Status;"),
    ] {
        assert_eq!(drivers(&Source::parse(path, text)), [], "{path}: {text}");
    }
}

#[test]
fn impurities_are_seen() {
    for text in [
        "async fn f() {}",
        "use tokio::sync::Mutex;",
        "use std::time::SystemTime;",
        "use std::{time::Instant};",
        "fn f() { std::env::var(x) }",
        "use std::{fmt, fs};",
        "use uuid::Timestamp;",
        "fn f() { rand::random() }",
    ] {
        assert_eq!(impurities(&Source::parse("src/domain/id.rs", text)).len(), 1, "{text}");
    }
}

#[test]
fn pure_code_passes() {
    let text = "use std::{fmt, time::Duration}; fn f(now: Time, env: Scope) -> X { let fs = g(env); h { fs } } // async";
    assert_eq!(impurities(&Source::parse("src/domain/id.rs", text)), []);
    assert_eq!(impurities(&Source::parse("src/engine/mod.rs", "use std::time::SystemTime;")), []);
}
