//! Layouts of databases: a hash of the statements that create the tables tells whether a database is this build's.

use xxhash_rust::xxh3::xxh3_64;

/// The hash of a layout, as a database keeps it: 16 hexadecimal digits. Comments (`--`) and white space do not change it.
pub fn layout_hash(statements: &str) -> String {
    let code = statements.lines().map(|line| line.split("--").next().unwrap_or_default());
    let words: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    format!("{:016x}", xxh3_64(words.join(" ").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_changes_a_layout() {
        let hash = layout_hash("CREATE TABLE t (a);");
        assert_eq!(hash.len(), 16);
        assert_eq!(layout_hash("-- What it is.\nCREATE TABLE t\n    (a); -- The end.\n"), hash);
        assert_ne!(layout_hash("CREATE TABLE t (b);"), hash);
        assert_ne!(layout_hash("CREATE TABLEt (a);"), hash);
    }
}
