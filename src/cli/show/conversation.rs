//! Events as a conversation.

use super::{state, view::View};
use crate::{
    cli::{
        adk_file::{Part, lookup::member, parts},
        convert::body_of,
        terminal::{AGENT, DIM, REMOVED, TOOL, USER, escape, escape_lines, paint, wrap},
    },
    domain::json::{JsonType, minified},
    proto::v1,
};

/// Lines of one text, call or answer that are shown without `--full`.
const PART_LINES: usize = 12;

/// One event: who and when, what was said, which tools were called, and what it did to the state.
pub fn event(event: &v1::Event, view: &View) -> String {
    let body = body_of(event).map(minified);
    let style = if event.author == "user" { USER } else { AGENT };
    let number = format!("#{}", event.sequence);
    let author = escape(if event.author.is_empty() { "(no author)" } else { &event.author });
    let mut line = format!("{} {}", paint(DIM, number), paint(style, author));
    let mut about: Vec<_> = event.event_time.map(|time| view.time(time)).into_iter().collect();
    let named = [("branch", &event.branch, true), ("invocation", &event.invocation_id, view.full)];
    let named = named.into_iter().filter(|(_, id, shown)| *shown && !id.is_empty());
    about.extend(named.map(|(name, id, _)| format!("{name} {}", escape(id))));
    // A marker is never among the events that a reader sees, so that this says nothing about it.
    if event.rewound && event.rewind_to_sequence.is_none() {
        about.push("hidden by a rewind".to_owned());
    }
    line.push_str(&paint(DIM, format!("  {}", about.join(" · "))));
    let mut text = format!("\n{line}\n");
    if let Some(sequence) = event.rewind_to_sequence {
        let what = match sequence {
            0 => "« rewound to the start".to_owned(),
            sequence => format!("« rewound to #{sequence}"),
        };
        text.push_str(&format!("    {}\n", paint(REMOVED, what)));
    }
    for part in body.iter().flat_map(parts) {
        text.push_str(&said(&part, view));
    }
    text.extend(event.state_delta.iter().map(|delta| state::changes(delta, view)));
    text
}

fn said(part: &Part, view: &View) -> String {
    match part {
        Part::Text(text) => block(text, view),
        Part::Thought(text) => paint_lines(DIM, &block(text, view)),
        Part::Call { name, args } => {
            let name = format!("→ {}", escape(name));
            // A call of one object reads like a call in a program.
            let args = match args.json_type() {
                JsonType::Object => {
                    let members = args.members();
                    let args = members.iter().map(|(key, value)| format!("{key}: {value}"));
                    args.collect::<Vec<_>>().join(", ")
                }
                _ => args.to_string(),
            };
            hanging(TOOL, &name, &format!("({args})"), "", view)
        }
        Part::Answer { name, answer } => {
            // Tools that answer with one value wrap it into an object.
            let inner =
                member(answer, &["result", "output"]).filter(|_| answer.members().len() == 1);
            let answer = inner.unwrap_or_else(|| answer.clone());
            let answer = answer.decoded().map_or_else(|| answer.to_string(), |it| it.into_owned());
            hanging(TOOL, &format!("← {}", escape(name)), &answer, " ", view)
        }
        Part::Code(code) => paint_lines(TOOL, &block(code, view)),
        Part::Note(note) => {
            format!("    {}\n", paint(DIM, view.cut(&format!("[{}]", escape(note)), 4)))
        }
        Part::Error(error) => {
            format!("    {}\n", paint(REMOVED, view.cut(&format!("[{}]", escape(error)), 4)))
        }
        Part::Other(json) => paint_lines(DIM, &block(json.as_str(), view)),
    }
}

/// A mark and a name, then text that goes on below them.
fn hanging(style: anstyle::Style, name: &str, text: &str, gap: &str, view: &View) -> String {
    let whole = block(&format!("{name}{gap}{text}"), view);
    match whole.strip_prefix(&format!("    {name}")) {
        Some(rest) => format!("    {}{rest}", paint(style, name)),
        None => whole,
    }
}

/// Wrapped text, indented below its author.
fn block(text: &str, view: &View) -> String {
    let wrapped = wrap(&escape_lines(text.trim_end()), view.width, "    ");
    let lines = wrapped.lines().count();
    if view.full || lines <= PART_LINES + 1 {
        return wrapped;
    }
    let shown: String = wrapped.split_inclusive('\n').take(PART_LINES).collect();
    let left = lines - PART_LINES;
    format!("{shown}    {}\n", paint(DIM, format!("… {left} more lines (--full shows all)")))
}

