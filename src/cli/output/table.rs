//! Tables for people: a list with a line per item, and a record with a line per field.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};
use prost_types::Timestamp;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    cli::{
        adk_file::{is_internal, lookup},
        terminal::{BOLD, escape, paint},
        time,
    },
    domain::json::{Json, JsonType},
};

/// One column of a list. Paths that end in `_time` show how long ago, and `labels` show `name=value, …`.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub heading: &'static str,
    /// Path of the value within an item: `key.session_id`.
    pub path: &'static str,
    gist: Option<fn(&Json) -> String>,
    overflow: Overflow,
}

/// What happens to a column in a table that is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Overflow {
    /// It stays whole, so that its values can be copied.
    Whole,
    Cut,
    /// It is left out; those with a greater number first.
    Left(u8),
}

impl Column {
    pub const fn new(heading: &'static str, path: &'static str) -> Self {
        Self { heading, path, gist: None, overflow: Overflow::Cut }
    }

    /// Of ids, which are never cut.
    pub const fn id(heading: &'static str, path: &'static str) -> Self {
        Self { overflow: Overflow::Whole, ..Self::new(heading, path) }
    }

    /// Of a table that is too wide, the columns with the greatest order are left out first.
    pub const fn left_out(self, order: u8) -> Self {
        Self { overflow: Overflow::Left(order), ..self }
    }

    /// Shows the gist of its values.
    pub const fn gist(self, gist: fn(&Json) -> String) -> Self {
        Self { gist: Some(gist), ..self }
    }

    fn text(&self, item: &Json, now: Timestamp) -> String {
        let Some(value) = lookup::at(item, self.path) else { return String::new() };
        if let Some(gist) = self.gist {
            return escape(&gist(&value)).into_owned();
        }
        if self.path == "labels" {
            let mut labels = value.members();
            labels.retain(|(name, _)| !is_internal(name));
            let labels =
                labels.iter().map(|(name, value)| format!("{}={}", escape(name), plain(value)));
            return labels.collect::<Vec<_>>().join(", ");
        }
        let text = plain(&value);
        time_at(self.path, &text).map_or(text, |time| time::ago(time, now))
    }
}

/// The time of a text that stands at a path of times.
fn time_at(path: &str, text: &str) -> Option<Timestamp> {
    time::parse(text).ok().filter(|_| path.ends_with("_time"))
}

fn plain(value: &Json) -> String {
    match value.decoded() {
        Some(text) => escape(&text).into_owned(),
        None => escape(value.as_str()).into_owned(),
    }
}

/// Columns of the terminal that a column keeps when it is cut.
const LEAST_CUT: usize = 8;
/// Between two columns.
const GAP: usize = 2;

