//! Characters that control a terminal, reorder its text or do not show, and their escapes.
//!
//! Stored text may hold any of them: an escape sequence clears the screen or sets its title, and a character without a glyph makes two
//! ids look alike. Everything that a command prints passes through here on its way to a terminal.

use std::{borrow::Cow, fmt::Write as _};

/// How a text is escaped, so that its reader still understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON, where hidden characters occur in strings alone: `\u009b`, in UTF-16, so that the value stays.
    Json,
    /// A YAML document, whose readers do not join two halves: `\u009b`, and `\U000e0041` beyond 16 bits.
    Yaml,
    /// Lines of plain text: `\u{9b}`.
    Text,
    /// The same with our own colours in it, which stay.
    Painted,
}

/// Before the letters of these scripts, and before emoji, joiners change how a neighbour is drawn.
const FIRST_JOINED: char = '\u{600}';
/// Before them no character has an emoji as its variant, but for keycaps.
const FIRST_VARIED: char = '\u{a9}';
const KEYCAP: char = '\u{20e3}';

/// Whether the character must not reach a terminal: the controls (C0, DEL, C1), and those that Unicode calls default ignorable, which
/// are bidirectional controls, zero-width characters and tags; also line and paragraph separators and annotations.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{fffe}'..='\u{ffff}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether a hidden character does what it is made for, in an emoji or a script that needs it.
fn shapes(before: Option<char>, letter: char, after: Option<char>) -> bool {
    let is_variation = |letter| matches!(letter, '\u{fe00}'..='\u{fe0f}');
    let joins = |near: char| near >= FIRST_JOINED && (!is_hidden(near) || is_variation(near));
    match letter {
        '\u{200c}' | '\u{200d}' => before.is_some_and(joins) && after.is_some_and(joins),
        letter if is_variation(letter) => {
            let varies = |near: char| near >= FIRST_VARIED && !is_hidden(near);
            before.is_some_and(varies) || after == Some(KEYCAP)
        }
        _ => false,
    }
}

/// The text with its hidden characters as escapes. Line breaks stay: within a string of JSON or YAML they are escaped already.
pub fn escape_in(form: Form, text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| letter != '\n' && is_hidden(letter)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = None;
    for (at, letter) in text.char_indices() {
        let rest = &text[at + letter.len_utf8()..];
        let is_shown = match form {
            _ if letter == '\n' || !is_hidden(letter) => true,
            Form::Painted if letter == '\u{1b}' => is_colour(rest),
            Form::Text | Form::Painted => shapes(before, letter, rest.chars().next()),
            Form::Json | Form::Yaml => false,
        };
        match form {
            _ if is_shown => shown.push(letter),
            Form::Text | Form::Painted => shown.extend(letter.escape_default()),
            Form::Yaml if u32::from(letter) > 0xffff => {
                let _ = write!(shown, "\\U{:08x}", u32::from(letter));
            }
            Form::Json | Form::Yaml => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
        }
        before = Some(letter);
    }
    Cow::Owned(shown)
}

/// Whether an escape character begins a sequence of ours: it selects a colour or a style, and nothing else.
fn is_colour(rest: &str) -> bool {
    let digits = |letter: char| letter.is_ascii_digit() || letter == ';';
    rest.strip_prefix('[').is_some_and(|rest| rest.trim_start_matches(digits).starts_with('m'))
}

/// Lines without other hidden characters.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_in(Form::Text, text)
}

/// One line without hidden characters.
pub fn escape(text: &str) -> Cow<'_, str> {
    let text = escape_lines(text);
    if text.contains('\n') { Cow::Owned(text.replace('\n', "\\n")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One or more of each kind, and what stands for it in lines of text.
    const HIDDEN: [(char, &str); 24] = [
        ('\0', "\\u{0}"),
        ('\u{7}', "\\u{7}"),
        ('\u{8}', "\\u{8}"),
        ('\r', "\\r"),
        ('\u{1b}', "\\u{1b}"),
        ('\u{7f}', "\\u{7f}"),
        ('\u{85}', "\\u{85}"),
        ('\u{9b}', "\\u{9b}"),
        ('\u{9d}', "\\u{9d}"),
        ('\u{ad}', "\\u{ad}"),
        ('\u{61c}', "\\u{61c}"),
        ('\u{200b}', "\\u{200b}"),
        ('\u{200d}', "\\u{200d}"),
        ('\u{200e}', "\\u{200e}"),
        ('\u{200f}', "\\u{200f}"),
        ('\u{2028}', "\\u{2028}"),
        ('\u{2029}', "\\u{2029}"),
        ('\u{202e}', "\\u{202e}"),
        ('\u{2060}', "\\u{2060}"),
        ('\u{2066}', "\\u{2066}"),
        ('\u{2069}', "\\u{2069}"),
        ('\u{feff}', "\\u{feff}"),
        ('\u{e0041}', "\\u{e0041}"),
        ('\u{e0100}', "\\u{e0100}"),
    ];

    #[test]
    fn hidden_characters_are_shown_as_escapes() {
        for (letter, shown) in HIDDEN {
            assert_eq!(escape(&format!("a{letter}b")), format!("a{shown}b"));
            assert_eq!(escape_in(Form::Painted, &format!("{letter}b")), format!("{shown}b"));
        }
        assert_eq!(escape("a\n\tb"), "a\\n\\tb");
        assert_eq!(escape_lines("é\nb\tc"), "é\nb\\tc");
        assert!(matches!(escape("plain é 😀"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_value() {
        for (letter, _) in HIDDEN {
            let line = serde_json::to_string(&format!("a{letter}b")).unwrap() + "\n";
            let shown = escape_in(Form::Json, &line);
            assert!(shown.trim_end_matches('\n').chars().all(|it| !is_hidden(it)), "{shown:?}");
            let read: String = serde_json::from_str(&shown).unwrap();
            assert_eq!(read, format!("a{letter}b"));
        }
        assert_eq!(escape_in(Form::Json, "\"\u{9b}\u{e0041}\""), "\"\\u009b\\udb40\\udc41\"");
        assert_eq!(escape_in(Form::Yaml, "\"\u{e0041}\""), "\"\\U000e0041\"");
        assert_eq!(escape_in(Form::Json, "\"👩\u{200d}💻\""), "\"👩\\u200d💻\"");
    }

    #[test]
    fn only_our_colours_pass() {
        let painted = "\u{1b}[1;31mred\u{1b}[0m\n";
        assert_eq!(escape_in(Form::Painted, painted), painted);
        assert_eq!(escape_in(Form::Text, painted), "\\u{1b}[1;31mred\\u{1b}[0m\n");
        for evil in ["\u{1b}[2J", "\u{1b}]0;title", "\u{1b}[31", "\u{1b}c", "\u{1b}[?25l"] {
            assert!(escape_in(Form::Painted, evil).starts_with("\\u{1b}"), "{evil:?}");
        }
    }

    #[test]
    fn emoji_and_scripts_that_need_a_joiner_keep_it() {
        for text in ["👩\u{200d}💻", "❤\u{fe0f}\u{200d}🔥", "1\u{fe0f}\u{20e3}", "می\u{200c}خواهم"]
        {
            assert_eq!(escape(text), text);
        }
        for text in [
            "a\u{200d}b",
            "é\u{200c}é",
            "م\u{200d}",
            "\u{200d}💻",
            "a\u{fe0f}",
            "👩\u{200d}\u{200d}💻",
        ] {
            assert!(escape(text).contains("\\u{"), "{text:?}");
        }
    }
}
