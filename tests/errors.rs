//! The catalogue of errors names every reason that the service has, and no other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and looks around where the program must not"
)]

use std::collections::BTreeSet;

const CATALOGUE: &str = include_str!("../docs/errors.md");
const SOURCE: &str = include_str!("../src/domain/error.rs");

#[test]
fn every_reason_is_in_the_catalogue_once() {
    // A reason is written once in the sources, in the match that gives it its name on the wire.
    let names: BTreeSet<&str> = SOURCE
        .lines()
        .filter_map(|line| {
            line.trim().strip_prefix("Self::")?.split_once(" => \"")?.1.split('"').next()
        })
        .filter(|name| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'))
        .collect();
    assert!(names.len() > 30, "the names were found: {names:?}");
    let rows: Vec<&str> = CATALOGUE.lines().filter(|line| line.starts_with('|')).collect();
    for name in &names {
        let cell = format!("| `{name}` |");
        let count = rows.iter().filter(|row| row.contains(&cell)).count();
        assert_eq!(count, 1, "{name} has a row of its own");
    }
    let documented = rows.iter().filter(|row| row.contains("| `")).count();
    assert_eq!(documented, names.len(), "no row for a reason that there is not");
}