/// The items with their headings, cut to `width` columns, unless ids alone need more. Columns in which no item has a value are left out.
pub fn list(columns: &[Column], items: &[Json], now: Timestamp, width: usize) -> String {
    let filled = columns
        .iter()
        .map(|column| (column, items.iter().map(|item| column.text(item, now)).collect()));
    let mut filled: Vec<(&Column, Vec<String>)> =
        filled.filter(|(_, texts): &(_, Vec<_>)| texts.iter().any(|it| !it.is_empty())).collect();
    let least_width = |(column, texts): &(&Column, Vec<String>)| {
        let most = if column.overflow == Overflow::Cut { LEAST_CUT } else { usize::MAX };
        let widths = texts.iter().map(|text| text.width());
        widths.max().unwrap_or_default().max(column.heading.width()).min(most) + GAP
    };
    let least = |filled: &[_]| filled.iter().map(least_width).sum::<usize>().saturating_sub(GAP);
    while least(&filled) > width
        && let Some(last) = filled.iter().map(|(column, _)| column.overflow).max()
        && last > Overflow::Cut
    {
        filled.retain(|(column, _)| column.overflow != last);
    }
    let mut table = new_table(width.max(least(&filled)));
    table.add_row(single_line(filled.iter().map(|(column, _)| column.heading.to_owned())));
    for at in 0..items.len() {
        table.add_row(single_line(filled.iter().map(|(_, texts)| texts[at].clone())));
    }
    for (shown, (column, _)) in table.column_iter_mut().zip(&filled) {
        if column.overflow != Overflow::Cut {
            shown.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let text = print(table);
    let (headings, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let end = if rest.is_empty() { "" } else { "\n" };
    format!("{}\n{rest}{end}", paint(BOLD, headings))
}

pub fn record(json: &Json, now: Timestamp, width: usize) -> String {
    let mut fields = Vec::new();
    flatten("", json, now, &mut fields);
    let mut table = new_table(width);
    for (path, value) in fields {
        table.add_row(single_line([path, value].into_iter()));
    }
    format!("{}\n", print(table))
}

fn flatten(path: &str, json: &Json, now: Timestamp, to: &mut Vec<(String, String)>) {
    let joined = |name: &str| match path {
        "" => escape(name).into_owned(),
        path => format!("{path}.{}", escape(name)),
    };
    let mut members = json.members();
    if path.ends_with("labels") {
        members.retain(|(name, _)| !is_internal(name));
        if members.is_empty() {
            return;
        }
    }
    if path.rsplit('.').next() == Some("state") && json.json_type() == JsonType::Object {
        // A dot may be part of a key, so that a value stays whole, as JSON.
        to.extend(
            members.iter().map(|(key, value)| (joined(key), escape(value.as_str()).into_owned())),
        );
        return;
    }
    if !members.is_empty() && !path.ends_with("body") {
        for (name, value) in members {
            flatten(&joined(&name), &value, now, to);
        }
        return;
    }
    let items = json.items();
    if items.iter().any(|item| item.json_type() == JsonType::Object) {
        for (at, item) in items.iter().enumerate() {
            flatten(&joined(&at.to_string()), item, now, to);
        }
        return;
    }
    let mut text = plain(json);
    if let Some(time) = time_at(path, &text) {
        text = format!("{} ({})", time::clock(time), time::ago(time, now));
    }
    to.push((path.to_owned(), text));
}

fn new_table(width: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table
}

/// The table without space at the left and with two columns between its own.
fn print(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A row that is cut where the table is too wide, and never wrapped.
fn single_line(cells: impl Iterator<Item = String>) -> Row {
    let mut row = Row::from(cells.collect::<Vec<_>>());
    row.max_height(1);
    row
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::new("SESSION", "key.session_id"),
        Column::new("LAST EVENT", "last_event_time"),
        Column::new("NAME", "display_name"),
        Column::new("LABELS", "labels"),
    ];

    const NOW: Timestamp = Timestamp { seconds: 7200, nanos: 0 };

    fn item(text: &str) -> Json {
        Json::object(text.to_owned()).unwrap()
    }

    fn lines(text: &str) -> Vec<String> {
        strip_str(text).to_string().lines().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_list_has_headings_and_no_column_without_values() {
        let items = [
            item(
                r#"{"key":{"session_id":"s1"},"last_event_time":"1970-01-01T00:00:00Z","labels":{"tier":"gold"}}"#,
            ),
            item(r#"{"key":{"session_id":"s\u001b2"},"last_event_time":"1970-01-01T01:59:00Z"}"#),
        ];
        let shown = lines(&list(&COLUMNS, &items, NOW, 80));
        assert_eq!(
            shown,
            [
                "SESSION   LAST EVENT    LABELS",
                "s1        2 hours ago   tier=gold",
                "s\\u{1b}2  1 minute ago",
            ]
        );
    }

    #[test]
    fn a_list_is_cut_to_the_width_of_the_terminal() {
        let long =
            format!(r#"{{"key":{{"session_id":"s"}},"display_name":"{}"}}"#, "長い ".repeat(60));
        let text = list(&COLUMNS, &[item(&long)], NOW, 40);
        for line in lines(&text) {
            assert!(line.width() <= 40, "{line}");
        }
        assert_eq!(lines(&text).len(), 2, "a row is one line: {text}");
    }

    #[test]
    fn ids_are_whole_and_labels_and_names_give_way() {
        const COLUMNS: [Column; 4] = [
            Column::id("SESSION", "id"),
            Column::new("USER", "user"),
            Column::new("NAME", "name").left_out(8),
            Column::new("LABELS", "labels").left_out(9),
        ];
        let id = "5185a7b3-ef3a-42dd-9a3b-0123456789ab";
        let text = format!(
            r#"{{"id":"{id}","user":"somebody@example.com","name":"Shoes for the rain","labels":{{"tier":"gold and more","sessiond-adk/creation":"d0"}}}}"#
        );
        let shown = |width| lines(&list(&COLUMNS, &[item(&text)], NOW, width));
        let heading = |width| shown(width)[0].split_whitespace().collect::<Vec<_>>().join(" ");
        for (width, headings) in [
            (120, "SESSION USER NAME LABELS"),
            (80, "SESSION USER NAME"),
            (60, "SESSION USER"),
            (30, "SESSION USER"),
        ] {
            assert_eq!(heading(width), headings, "{width}");
            assert!(shown(width)[1].starts_with(id), "{:?}", shown(width));
            assert!(width < 46 || shown(width).iter().all(|line| line.width() <= width));
        }
        assert!(!shown(120)[1].contains("sessiond-adk"), "{:?}", shown(120));
        assert!(shown(120)[1].contains("tier=gold and more"), "{:?}", shown(120));
    }

    #[test]
    fn a_record_names_its_fields_by_their_paths() {
        let answer = item(
            r#"{"session":{"key":{"app_name":"a"},"state":{"app:x":{"y":1.0},"s":"x"},"labels":{"sessiond-adk/creation":"d0"},"create_time":"1970-01-01T01:00:00Z","remove":["a","b"]},"replayed":false,"body":{"k":1}}"#,
        );
        let shown = lines(&record(&answer, NOW, 100));
        assert_eq!(
            shown,
            [
                "session.key.app_name  a",
                "session.state.app:x   {\"y\":1.0}",
                "session.state.s       \"x\"",
                "session.create_time   1970-01-01 01:00:00Z (1 hour ago)",
                "session.remove        [\"a\",\"b\"]",
                "replayed              false",
                "body                  {\"k\":1}",
            ]
        );
    }
}
