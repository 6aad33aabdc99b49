//! The lines of production code, by part, are within `BUDGET.toml`.
//!
//! Counted is every line of `src` and `crates/*/src`, but of crates that are not published. Not counted are `tests.rs`, folders `tests` and
//! `gen`, and the rest of a file from its first `#[cfg(test)] mod x {` on.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::files;

const BUDGET: &str = include_str!("../../BUDGET.toml");

#[derive(Deserialize)]
struct Part {
    lines: usize,
    /// Files and folders.
    paths: Vec<String>,
}

impl Part {
    /// The length of the longest of its paths to a file.
    fn holds(&self, path: &str) -> Option<usize> {
        let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let leads = |part: &&String| path.strip_prefix(part.as_str()).is_some_and(below);
        self.paths.iter().filter(leads).map(String::len).max()
    }
}

/// Lines before the first module of tests that has a body.
fn lines(text: &str) -> usize {
    let mut count = 0;
    let mut after_test = None;
    for line in text.lines() {
        match after_test {
            Some(start) if line.contains("mod ") && line.ends_with('{') => return start,
            Some(_) if line.starts_with("#[") => {}
            _ => after_test = (line == "#[cfg(test)]").then_some(count),
        }
        count += 1;
    }
    count
}

/// Whether lines of a file are production code, of a crate that is published.
fn counts(path: &str, unpublished: &[&str]) -> bool {
    let inside: Vec<_> = path.split('/').collect();
    let in_src = inside[0] == "src" || inside[0] == "crates" && inside.get(2) == Some(&"src");
    in_src
        && path.ends_with(".rs")
        && !path.ends_with("/tests.rs")
        && !inside.iter().any(|&folder| folder == "tests" || folder == "gen")
        && !unpublished.iter().any(|folder| path.starts_with(folder))
}

#[test]
fn each_part_is_within_its_budget() {
    let budget: BTreeMap<String, Part> = toml::from_str(BUDGET).unwrap();
    let files = files();
    let manifests = files.iter().filter(|(_, text)| text.contains("\npublish = false"));
    let unpublished: Vec<_> =
        manifests.filter_map(|(path, _)| path.strip_suffix("Cargo.toml")).collect();
    let mut used = BTreeMap::<&str, usize>::new();
    for (path, text) in files.iter().filter(|(path, _)| counts(path, &unpublished)) {
        let parts = budget.iter().filter_map(|(name, part)| Some((part.holds(path)?, name)));
        let (_, name) = parts.max().unwrap_or_else(|| panic!("{path} is in no part"));
        *used.entry(name).or_default() += lines(text);
    }
    let held = |prefix: &str| files.iter().any(|(path, _)| path.starts_with(prefix));
    let paths = budget.values().flat_map(|part| &part.paths);
    crate::assert_none(
        paths.filter(|path| !held(path)).map(|path| format!("{path} holds no file")),
    );
    let over = budget.iter().filter(|(name, part)| used.get(name.as_str()) > Some(&part.lines));
    crate::assert_none(over.map(|(name, part)| {
        format!("{name}: {} lines of {} in BUDGET.toml", used[name.as_str()], part.lines)
    }));
}

#[test]
fn tests_are_not_counted() {
    assert_eq!(lines("a\n#[cfg(test)]\n#[expect(b)]\nmod tests {\n}\n"), 1);
    assert!(counts("crates/core/src/commit/mod.rs", &["crates/bench/"]));
    for path in ["src/a/tests.rs", "src/a/tests/b.rs", "tests/a.rs", "crates/bench/src/lib.rs"] {
        assert!(!counts(path, &["crates/bench/"]), "{path}");
    }
}
