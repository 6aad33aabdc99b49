//! The terminal: its width, its colours, and text that is cut or wrapped to it.

use std::{borrow::Cow, fmt::Display, io};

use anstyle::{AnsiColor, Style};
use terminal_size::{Width, terminal_size_of};
use textwrap::WordSplitter;
use unicode_width::UnicodeWidthStr as _;

pub use super::hidden::{escape, escape_lines};

/// Columns of text without a known terminal, as in a pager.
const DEFAULT_COLUMNS: usize = 80;
/// Longer lines of text are hard to read.
pub const TEXT_COLUMNS: usize = 100;

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const ADDED: Style = AnsiColor::Green.on_default();
pub const REMOVED: Style = AnsiColor::Red.on_default();
pub const CHANGED: Style = AnsiColor::Yellow.on_default();
pub const USER: Style = AnsiColor::Cyan.on_default().bold();
pub const AGENT: Style = AnsiColor::Green.on_default().bold();
pub const TOOL: Style = AnsiColor::Yellow.on_default();

pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Columns of the terminal, also while standard output goes through a pager.
pub fn columns() -> usize {
    let sizes = [terminal_size_of(io::stdout()), terminal_size_of(io::stderr())];
    let known = sizes.into_iter().flatten().next();
    known.map_or(DEFAULT_COLUMNS, |(Width(columns), _)| usize::from(columns).max(20))
}

/// The text in at most `columns` columns; `…` stands for what is missing.
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    console::truncate_str(text, columns, "…")
}

/// The text wrapped to `columns`, each line behind `indent`. Empty lines stay.
pub fn wrap(text: &str, columns: usize, indent: &str) -> String {
    let columns = columns.saturating_sub(indent.width()).max(20);
    // An id such as `S-204` is one word.
    let options = textwrap::Options::new(columns).word_splitter(WordSplitter::NoHyphenation);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    textwrap::indent(&(textwrap::fill(text, options) + end), indent)
}

/// The lines of a message, wrapped between words. A line goes on deeper than it began; what has no blank, such as a path, stays whole.
pub fn wrap_message(text: &str, columns: usize) -> Cow<'_, str> {
    if text.lines().all(|line| line.width() <= columns) {
        return Cow::Borrowed(text);
    }
    let lines = text.lines().map(|line| {
        let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len() + 2);
        let options = textwrap::Options::new(columns)
            .subsequent_indent(&indent)
            .word_splitter(WordSplitter::NoHyphenation)
            .break_words(false);
        textwrap::wrap(line, options).join("\n")
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_truncated_by_columns_and_not_by_bytes() {
        assert_eq!(truncate("abc", 3), "abc");
        assert_eq!(truncate("abcd", 3), "ab…");
        assert_eq!(truncate("日本語", 6), "日本語");
        assert_eq!(truncate("日本語", 5), "日本…");
        assert_eq!(truncate("日本語", 4), "日…");
    }

    #[test]
    fn wrapped_lines_stay_within_the_columns_and_keep_empty_ones() {
        let text = "one two three four five six\n\nend";
        assert_eq!(wrap(text, 24, "  "), "  one two three four\n  five six\n\n  end\n");
        assert_eq!(wrap("a call of find(S-204)", 20, ""), "a call of\nfind(S-204)\n");
    }

    #[test]
    fn a_message_is_wrapped_between_words() {
        let text = "warning: one two three /a/long/path/that/stays\n  hint: four five six seven";
        assert_eq!(
            wrap_message(text, 24),
            "warning: one two three\n  /a/long/path/that/stays\n  hint: four five six\n    seven"
        );
        assert!(matches!(wrap_message("short", 24), Cow::Borrowed(_)));
    }
}
