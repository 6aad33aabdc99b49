//! Files have no dependency cycles.
//!
//! A file depends on another one if its code, tests excluded, names what the other one defines: by `use`, or by a path
//! that begins at `crate`, `self`, `super`, a module of the file or an imported module. For modules and their parents:
//!
//! * `mod x;` is not a dependency.
//! * An import through a re-export depends on the file that defines the item. A re-export itself is a dependency only
//!   if the file also uses the name.
//! * A `mod.rs` is a file like any other. It may define what its children share, or combine its children, not both.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
};

use crate::{
    Violation,
    modules::{Crate, Target},
    paths::{leaves, module_at},
    source::Source,
};

/// The files that each file depends on, each with the first line that names it.
type Graph<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

/// The shortest cycle through each file below one of `roots`, unless it is in one that was found before.
pub fn cycles(roots: &[&str], sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for root in roots {
        let krate = Crate::new(root, sources);
        let graph = graph(&krate);
        let mut seen = BTreeSet::new();
        for file in graph.keys() {
            if seen.contains(file) {
                continue;
            }
            let Some(cycle) = cycle_through(&graph, file) else { continue };
            seen.extend(cycle.iter().copied());
            let steps: Vec<_> = (0..cycle.len())
                .map(|at| {
                    let (from, to) = (cycle[at], cycle[(at + 1) % cycle.len()]);
                    format!("{from}:{} names {to}", graph[from][to])
                })
                .collect();
            let says = format!("a dependency cycle: {}", steps.join(", "));
            found.push(Violation::new(file, graph[file][cycle[1]], says));
        }
    }
    found
}

fn graph<'a>(krate: &Crate<'a>) -> Graph<'a> {
    let files = krate
        .sources()
        .map(|(module, source)| (source.path.as_str(), dependencies(krate, module, source)));
    files.collect()
}

/// What the code of `source` names in other files.
fn dependencies<'a>(
    krate: &Crate<'a>,
    module: &[String],
    source: &Source,
) -> BTreeMap<&'a str, usize> {
    let tests = source.test_code();
    let imports = krate.imports(module);
    let mut found = BTreeMap::new();
    let mut depend = |target: Option<&'a Source>, at: usize| {
        if let Some(target) = target.filter(|target| target.path != source.path) {
            found.entry(target.path.as_str()).or_insert(source.tokens[at].line);
        }
    };
    for import in imports {
        let reexported =
            import.public && !import.name.as_deref().is_some_and(|name| uses(source, name));
        if !reexported {
            depend(krate.imported(import), import.at);
        }
    }
    for (at, _) in source.idents() {
        let begins = source.text(at + 1) == "::" && (at == 0 || source.text(at - 1) != "::");
        let imported = imports.iter().any(|import| import.tree.contains(&at));
        if !begins || imported || tests.iter().any(|range| range.contains(&at)) {
            continue;
        }
        let base = module_at(source, module, at);
        for leaf in leaves(source, at) {
            if let Some(Target::Item(target)) = krate.resolve(&base, &leaf.segments) {
                depend(Some(target), at);
            }
        }
    }
    found
}

/// Whether code of `source`, tests and imports excluded, uses the imported `name`.
fn uses(source: &Source, name: &str) -> bool {
    let tests = source.test_code();
    let imports = source.use_trees();
    source.idents().any(|(at, token)| {
        let alone = at == 0 || !matches!(source.text(at - 1), "." | "::" | "mod" | "fn");
        let skipped = |ranges: &[Range<usize>]| ranges.iter().any(|range| range.contains(&at));
        token.text == name && alone && !skipped(&tests) && !skipped(&imports)
    })
}

