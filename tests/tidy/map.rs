//! The crate documentation lists the files that an append passes. The list is short, and every file on it exists.

use crate::{Violation, files};

const MAP: &str = "src/lib.rs";

/// Files on the list, at most. A longer way would be hard to follow.
const MAX_FILES: usize = 25;

/// The lines `//! N. ` that begin with the name of a Rust file: line, number and file.
fn entries(text: &str) -> Vec<(usize, usize, &str)> {
    (1..).zip(text.lines()).filter_map(|(line, content)| entry(line, content)).collect()
}

fn entry(line: usize, content: &str) -> Option<(usize, usize, &str)> {
    let (number, rest) = content.strip_prefix("//! ")?.split_once(". `")?;
    let (file, _) = rest.split_once('`')?;
    file.ends_with(".rs").then_some((line, number.parse().ok()?, file))
}

/// Entries that are not numbered in order, name no file, or come twice; and too many of them.
fn walk(text: &str, exists: impl Fn(&str) -> bool) -> Vec<Violation> {
    let entries = entries(text);
    let mut found = Vec::new();
    for (at, (line, number, file)) in entries.iter().enumerate() {
        if *number != at + 1 {
            found.push(Violation::new(MAP, *line, format!("{number} should be {}", at + 1)));
        }
        if !exists(&format!("src/{file}")) {
            found.push(Violation::new(MAP, *line, format!("src/{file} does not exist")));
        }
        if entries[..at].iter().any(|(_, _, earlier)| earlier == file) {
            found.push(Violation::new(MAP, *line, format!("{file} is listed twice")));
        }
    }
    if entries.len() > MAX_FILES {
        let says = format!("{} files, the limit is {MAX_FILES}", entries.len());
        found.push(Violation::new(MAP, entries[MAX_FILES].0, says));
    }
    found
}

#[test]
fn the_files_of_an_append_exist() {
    let files = files();
    let (_, map) = files.iter().find(|(path, _)| path == MAP).expect("the crate has a root");
    assert!(entries(map).len() >= 10, "the list was found");
    crate::assert_none(walk(map, |path| files.iter().any(|(known, _)| known == path)));
}

#[test]
fn a_wrong_list_is_seen() {
    let exists = |path: &str| path != "src/gone.rs";
    for text in [
        "//! 1. `a.rs` does.\n//! 3. `b.rs` does.",
        "//! 1. `a.rs` does.\n//! 2. `gone.rs` does.",
        "//! 1. `a.rs` does.\n//! 2. `a.rs` does.",
    ] {
        assert_eq!(walk(text, exists).len(), 1, "{text}");
    }
    let long: Vec<_> = (1..=26).map(|at| format!("//! {at}. `a{at}.rs` does.")).collect();
    assert_eq!(walk(&long.join("\n"), exists).len(), 1);
    let other = "//! 1. `a/b.rs` does\n//!    more.\n//! 1. An invariant.\n// 1. `c.rs`";
    assert_eq!(walk(other, exists), []);
    assert_eq!(entries(other).len(), 1);
}
