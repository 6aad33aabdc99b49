//! Dependencies point down: main, server, rpc, engine, store, domain.

use crate::{
    Violation,
    source::{Kind, Source},
};

/// Each part of `src/` with the parts that it may name.
const KNOWS: [(&str, &[&str]); 10] = [
    ("main", &["server", "rpc", "engine", "store", "domain", "cli", "config", "telemetry"]),
    ("server", &["rpc", "engine", "store", "domain", "proto", "config", "telemetry"]),
    ("rpc", &["engine", "store", "domain", "proto"]),
    ("engine", &["store", "domain"]),
    ("store", &["domain"]),
    ("domain", &[]),
    // The client sees of the server what every client sees.
    ("cli", &["proto"]),
    ("config", &["domain"]),
    ("telemetry", &["config"]),
    ("proto", &[]),
];

fn knows(room: &str) -> Option<&'static [&'static str]> {
    KNOWS.iter().find(|(name, _)| *name == room).map(|(_, known)| *known)
}

/// Names of other layers that `source` has no business with.
pub fn arrows(source: &Source) -> Vec<Violation> {
    let Some(inside) = source.path.strip_prefix("src/") else {
        return Vec::new();
    };
    let room = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    // The root declares the parts and its documentation links to all of them.
    if room == "lib" {
        return Vec::new();
    }
    let violation = |line, says: String| Violation::new(&source.path, line, says);
    let Some(known) = knows(room) else {
        return vec![violation(
            1,
            format!("src/{room} is no layer that tests/tidy/layers.rs knows"),
        )];
    };
    let mut found = Vec::new();
    for attribute in source.attributes() {
        if source.text(attribute.inside.start) == "path" {
            found.push(violation(
                attribute.line,
                "a module lies where its name says, without #[path]".into(),
            ));
        }
    }
    for path in paths(source, room) {
        let line = path.line;
        match path.target.first().map(String::as_str) {
            None | Some("*" | "self") => {
                found.push(violation(
                    line,
                    "the root of the crate hides which layer is meant; name it".into(),
                ));
            }
            Some(target) if target == room || known.contains(&target) => {}
            Some(target) if knows(target).is_none() => {
                found.push(violation(
                    line,
                    format!("crate::{target} is no layer that tests/tidy/layers.rs knows"),
                ));
            }
            Some(target) => found.push(violation(line, format!("{room} must not know {target}"))),
        }
    }
    found
}

/// A path into the crate, from its root.
struct CratePath {
    line: usize,
    target: Vec<String>,
}

/// Every path of `source` that begins with `crate`, `sessiond`, `self` or `super`.
fn paths(source: &Source, room: &str) -> Vec<CratePath> {
    let modules = inline_modules(source);
    let mut found = Vec::new();
    for (at, token) in source.idents() {
        let head = token.text.as_str();
        let qualified =
            at > 0 && source.text(at - 1) == "::" && (at > 1 && source.is_ident(at - 2));
        let goes_on = source.text(at + 1) == "::" || (at > 0 && source.text(at - 1) == "use");
        if !matches!(head, "crate" | "sessiond" | "self" | "super") || qualified || !goes_on {
            continue;
        }
        // The program is a crate of its own beside the library, and its one file.
        if room == "main" && head != "sessiond" {
            continue;
        }
        let mut base = module_of(&source.path);
        base.extend(
            modules.iter().filter(|(_, range)| range.contains(&at)).map(|(name, _)| name.clone()),
        );
        for segments in tree(source, at) {
            let mut target = base.clone();
            for segment in segments {
                match segment.as_str() {
                    "crate" | "sessiond" if target == base => target.clear(),
                    "self" => {}
                    "super" => drop(target.pop()),
                    _ => target.push(segment),
                }
            }
            found.push(CratePath { line: token.line, target });
        }
    }
    found
}

/// The paths of the `use` tree, or the one path, that begins at `at`.
fn tree(source: &Source, mut at: usize) -> Vec<Vec<String>> {
    let mut path = vec![source.text(at).to_owned()];
    while source.text(at + 1) == "::" {
        at += 2;
        match source.tokens.get(at) {
            Some(token) if token.kind == Kind::Ident => path.push(token.text.clone()),
            Some(token) if token.text == "*" => path.push("*".into()),
            Some(token) if token.text == "{" => {
                let mut found = Vec::new();
                let mut next = at + 1;
                while next < token.mate {
                    let branches = tree(source, next).into_iter();
                    found.extend(branches.map(|branch| [path.clone(), branch].concat()));
                    while next < token.mate && source.text(next) != "," {
                        next =
                            if source.text(next) == "{" { source.tokens[next].mate } else { next }
                                + 1;
                    }
                    next += 1;
                }
                return found;
            }
            _ => break,
        }
    }
    vec![path]
}

