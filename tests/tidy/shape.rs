//! A file reads like a page: it says first what it is, and it ends.

use crate::Violation;

/// What a file may have, its tests included.
const MAX_LINES: usize = 400;

/// A first line that does not say what the file is, and lines beyond the page.
pub fn shape(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//! ").is_none_or(|says| says.trim().is_empty()) {
        found.push(Violation::new(path, 1, "the first line says what the file is: `//! …`"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        found.push(Violation::new(
            path,
            lines,
            format!("{lines} lines; {MAX_LINES} are a file's most"),
        ));
    }
    found
}

#[test]
fn a_file_says_what_it_is() {
    assert_eq!(shape("x.rs", "//! The clock.\nfn f() {}\n"), []);
    for text in
        ["", "\n//! Late.\n", "// Not this.\n", "//!\n", "//! \n", "use a;\n//! The clock.\n"]
    {
        assert_eq!(shape("x.rs", text).len(), 1, "{text:?}");
    }
}

#[test]
fn a_file_ends() {
    let page = |lines: usize| format!("//! Long.\n{}", "\n".repeat(lines - 1));
    assert_eq!(shape("x.rs", &page(400)), []);
    assert_eq!(shape("x.rs", &page(401)).len(), 1);
}
