//! A file begins with a line that says what it is, and has at most 400 lines.

use crate::Violation;

/// Of a file, its tests included.
const MAX_LINES: usize = 400;

/// A missing `//!` line, and a file that is too long.
pub fn shape(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//! ").is_none_or(|says| says.trim().is_empty()) {
        found.push(Violation::new(path, 1, "the first line must say what the file is: `//! …`"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        found.push(Violation::new(path, lines, format!("{lines} lines; {MAX_LINES} are allowed")));
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
