//! Checks beyond the compiler and clippy: the shape of files, words that must not occur, the keys of the log, and the budget of lines.

mod budget;
mod logs;

use std::{fs, path::Path, process::Command};

/// Lines of a file, its tests included.
const MAX_LINES: usize = 400;

/// Parts of the host names of package registries: each machine configures its own. The bars keep the names out of this file.
const REGISTRIES: &str = "crates|.io npm|js. yarn|pkg.com npm|mirror py|pi.org python|hosted \
    proxy.|golang sum.|golang go|proxy. ruby|gems.org repo|.maven repo1|.maven";

/// Notes of unfinished work.
const NOTES: &str = "TO|DO FIX|ME";

/// Home and work folders of a machine.
const MACHINES: &str = "/ho|me/ /ro|ot/ /wo|rk/ /Us|ers/ C:\\Us|ers\\";

/// Features of PostgreSQL that distributed engines of its protocol lack, or that make their transactions fail more often.
const BEYOND_ENGINES: &str = "jsonb SERIAL| SEQUENCE nextval TRIGGER DEFERRABLE SAVEPOINT advisory \
    REFERENCES LOCK|TABLE TEMP|TABLE FOR|SHARE ctid";

/// Marks the one sleep that polls, on the line above it.
const POLL: &str = "// Bounded poll:";

fn words(list: &str, bar: &str) -> Vec<String> {
    list.split_whitespace().map(|word| word.replace('|', bar)).collect()
}

/// The text files that are tracked or could be added, with their text.
fn files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listing = Command::new("git")
        // The checkout may belong to another user, as in containers.
        .args("-c safe.directory=* ls-files -z --cached --others --exclude-standard".split(' '))
        .current_dir(root)
        .output()
        .unwrap_or_else(|error| panic!("failed to run git ls-files: {error}"));
    assert!(listing.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listing.stderr));
    let files: Vec<_> = String::from_utf8_lossy(&listing.stdout)
        .split_terminator('\0')
        .filter_map(|path| Some((path.to_owned(), fs::read_to_string(root.join(path)).ok()?)))
        .collect();
    assert!(files.iter().any(|(path, _)| path == "tests/tidy/main.rs"), "not the whole tree");
    files
}

/// The Rust files, generated ones excluded.
fn sources() -> Vec<(String, String)> {
    let is_generated = |text: &str| text.lines().take(2).any(|line| line.contains("@generated"));
    let by_hand = |(path, text): &(String, String)| path.ends_with(".rs") && !is_generated(text);
    files().into_iter().filter(by_hand).collect()
}

#[track_caller]
fn assert_none(violations: impl IntoIterator<Item = String>) {
    let lines: Vec<_> = violations.into_iter().collect();
    assert!(lines.is_empty(), "{} found:\n{}", lines.len(), lines.join("\n"));
}

/// The lines that `is_wrong`, each with what it should be.
fn lines(path: &str, text: &str, is_wrong: impl Fn(&str) -> bool, says: &str) -> Vec<String> {
    let wrong = (1..).zip(text.lines()).filter(|(_, line)| is_wrong(line));
    wrong.map(|(at, line)| format!("{path}:{at}: {says}: {}", line.trim())).collect()
}

/// Fails if a file contains one of the words, `of` a line. Cargo's lock files name their registry.
fn assert_absent(list: &str, says: &str, of: fn(&str) -> String) {
    let words = words(list, "");
    let has = |line: &str| words.iter().any(|word| of(line).contains(word));
    let files = files();
    let files = files.iter().filter(|(path, _)| !path.ends_with("Cargo.lock"));
    assert_none(files.flat_map(|(path, text)| lines(path, text, has, says)));
}

#[test]
fn files_read_like_a_page() {
    assert_none(sources().iter().flat_map(|(path, text)| {
        let count = text.lines().count();
        let long = (count > MAX_LINES).then(|| format!("{path}: {count} lines of {MAX_LINES}"));
        let says = text.strip_prefix("//! ").is_some_and(|says| !says.trim_start().is_empty());
        long.into_iter().chain((!says).then(|| format!("{path}: begins with no `//! …` line")))
    }));
}

#[test]
fn no_registry_is_named_and_no_work_is_left_to_notes() {
    assert_absent(REGISTRIES, "name no registry", str::to_lowercase);
    assert_absent(NOTES, "finish it, or open an issue", str::to_owned);
}

/// Whether a line holds an absolute path of a machine. Within an address or a relative path the same letters mean something else.
fn names_a_machine(line: &str, folders: &[String]) -> bool {
    let begins = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"._-)}$*~".contains(before))
    };
    folders.iter().any(|word| line.match_indices(word).any(|(at, _)| begins(at)))
}

#[test]
fn no_path_of_a_machine_is_named() {
    let folders = words(MACHINES, "");
    let named = |line: &str| names_a_machine(line, &folders);
    assert!(named(&format!("at {}x", folders[0])) && !named(&format!("a{}x", folders[0])));
    assert_none(files().iter().flat_map(|(path, text)| lines(path, text, named, "of a machine")));
}

#[test]
fn sql_for_postgresql_keeps_to_what_distributed_engines_have() {
    let beyond = words(BEYOND_ENGINES, " ");
    let wrong = |line: &str| {
        !line.trim_start().starts_with("//") && beyond.iter().any(|word| line.contains(word))
    };
    let sources = sources();
    let of_store = |path: &str| path.contains("/postgres/") && !path.contains("tests");
    let ours = sources.iter().filter(|(path, _)| of_store(path));
    assert_none(ours.flat_map(|(path, text)| lines(path, text, wrong, "engines lack this")));
}

#[test]
fn no_test_hopes_by_sleeping() {
    let is_test = |path: &str| path.contains("tests") || path.contains("test-support");
    let sleeps = |line: &str| [" ", ":"].iter().any(|it| line.contains(&format!("{it}sleep(")));
    for (path, text) in sources().iter().filter(|(path, _)| is_test(path)) {
        let lines: Vec<_> = text.lines().collect();
        let hopes = lines.windows(2).find(|pair| sleeps(pair[1]) && !pair[0].contains(POLL));
        assert_eq!(hopes, None, "{path}: a test waits for what it waits for, never for a time");
    }
}
