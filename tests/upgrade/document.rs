//! Holds docs/storage.md against a file that is filled.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row, types::Value};

const DOCUMENT: &str = include_str!("../../docs/storage.md");

/// What the document says of a file is so.
pub fn check(path: &Path) {
    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    names_every_table_and_every_column_of_a_view(&file);
    queries_find_something(&file);
    views_show_what_clients_see(&file);
}

/// Rows of a query, each as its columns with a bar between them.
fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let row = |row: &Row<'_>| {
        let values = (0..columns).map(|at| match row.get::<_, Value>(at).unwrap() {
            Value::Null => "NULL".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => text,
            other => panic!("{other:?}"),
        });
        Ok(values.collect::<Vec<_>>().join("|"))
    };
    statement.query_map((), row).unwrap().map(Result::unwrap).collect()
}

fn names_every_table_and_every_column_of_a_view(tables: &Connection) {
    let schema = "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view')";
    for entry in rows(tables, schema) {
        let (kind, name) = entry.split_once('|').unwrap();
        let line = match kind {
            "view" => {
                let view = tables.prepare(&format!("SELECT * FROM {name}")).unwrap();
                format!("| `{name}` | {} |", view.column_names().collect::<Vec<_>>().join(", "))
            }
            _ => format!("| `{name}` | "),
        };
        assert!(DOCUMENT.contains(&line), "{line}");
    }
}

fn queries_find_something(file: &Connection) {
    let queries: Vec<_> = DOCUMENT.split("```sql\n").skip(1).collect();
    assert!(queries.len() >= 6);
    let found: Vec<Vec<String>> =
        queries.iter().map(|query| rows(file, query.split("```").next().unwrap())).collect();
    let expected: [&[&str]; 6] = [
        &[
            "app:currency|\"USD\"|2",
            "basket|[1]|3",
            "draft|true|3",
            "user:name|\"Ada\"|1",
            "user:visits|8|3",
        ],
        &[
            "3|1970-01-01T00:01:43Z|ada|[1]",
            "2|1970-01-01T00:01:41Z|a|[1,2]",
            "1|1970-01-01T00:01:41Z|a|[1]",
        ],
        &["3|shop|NULL|NULL|8", "2|a|cart|2|7"],
        &["shop|ada|longer|5130|", "shop|ada|long|1030|"],
        &["4|1970-01-01T00:01:43Z|a|{\"text\": \"4\"}"],
        &["shop|bob|expiring|1970-01-01T00:16:40Z"],
    ];
    for (found, expected) in found.iter().zip(expected) {
        for (row, expected) in found.iter().zip(expected) {
            assert!(row.starts_with(expected), "{row}");
        }
        assert!(found.len() >= expected.len(), "{found:?}");
    }
}

fn views_show_what_clients_see(file: &Connection) {
    let sessions =
        "SELECT user_id, session_id, last_sequence, display_name, labels, create_time, expire_time,
        forked_from, forked_at FROM session_view WHERE app_name = 'shop' ORDER BY id";
    assert_eq!(
        rows(file, sessions),
        [
            "ada|cart|4|A cart|{\"kind\":\"cart\"}|1970-01-01T00:01:40Z|NULL|NULL|NULL",
            "ada|fork|2|A cart|{\"kind\":\"cart\"}|1970-01-01T00:01:42Z|NULL|cart|2",
            "ada|long|1030||NULL|1970-01-01T00:01:44Z|NULL|NULL|NULL",
            "ada|longer|5130||NULL|1970-01-01T00:01:44Z|NULL|NULL|NULL",
            "bob|expiring|0||NULL|1970-01-01T00:01:45Z|1970-01-01T00:16:40Z|NULL|NULL",
        ]
    );
    let events =
        "SELECT sequence, event_id, invocation_id, author, rewind_to, state_set, state_removed
        FROM event_view WHERE session_id = 'cart' ORDER BY sequence";
    assert_eq!(
        rows(file, events),
        [
            "1|1|turn-1|a|NULL|{\"basket\":[1],\"draft\":true}|NULL",
            "2|2|turn-2|a|NULL|{\"basket\":[1,2],\"user:visits\":7}|[\"draft\"]",
            "3|back|NULL|ada|1|{\"basket\":[1],\"draft\":true}|NULL",
            "4|4|turn-4|a|NULL|{\"app:currency\":\"USD\"}|NULL",
        ]
    );
    // Deleted, with rows that are still there.
    let deleted = "SELECT * FROM state_view WHERE session_id = 'deleted'";
    assert_eq!(rows(file, deleted), [""; 0]);
    for table in rows(file, "SELECT name FROM sqlite_schema WHERE type = 'table'") {
        let count = rows(file, &format!("SELECT count(*) FROM {table}"));
        assert_ne!(count, ["0"], "{table}");
    }
}
