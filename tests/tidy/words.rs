//! Words that no file may contain: hosts of registries, paths of a machine, notes to do something later.
//!
//! They are concatenated here, so that this file passes its own checks.

use crate::Violation;

/// Parts of the host names of package registries. Each machine configures its own.
const REGISTRIES: [&str; 12] = [
    concat!("crates", ".io"),
    concat!("npm", "js."),
    concat!("yarn", "pkg.com"),
    concat!("npm", "mirror"),
    concat!("py", "pi.org"),
    concat!("python", "hosted"),
    concat!("proxy.", "golang"),
    concat!("sum.", "golang"),
    concat!("go", "proxy."),
    concat!("ruby", "gems.org"),
    concat!("repo", ".maven"),
    concat!("repo1", ".maven"),
];

/// Home and work folders.
const MACHINES: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("C:\\Us", "ers\\"),
];

const PROMISES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// The lines of `text` with one of `words` that `counts` at its place in the line.
fn lines_with(
    path: &str,
    text: &str,
    words: &[&str],
    counts: fn(&str, usize, &str) -> bool,
    says: &str,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let named =
            |word: &&&str| content.match_indices(**word).any(|(at, _)| counts(content, at, word));
        if let Some(word) = words.iter().find(named) {
            found.push(Violation::new(path, line, format!("`{word}`: {says}")));
        }
    }
    found
}

/// Hosts of registries. Cargo's lock file must name its own; no other file has to.
pub fn registries(path: &str, text: &str) -> Vec<Violation> {
    if path.rsplit('/').next() == Some("Cargo.lock") {
        return Vec::new();
    }
    let says = "each machine configures its own registry";
    lines_with(path, &text.to_lowercase(), &REGISTRIES, |_, _, _| true, says)
}

/// Absolute paths of a machine. Within an address or a relative path the same letters mean something else.
pub fn machines(path: &str, text: &str) -> Vec<Violation> {
    let begins = |line: &str, at: usize, _: &str| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"._-)}$*~".contains(before))
    };
    lines_with(path, text, &MACHINES, begins, "a path of one machine")
}

/// Notes to do something later, in Rust and in the contract.
pub fn promises(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with(".rs") && !path.ends_with(".proto") {
        return Vec::new();
    }
    let alone = |line: &str, at: usize, word: &str| {
        let joins =
            |near: Option<char>| near.is_some_and(|near| near.is_alphanumeric() || near == '_');
        !joins(line[..at].chars().next_back()) && !joins(line[at + word.len()..].chars().next())
    };
    lines_with(path, text, &PROMISES, alone, "what is here is finished")
}

#[test]
fn registries_are_seen() {
    for word in REGISTRIES {
        assert_eq!(
            registries("README.md", &format!("a\nsee https://x.{word}/y")).len(),
            1,
            "{word}"
        );
        assert_eq!(registries("x.json", &word.to_uppercase()).len(), 1, "{word}");
        assert_eq!(registries("Cargo.lock", word), []);
    }
    assert_eq!(
        registries("README.md", "npm install, go install, cargo add; crates in general"),
        []
    );
}

#[test]
fn places_on_a_machine_are_seen() {
    for word in MACHINES {
        for text in [format!("{word}me"), format!("in \"{word}me\""), format!("sqlite:{word}x.db")]
        {
            assert_eq!(machines("README.md", &text).len(), 1, "{text}");
        }
        assert_eq!(machines("README.md", &format!("the relative a{word}b and $X{word}")), []);
    }
    assert_eq!(machines("README.md", "unix:/run/sessiond.sock in /var/lib/sessiond"), []);
}

#[test]
fn promises_are_seen() {
    for word in PROMISES {
        assert_eq!(promises("src/x.rs", &format!("a();\n// {word}: b")).len(), 1, "{word}");
        assert_eq!(promises("src/x.rs", &format!("const A{word}: B = C_{word};")), []);
        assert_eq!(promises("README.md", word), []);
    }
}