fn paint_lines(style: anstyle::Style, text: &str) -> String {
    text.lines().map(|line| paint(style, line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use prost_types::Timestamp;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;
    use crate::proto::v1::{event::BodyForm, state_delta::SetForm};

    const VIEW: View =
        View { width: 60, full: false, now: Some(Timestamp { seconds: 120, nanos: 0 }) };

    fn made(author: &str, body: &str, set: &str) -> v1::Event {
        v1::Event {
            sequence: 7,
            author: author.to_owned(),
            event_time: Some(Timestamp { seconds: 60, nanos: 0 }),
            state_delta: Some(v1::StateDelta {
                set_form: Some(SetForm::SetJson(set.to_owned())),
                remove: Vec::new(),
                operations: Vec::new(),
            }),
            body_form: Some(BodyForm::BodyJson(body.to_owned())),
            ..Default::default()
        }
    }

    fn plain(event_: &v1::Event, view: &View) -> String {
        strip_str(&event(event_, view)).to_string()
    }

    #[test]
    fn an_event_reads_like_a_line_of_a_conversation() {
        let body = r#"{"content":{"parts":[{"text":"I look for shoes that keep the rain out, one moment please."},
            {"functionCall":{"name":"find","args":{"kind":"boots","max":3}}},
            {"functionResponse":{"name":"find","response":{"result":["a","b"]}}}]}}"#;
        let told = made("seller", body, r#"{"topic":"boots"}"#);
        assert_eq!(
            plain(&told, &VIEW),
            "\n#7 seller  1 minute ago\n    I look for shoes that keep the rain out, one moment\n    \
             please.\n    → find(kind: \"boots\", max: 3)\n    ← find [\"a\",\"b\"]\n    ~ topic = \"boots\"\n"
        );
    }

    #[test]
    fn colours_tell_the_user_from_the_agents() {
        let user = event(&made("user", "{}", "{}"), &VIEW);
        let agent = event(&made("seller", "{}", "{}"), &VIEW);
        assert!(user.contains(&paint(USER, "user")) && agent.contains(&paint(AGENT, "seller")));
    }

    #[test]
    fn no_text_of_an_event_reaches_the_terminal_as_a_control() {
        let evil = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}";
        let body = serde_json::json!({"content": {"parts": [
            {"text": evil}, {"function_call": {"name": evil, "args": {evil: evil}}},
            {"function_response": {"name": evil, "response": {"result": evil}}},
            {"file_data": {"file_uri": evil}}, {"executable_code": {"code": evil}}, {"other": evil},
        ]}, "error_message": evil});
        let mut told = made(evil, &body.to_string(), &serde_json::json!({evil: evil}).to_string());
        told.invocation_id = evil.to_owned();
        told.branch = evil.to_owned();
        told.state_delta.as_mut().unwrap().remove = vec![evil.to_owned()];
        for text in [event(&told, &VIEW)] {
            let shown = strip_str(&text).to_string();
            assert!(shown.contains("\\u{1b}"), "{shown}");
            let bad =
                |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
            assert!(!shown.contains(bad), "{shown:?}");
            // Only colours of our own are left.
            for code in text.split('\u{1b}').skip(1) {
                assert!(
                    code.starts_with('[')
                        && code[1..]
                            .trim_start_matches(|l: char| l.is_ascii_digit() || l == ';')
                            .starts_with('m'),
                    "{code:?}"
                );
            }
        }
    }

    #[test]
    fn long_texts_are_cut_and_no_line_is_wider_than_the_view() {
        let body = serde_json::json!({"text": "word ".repeat(2000)}).to_string();
        let told = made("user", &body, &serde_json::json!({"k": "v".repeat(500)}).to_string());
        let text = plain(&told, &VIEW);
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
        assert!(text.contains("more lines (--full shows all)"), "{text}");
        let full = plain(&told, &View { full: true, ..VIEW });
        assert_eq!(full.matches("word").count(), 2000);
        assert!(full.contains(&"v".repeat(500)));
    }

    #[test]
    fn a_rewind_and_what_it_hides_are_told() {
        let marker =
            v1::Event { rewind_to_sequence: Some(2), rewound: true, ..made("system", "{}", "{}") };
        let text = plain(&marker, &VIEW);
        assert!(text.contains("« rewound to #2") && !text.contains("hidden by a rewind"), "{text}");
        let hidden = v1::Event { rewound: true, ..made("user", "{}", "{}") };
        assert!(plain(&hidden, &VIEW).contains("hidden by a rewind"));
    }
}
