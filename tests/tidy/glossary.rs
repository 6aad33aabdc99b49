//! File and type names keep to the words of docs/glossary.md.

use std::collections::BTreeMap;

use crate::{Violation, files, source::Source, sources};

const GLOSSARY: &str = "docs/glossary.md";

/// Folders whose names are held against the glossary.
const PARTS: [&str; 3] = ["src/", "tests/", "clients/rust/src/"];

/// Every word of the last column, with the word to use instead. Phrases of several words are for prose, and are left out.
fn never(glossary: &str) -> BTreeMap<String, String> {
    let mut words = BTreeMap::new();
    for row in glossary.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [word, _, never] = cells[..] else { continue };
        if word == "word" {
            continue;
        }
        for other in never.split(',').map(str::trim) {
            if !other.is_empty() && !other.contains(' ') {
                words.insert(other.to_lowercase(), word.to_owned());
            }
        }
    }
    words
}

/// The words of a name, in lower case: they begin at capitals, underscores, dots and slashes.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && letter.is_alphanumeric()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The file's own name and those of its types, each with its line.
fn names(source: &Source) -> Vec<(usize, String)> {
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let types = source
        .idents()
        .filter(|(at, token)| kinds.contains(&&*token.text) && source.is_ident(at + 1));
    let types = types.map(|(at, token)| (token.line, source.text(at + 1).to_owned()));
    std::iter::once((1, source.path.clone())).chain(types).collect()
}

/// Names that hold a word which the glossary replaces by another.
fn wrong_words(source: &Source, never: &BTreeMap<String, String>) -> Vec<Violation> {
    if !PARTS.iter().any(|part| source.path.starts_with(part)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (line, name) in names(source) {
        for word in words(&name) {
            if let Some(instead) = never.get(&word) {
                let says = format!("`{name}`: the glossary says {instead}, never {word}");
                found.push(Violation::new(&source.path, line, says));
            }
        }
    }
    found
}

#[test]
fn names_keep_to_the_glossary() {
    let files = files();
    let (_, glossary) = files.iter().find(|(path, _)| path == GLOSSARY).expect("a glossary");
    let never = never(glossary);
    assert!(never.len() > 30, "the words were found: {never:?}");
    crate::assert_none(sources().iter().flat_map(|source| wrong_words(source, &never)));
}

#[test]
fn words_of_the_never_column_are_seen() {
    let never = never(
        "| word | meaning | never |\n|---|---|---|\n| budget | Bytes left. | room, way out |\n| node | A number. | |",
    );
    assert_eq!(never, BTreeMap::from([("room".into(), "budget".into())]));
    for (path, text) in [
        ("src/room.rs", ""),
        ("src/rpc/room/mod.rs", ""),
        ("tests/e2e/big_room.rs", ""),
        ("clients/rust/src/list.rs", "struct RoomLeft;"),
        ("src/list.rs", "pub(crate) enum BigRoom {}"),
        ("src/list.rs", "type Room = usize;"),
        ("src/list.rs", "fn f() { trait Room {} }"),
    ] {
        assert_eq!(wrong_words(&Source::parse(path, text), &never).len(), 1, "{path}: {text}");
    }
}

#[test]
fn other_names_pass() {
    let never = BTreeMap::from([("room".to_owned(), "budget".to_owned())]);
    for (path, text) in [
        ("src/mushroom.rs", "struct Rooms; struct Groom; fn room() { let room = 1; }"),
        ("clients/python/src/room.rs", ""),
        ("src/list.rs", "// struct Room;\nconst A: &str = \"struct Room\";"),
    ] {
        assert_eq!(wrong_words(&Source::parse(path, text), &never), [], "{path}: {text}");
    }
}