/// The module that a file is, as its path from the root of the crate.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs");
    path.split('/').filter(|part| *part != "mod").map(Into::into).collect()
}

fn inline_modules(source: &Source) -> Vec<(String, std::ops::Range<usize>)> {
    let heads =
        source.idents().filter(|(at, token)| token.text == "mod" && source.text(at + 2) == "{");
    heads
        .map(|(at, _)| (source.text(at + 1).to_owned(), at + 2..source.tokens[at + 2].mate))
        .collect()
}

#[test]
fn arrows_to_the_left_are_seen_however_they_are_written() {
    for (path, text) in [
        ("src/engine/mod.rs", "use crate::rpc::Status;"),
        ("src/engine/mod.rs", "use crate::{domain::Key, server};"),
        ("src/engine/mod.rs", "use {crate::{store::{self, Store}, rpc::{self}}};"),
        ("src/engine/watch.rs", "use super::super::rpc as domain;"),
        ("src/engine.rs", "use super::rpc;"),
        ("src/engine.rs", "fn f() { self::super::server::run() }"),
        ("src/engine.rs", "mod tests { use super::super::rpc; }"),
        (
            "src/engine/watch.rs",
            "mod tests { mod deep { fn f(_: super::super::super::super::rpc::X) {} } }",
        ),
        ("src/engine.rs", "fn f() { assert!(crate::rpc::ok()) }"),
        ("src/engine.rs", "macro_rules! m { () => { $crate::rpc::f() } }"),
        ("src/store/sqlite/mod.rs", "use crate::engine;"),
        ("src/domain/id.rs", "impl From<crate::store::Error> for X {}"),
        ("src/cli/mod.rs", "use crate::engine::Engine;"),
        ("src/cli/mod.rs", "use crate::domain::limits;"),
        ("src/rpc/mod.rs", "use crate::config::Config;"),
        ("src/main.rs", "use sessiond::proto::v1;"),
        ("src/main.rs", "use sessiond as domain;"),
        ("src/engine.rs", "use crate::*;"),
        ("src/engine.rs", "use super::*;"),
        ("src/engine.rs", "use crate as domain;"),
        ("src/engine.rs", "use crate::{self as all};"),
        ("src/engine.rs", "use crate::Everything;"),
        ("src/engine.rs", "#[path = \"rpc/mod.rs\"] mod domain;"),
        ("src/helpers.rs", ""),
    ] {
        assert_eq!(arrows(&Source::parse(path, text)).len(), 1, "{path}: {text}");
    }
}

#[test]
fn arrows_to_the_right_are_free() {
    for (path, text) in [
        ("src/lib.rs", "pub mod rpc; pub use server::run;"),
        ("src/main.rs", "use sessiond::{cli, server}; mod x { use super::y; }"),
        ("src/server.rs", "use crate::{engine::Engine, proto::v1::*, rpc, store};"),
        (
            "src/rpc/mod.rs",
            "use crate::{engine, proto}; pub(crate) fn f() { crate::domain::g::<X>() }",
        ),
        (
            "src/engine/mod.rs",
            "use super::store; pub(in crate::engine) mod a { pub(super) fn b() {} }",
        ),
        (
            "src/engine/watch.rs",
            "use super::{Engine, invocations}; mod tests { use super::*; use super::super::X; }",
        ),
        (
            "src/engine.rs",
            "mod tests { use super::*; fn f(&self) { self.rpc(); Self::server(); x::crate_::rpc() } }",
        ),
        ("src/engine.rs", "// use crate::rpc;\nconst X: &str = \"crate::rpc::X\"; use rpc::y;"),
        ("src/cli/session.rs", "use super::client; use crate::{cli::output, proto::v1};"),
        ("tests/e2e.rs", "use sessiond::server; use crate::common;"),
    ] {
        assert_eq!(arrows(&Source::parse(path, text)), [], "{path}: {text}");
    }
}
