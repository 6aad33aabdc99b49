//! The catalogue of errors names every reason that the service has, and no other.

use std::collections::BTreeSet;

const CATALOGUE: &str = include_str!("../../docs/errors.md");
const REASONS: &str = include_str!("../../crates/core/src/domain/reason.rs");
const ERRORS: &str = include_str!("../../crates/core/src/domain/error.rs");

/// The names that an enum of the sources has for programs: each is written once, beside its value.
fn names(source: &str) -> BTreeSet<&str> {
    source.lines().filter_map(|line| line.trim().split_once(" = \"")?.1.split('"').next()).collect()
}

/// The names of an enum are in the row of a reason.
fn are_in_the_row_of(reason: &str, of: &str, count: usize) {
    let inside = ERRORS.split(of).nth(1).unwrap().split("\n}").next().unwrap();
    let names = names(inside);
    assert_eq!(names.len(), count, "the names were found: {names:?}");
    let cell = format!("| `{reason}` |");
    let row = CATALOGUE.lines().find(|line| line.contains(&cell)).unwrap();
    for name in names {
        assert!(row.contains(&format!("`{name}`")), "{name}: {row}");
    }
}

#[test]
fn everything_that_can_be_full_is_in_the_catalogue() {
    are_in_the_row_of("OVERLOADED", "    Bounded {", 7);
}

#[test]
fn everything_that_can_be_damaged_is_in_the_catalogue() {
    are_in_the_row_of("DAMAGED", "    Damage {", 6);
}

#[test]
fn everything_that_can_be_wrong_with_a_credential_is_in_the_catalogue() {
    are_in_the_row_of("CREDENTIAL_INVALID", "    CredentialFault {", 12);
}

#[test]
fn every_reason_is_in_the_catalogue_once() {
    let mut names = names(REASONS);
    names.retain(|name| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'));
    assert!(names.len() > 30, "the names were found: {names:?}");
    let rows: Vec<&str> = CATALOGUE.lines().filter(|line| line.starts_with('|')).collect();
    for name in &names {
        let cell = format!("| `{name}` |");
        let count = rows.iter().filter(|row| row.contains(&cell)).count();
        assert_eq!(count, 1, "{name} has a row of its own");
    }
    // The name of a reason that no call returns any more stays reserved.
    let used = |row: &&&str| row.contains("| `") && !row.contains("| reserved:");
    let documented = rows.iter().filter(used).count();
    assert_eq!(documented, names.len(), "no row for a reason that there is not");
}