/// The shortest way from `start` back to itself.
fn cycle_through<'a>(graph: &Graph<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for &next in graph.get(file)?.keys() {
            if next == start {
                let mut cycle = vec![file];
                while let Some(&before) = from.get(cycle[cycle.len() - 1]) {
                    cycle.push(before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !from.contains_key(next) {
                from.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    None
}

fn of(files: &[(&str, &str)]) -> usize {
    let sources: Vec<_> = files.iter().map(|(path, text)| Source::parse(path, text)).collect();
    cycles(&["src/"], &sources).len()
}

#[test]
fn cycles_are_seen() {
    let parent = "mod b; pub struct X; fn f() { b::g() }";
    for files in [
        // By import, by path, and across three files.
        &[
            ("src/a.rs", "use crate::b::X; pub struct Y;"),
            ("src/b.rs", "use crate::a::Y; pub struct X;"),
        ][..],
        &[
            ("src/a.rs", "fn f(_: crate::b::X) {}"),
            ("src/b.rs", "use {crate::a::{self}}; fn g() { a::f() }"),
        ],
        &[
            ("src/a.rs", "use super::b as other; fn f() { other::f() }"),
            ("src/b.rs", "use super::c::f as g; pub fn f() {}"),
            ("src/c.rs", "pub fn f() { super::a::f() }"),
        ],
        // A parent that combines its children and defines what they use.
        &[("src/a/mod.rs", parent), ("src/a/b.rs", "use super::X; pub fn g() {}")],
        &[("src/a/mod.rs", parent), ("src/a/b.rs", "use super::*; pub fn g() {}")],
        &[
            ("src/a/mod.rs", "mod b; pub use b::g; pub struct X; fn f() { g() }"),
            ("src/a/b.rs", "use super::X; pub fn g() {}"),
        ],
        // Through a re-export, also of an item with the name of its module.
        &[
            ("src/a/mod.rs", "mod b; pub use b::b;"),
            ("src/a/b.rs", "use crate::c::X; pub fn b() {}"),
            ("src/c.rs", "use crate::a::b; pub struct X; fn f() { b() }"),
        ],
        &[
            ("src/a/mod.rs", "mod b; mod c; pub use b::X; pub use c::Y;"),
            ("src/a/b.rs", "use crate::a::Y; pub struct X;"),
            ("src/a/c.rs", "use super::X; pub struct Y;"),
        ],
        &[
            ("src/a/mod.rs", "mod b; mod c; pub use b::*; use c::Y;"),
            ("src/a/b.rs", "use super::Y; pub struct X;"),
            ("src/a/c.rs", "use super::X; pub struct Y;"),
        ],
    ] {
        assert_eq!(of(files), 1, "{files:?}");
    }
}

#[test]
fn dependencies_in_one_direction_pass() {
    let user = "use super::X; pub fn g() {} pub(in crate::a) mod c { use super::g; }";
    for files in [
        &[
            ("src/a.rs", "use crate::b::X; // crate::a::Y"),
            ("src/b.rs", "pub struct X; const Y: &str = \"crate::a\";"),
        ][..],
        // The root and a parent give their children names.
        &[
            ("src/lib.rs", "mod a; pub use a::X; pub struct Y;"),
            ("src/a.rs", "use crate::Y; pub struct X;"),
        ],
        &[("src/a/mod.rs", "mod b; pub use b::g; pub struct X;"), ("src/a/b.rs", user)],
        &[
            ("src/a/mod.rs", "mod b; mod c; pub use b::X; fn f() { c::g() }"),
            ("src/a/b.rs", "pub struct X;"),
            ("src/a/c.rs", user),
        ],
        // Importing a module depends on what is used of it.
        &[
            ("src/a/mod.rs", "mod b; pub mod c; fn f() { b::g() }"),
            ("src/a/b.rs", "use super::c; pub fn g() { c::h() }"),
            ("src/a/c.rs", "pub fn h() {}"),
        ],
        // Tests, inside the file and beside it.
        &[
            ("src/a.rs", "pub fn f() {} #[cfg(test)] mod tests { use crate::b::g; }"),
            ("src/b.rs", "use crate::a::f; pub fn g() {}"),
        ],
        &[
            ("src/a.rs", "#[cfg(test)] mod tests; fn f() {}"),
            ("src/a/tests.rs", "use super::f; fn g() { crate::a::f() }"),
        ],
        // Crates outside.
        &[
            ("src/a.rs", "use std::b; fn f() { b::g() }"),
            ("src/b.rs", "use crate::a::f; use c::{d as e}; fn g() { e::h() }"),
        ],
    ] {
        assert_eq!(of(files), 0, "{files:?}");
    }
}
