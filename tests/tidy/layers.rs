//! Dependencies point down: main, server, rpc, engine, store, commit, access, metrics, domain; and cli, domain.

use crate::{
    Violation,
    paths::{leaves, module_at, module_of},
    source::Source,
};

/// Each part of `src/` with the parts that it may name.
const KNOWS: [(&str, &[&str]); 17] = [
    (
        "main",
        &[
            "server", "rpc", "engine", "store", "commit", "access", "domain", "cli", "offline",
            "config", "logging",
        ],
    ),
    (
        "server",
        &[
            "rpc", "engine", "store", "commit", "access", "metrics", "domain", "proto", "config",
            "logging", "pem", "files",
        ],
    ),
    ("rpc", &["engine", "store", "commit", "access", "metrics", "domain", "proto"]),
    ("engine", &["store", "commit", "access", "metrics", "domain"]),
    ("store", &["read", "commit", "access", "metrics", "domain", "pem", "files"]),
    ("access", &["domain"]),
    ("metrics", &["domain"]),
    ("read", &["commit", "domain"]),
    ("commit", &["domain"]),
    ("domain", &[]),
    // The commands are a client; they check values by the domain's rules.
    ("cli", &["domain", "proto", "files"]),
    ("offline", &["cli", "engine", "store", "access", "domain", "config"]),
    ("config", &["store", "domain", "files"]),
    ("logging", &["config"]),
    ("proto", &[]),
    ("pem", &[]),
    ("files", &[]),
];

fn knows(layer: &str) -> Option<&'static [&'static str]> {
    KNOWS.iter().find(|(name, _)| *name == layer).map(|(_, known)| *known)
}

/// Dependencies of `source` on layers that it must not know.
pub fn arrows(source: &Source) -> Vec<Violation> {
    let Some(inside) = source.path.strip_prefix("src/") else {
        return Vec::new();
    };
    let layer = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    // The root declares the parts and its documentation links to all of them.
    if layer == "lib" {
        return Vec::new();
    }
    let violation = |line, says: String| Violation::new(&source.path, line, says);
    let Some(known) = knows(layer) else {
        return vec![violation(1, format!("src/{layer} is not a layer of tests/tidy/layers.rs"))];
    };
    let mut found = Vec::new();
    for attribute in source.attributes() {
        if source.text(attribute.inside.start) == "path" {
            found.push(violation(
                attribute.line,
                "remove #[path]: a module's file has its name".into(),
            ));
        }
    }
    for path in paths(source, layer) {
        let line = path.line;
        match path.target.first().map(String::as_str) {
            None | Some("*" | "self") => {
                found.push(violation(line, "name the layer instead of the crate's root".into()));
            }
            Some(target) if target == layer || known.contains(&target) => {}
            Some(target) if knows(target).is_none() => {
                found.push(violation(
                    line,
                    format!("crate::{target} is not a layer of tests/tidy/layers.rs"),
                ));
            }
            Some(target) => found.push(violation(line, format!("{layer} must not know {target}"))),
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
fn paths(source: &Source, layer: &str) -> Vec<CratePath> {
    let module = module_of("src/", &source.path);
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
        if layer == "main" && head != "sessiond" {
            continue;
        }
        let base = module_at(source, &module, at);
        for leaf in leaves(source, at) {
            let mut target = base.clone();
            for segment in leaf.segments {
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
        ("src/commit/append.rs", "use crate::store::Queue;"),
        ("src/domain/session.rs", "use crate::commit::Overlay;"),
        ("src/domain/id.rs", "impl From<crate::store::Error> for X {}"),
        ("src/cli/mod.rs", "use crate::engine::Engine;"),
        ("src/cli/mod.rs", "use crate::store::Store;"),
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
        ("src/store/group.rs", "use crate::{commit::Request, domain::Key};"),
        ("src/commit/append.rs", "use super::Overlay; use crate::domain::Key;"),
        (
            "src/cli/session.rs",
            "use super::client; use crate::{cli::output, domain::limits, proto::v1};",
        ),
        ("tests/e2e.rs", "use sessiond::server; use crate::common;"),
    ] {
        assert_eq!(arrows(&Source::parse(path, text)), [], "{path}: {text}");
    }
}
