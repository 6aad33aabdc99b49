//! State, its changes, and the difference between two states, as lines.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr as _;

use super::view::View;
use crate::{
    cli::{
        adk_file::lookup::member,
        convert::set_members,
        terminal::{ADDED, BOLD, CHANGED, DIM, REMOVED, escape, paint},
    },
    domain::{
        json::{Json, JsonType, minified, same_value},
        scope::StateKey,
    },
    proto::v1,
};

/// Columns that the names of keys may take, so that values stay visible.
const KEY_COLUMNS: usize = 32;

/// Every key with its value, in the order of their scopes.
pub fn state(json: &Json, view: &View) -> String {
    let members = json.members().into_iter();
    let members: BTreeMap<_, _> =
        members.map(|(key, value)| (StateKey::from_stored(key), value)).collect();
    if members.is_empty() {
        return format!("{}\n", paint(DIM, "  (no keys)"));
    }
    let widest = members.keys().map(|key| escape(key.as_str()).width()).max().unwrap_or_default();
    let column = widest.min(KEY_COLUMNS);
    let mut text = String::new();
    for (key, value) in &members {
        let key = escape(key.as_str());
        let pad = " ".repeat(column.saturating_sub(key.width()));
        let value = view.cut(&escape(value.as_str()), column.max(key.width()) + 4);
        text.push_str(&format!("  {}{pad}  {value}\n", paint(BOLD, &key)));
    }
    text
}

/// The changes of an event as `key = value` and `- key`.
pub fn changes(delta: &v1::StateDelta, view: &View) -> String {
    let mut text = String::new();
    for (key, value) in set_members(delta) {
        let (key, value) = (escape(&key), minified(value.as_str()));
        let value = view.cut(&escape(value.as_str()), key.width() + 9);
        text.push_str(&format!("    {} {key} = {value}\n", paint(CHANGED, "~")));
    }
    for key in &delta.remove {
        text.push_str(&format!("    {} {}\n", paint(REMOVED, "-"), escape(key)));
    }
    text
}

/// A delta, as it is printed, in a few words, for a cell of a table.
pub fn gist(delta: &Json) -> String {
    let set = member(delta, &["set"]).map(|set| set.members()).unwrap_or_default();
    let removed = member(delta, &["remove"]).map(|keys| keys.items()).unwrap_or_default();
    let set = set.into_iter().map(|(key, value)| format!("{key}={value}"));
    let removed = removed.iter().map(|key| format!("-{}", key.decoded().unwrap_or_default()));
    set.chain(removed).collect::<Vec<_>>().join(" ")
}

/// How `before` became `after`, a line per difference; within objects per member.
pub fn differences(before: &Json, after: &Json, view: &View) -> String {
    let mut text = String::new();
    compare("", before, after, view, &mut text);
    if text.is_empty() {
        return format!("{}\n", paint(DIM, "  (no difference)"));
    }
    text
}

fn compare(path: &str, before: &Json, after: &Json, view: &View, to: &mut String) {
    let [before, after] =
        [before, after].map(|json| json.members().into_iter().collect::<BTreeMap<_, _>>());
    let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let shown = escape(key);
        let shown = if path.is_empty() { shown.into_owned() } else { format!("{path}.{shown}") };
        let value = |json: &Json| escape(json.as_str()).into_owned();
        let line = match (before.get(key), after.get(key)) {
            (Some(old), Some(new)) if same_value(old, new) => continue,
            (Some(old), Some(new)) if [old, new].map(Json::json_type) == [JsonType::Object; 2] => {
                compare(&shown, old, new, view, to);
                continue;
            }
            (Some(old), Some(new)) => {
                // Each value gets half of what the key leaves.
                let width = view.width.saturating_sub(shown.width() + 11) / 2;
                let cut = |json: &Json| View { width, ..*view }.cut(&value(json), 0);
                format!("{} {shown}: {} → {}", paint(CHANGED, "~"), cut(old), cut(new))
            }
            (None, Some(new)) => {
                let cut = view.cut(&value(new), shown.width() + 7);
                format!("{} {shown}: {cut}", paint(ADDED, "+"))
            }
            (Some(old), None) => {
                let cut = view.cut(&value(old), shown.width() + 7);
                format!("{} {shown}: {}", paint(REMOVED, "-"), paint(DIM, cut))
            }
            (None, None) => continue,
        };
        to.push_str(&format!("  {line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::proto::v1::state_delta::SetForm;

    fn json(text: &str) -> Json {
        Json::object(text.to_owned()).unwrap()
    }

    fn plain(text: &str) -> String {
        strip_str(text).to_string()
    }

    const VIEW: View = View { width: 40, full: false, now: None };

    #[test]
    fn state_lists_the_widest_scope_first_and_is_cut_to_the_width() {
        let long = format!(
            r#"{{"temp:t":1,"topic":"{}","user:n":1.00,"app:theme":"dark"}}"#,
            "x".repeat(99)
        );
        let text = plain(&state(&json(&long), &VIEW));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], ["  app:theme  \"dark\"", "  user:n     1.00"]);
        assert_eq!(lines[2].chars().count(), 40, "{text}");
        assert_eq!(lines[3], "  temp:t     1");
        assert!(
            plain(&state(&json(&long), &View { full: true, ..VIEW })).contains(&"x".repeat(99))
        );
        assert_eq!(plain(&state(&json("{}"), &VIEW)), "  (no keys)\n");
    }

    #[test]
    fn changes_tell_sets_from_removals() {
        let set_form = Some(SetForm::SetJson(r#"{ "a": [ 1 ], "user:b": "x" }"#.to_owned()));
        let remove = vec!["gone\u{7}".to_owned()];
        let delta = v1::StateDelta { set_form, remove, operations: Vec::new() };
        assert_eq!(
            plain(&changes(&delta, &VIEW)),
            "    ~ a = [1]\n    ~ user:b = \"x\"\n    - gone\\u{7}\n"
        );
        let printed = json(r#"{"set":{"a":1,"user:b":"x"},"remove":["gone\u0007"]}"#);
        assert_eq!(gist(&printed), "a=1 user:b=\"x\" -gone\u{7}");
    }

    #[test]
    fn a_difference_is_told_by_member_and_not_by_white_space() {
        let before = json(r#"{"same":{"a":1,"b":2},"p":{"age":3,"name":"x"},"gone":1,"n":1}"#);
        let after = json(r#"{"same":{"b":2, "a":1.0},"p":{"age":4,"name":"x"},"new":[1],"n":2}"#);
        assert_eq!(
            plain(&differences(&before, &after, &VIEW)),
            "  - gone: 1\n  ~ n: 1 → 2\n  + new: [1]\n  ~ p.age: 3 → 4\n"
        );
        assert_eq!(plain(&differences(&before, &before, &VIEW)), "  (no difference)\n");
    }
}
