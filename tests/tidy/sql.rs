//! The SQL for PostgreSQL keeps to what distributed engines that speak its protocol have.

use crate::Violation;

const FOLDER: &str = "src/store/postgres";

/// What they lack, or what makes their transactions fail more often; with what to do instead.
const BANNED: [(&str, &str); 15] = [
    ("jsonb", "keep JSON as text"),
    ("serial ", "take numbers from `meta`"),
    ("sequence if not", "take numbers from `meta`"),
    ("create sequence", "take numbers from `meta`"),
    ("nextval", "take numbers from `meta`"),
    ("trigger", "write every row by a statement"),
    ("deferrable", "check at once"),
    ("savepoint", "repeat the whole transaction"),
    ("advisory", "lock rows"),
    ("references ", "the rows of a change set agree"),
    ("lock table", "lock rows"),
    ("listen ", "a look at versions has to find it as well"),
    ("create temp", "pass arrays"),
    ("for share", "take the lock that is needed at once"),
    ("ctid", "name rows by their keys"),
];

/// The only file that listens.
const LISTENS: &str = "src/store/postgres/notify/replicas.rs";

/// Banned words in the strings of the store, and indexes of a part of a table.
pub fn banned(path: &str, text: &str) -> Vec<Violation> {
    if !path.starts_with(FOLDER) || path.contains("/tests") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut index = None;
    for (at, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("//") || code.starts_with("--") {
            continue;
        }
        let lower = code.to_lowercase();
        for (word, instead) in BANNED {
            let allowed = word == "listen " && path == LISTENS;
            if lower.contains(word) && !allowed && is_sql(code) {
                found.push(Violation::new(path, at + 1, format!("`{word}`: {instead}")));
            }
        }
        if lower.starts_with("create index") || lower.starts_with("create unique index") {
            index = Some(at);
        }
        if index.is_some() && lower.contains("where") {
            found.push(Violation::new(path, at + 1, "an index is of a whole table"));
        }
        if lower.ends_with(';') {
            index = None;
        }
    }
    found
}

/// Whether a line may be SQL: statements have words in capitals, or stand in a string.
fn is_sql(line: &str) -> bool {
    line.contains('"')
        || line
            .split(|c: char| !c.is_alphabetic())
            .any(|word| word.len() > 2 && word.chars().all(char::is_uppercase))
}

/// Tables that do not grow with use, or that find rows across users, and why their key begins otherwise.
const LOOK_UPS: [&str; 5] = ["meta", "writer", "session_list", "session_name", "session_expiry"];

/// Tables whose primary key is not led by the application and the user.
pub fn misplaced(path: &str, text: &str) -> Vec<Violation> {
    if path != "src/store/postgres/schema.rs" {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut table = "";
    for (at, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
            table = rest.trim_start_matches("IF NOT EXISTS ").split(' ').next().unwrap_or_default();
        }
        let key = line.trim_start().strip_prefix("PRIMARY KEY (");
        if let Some(key) = key
            && !LOOK_UPS.contains(&table)
            && !key.starts_with("app_name, user_id")
        {
            let says = format!("the key of {table} begins with app_name, user_id");
            found.push(Violation::new(path, at + 1, says));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_engines_lack_is_found_in_statements() {
        let lines = |text: &str| {
            let found = banned("src/store/postgres/a.rs", text);
            found.iter().map(|it| it.line).collect::<Vec<_>>()
        };
        assert_eq!(lines("const A: &str = \"SELECT a::jsonb\";"), [1]);
        assert_eq!(lines("CREATE INDEX a ON t (b)\n    WHERE b IS NOT NULL;"), [2]);
        assert_eq!(lines("CREATE INDEX a ON t (b);\nSELECT 1 WHERE true;"), []);
        assert_eq!(lines("// no savepoint\nlet trigger = 1;"), []);
        assert!(banned("src/store/sqlite/a.rs", "\"SAVEPOINT a\"").is_empty());
    }

    #[test]
    fn a_table_that_grows_is_led_by_its_user() {
        let found = |text| misplaced("src/store/postgres/schema.rs", text).len();
        assert_eq!(found("CREATE TABLE t (\n    PRIMARY KEY (app_name, user_id, a)\n);"), 0);
        assert_eq!(found("CREATE TABLE t (\n    PRIMARY KEY (app_name, a)\n);"), 1);
        assert_eq!(found("CREATE TABLE session_name (\n    PRIMARY KEY (session_id)\n);"), 0);
    }
}
