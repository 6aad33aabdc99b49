//! A Rust file as tokens, so that no check is misled by a comment or a string.

use std::{ops::Range, str::FromStr};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// What a token is; `Open` and `Close` are the ends of a bracketed group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ident,
    Punct,
    Literal,
    Open,
    Close,
}

/// A token; `::` is one.
#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    /// Counted from 1.
    pub line: usize,
    pub kind: Kind,
    /// For `Open` and `Close`: where the other end is.
    pub mate: usize,
}

/// An attribute: the tokens between its brackets, and the tokens of what it belongs to.
pub struct Attribute {
    pub line: usize,
    pub inside: Range<usize>,
    pub covers: Range<usize>,
}

/// A Rust file.
pub struct Source {
    pub path: String,
    pub lines: Vec<String>,
    pub tokens: Vec<Token>,
}

impl Source {
    /// Reads `text` as the file at `path`, relative to the root of the repository.
    pub fn parse(path: &str, text: &str) -> Self {
        let stream = TokenStream::from_str(text)
            .unwrap_or_else(|error| panic!("{path} is no Rust: {error}"));
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        Self { path: path.into(), lines: text.lines().map(Into::into).collect(), tokens }
    }

    /// The token's text, or "" beyond the ends.
    pub fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    /// Whether a word (and not a part of a string) stands at `at`.
    pub fn is_ident(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Ident)
    }

    /// The words, each with its place.
    pub fn idents(&self) -> impl Iterator<Item = (usize, &Token)> {
        self.tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Ident)
    }

    /// Every attribute, `#[…]` as well as `#![…]`; documentation comments are attributes, too.
    pub fn attributes(&self) -> Vec<Attribute> {
        let hashes = (0..self.tokens.len()).filter(|&at| self.text(at) == "#");
        hashes
            .filter_map(|at| {
                let inner = self.text(at + 1) == "!";
                let open = at + 1 + usize::from(inner);
                if self.text(open) != "[" {
                    return None;
                }
                let close = self.tokens[open].mate;
                let end = if inner { self.end_of_group(at) } else { self.end_of_item(close + 1) };
                let line = self.tokens[at].line;
                Some(Attribute { line, inside: open + 1..close, covers: at..end })
            })
            .collect()
    }

    /// Every `use` item, up to its semicolon.
    pub fn use_trees(&self) -> Vec<Range<usize>> {
        let uses = self.idents().filter(|(_, token)| token.text == "use");
        uses.map(|(at, _)| at..self.end_of_item(at)).collect()
    }

    /// The parts of the file that exist in tests only; all of it where its name says so.
    pub fn test_code(&self) -> Vec<Range<usize>> {
        let path = &self.path;
        if path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs") {
            return std::iter::once(0..self.tokens.len()).collect();
        }
        let of_test = |attribute: &Attribute| {
            let words: Vec<_> = attribute.inside.clone().map(|at| self.text(at)).collect();
            let name = words.iter().position(|&word| word == "(").unwrap_or(words.len());
            match words.first() {
                Some(&"cfg") => words.contains(&"test") && !words.contains(&"not"),
                _ => name > 0 && words[name - 1] == "test",
            }
        };
        self.attributes().into_iter().filter(of_test).map(|attribute| attribute.covers).collect()
    }

    /// The end of the innermost group around `at`.
    fn end_of_group(&self, at: usize) -> usize {
        let groups = self.tokens.iter().enumerate().take(at).filter(|(_, t)| t.kind == Kind::Open);
        groups
            .map(|(_, open)| open.mate)
            .filter(|&close| close > at)
            .min()
            .unwrap_or(self.tokens.len())
    }

    /// The end of the item or statement that begins at `at`, further attributes included.
    fn end_of_item(&self, mut at: usize) -> usize {
        while self.text(at) == "#" && self.text(at + 1) == "[" {
            at = self.tokens[at + 1].mate + 1;
        }
        let mut has_body = false;
        while let Some(token) = self.tokens.get(at) {
            match (token.kind, token.text.as_str()) {
                (
                    Kind::Ident,
                    "fn" | "impl" | "mod" | "trait" | "struct" | "enum" | "macro_rules",
                ) => {
                    has_body = true;
                }
                (Kind::Open, "{") if has_body => return token.mate + 1,
                (Kind::Open, _) => at = token.mate,
                (Kind::Punct, ";") => return at + 1,
                // Between variants, fields and arms; the generics of an item hold commas, too.
                (Kind::Punct, ",") if !has_body => return at + 1,
                (Kind::Close, _) => return at,
                _ => {}
            }
            at += 1;
        }
        at
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut joint_colon = false;
    for tree in stream {
        let line = tree.span().start().line;
        let (kind, text) = match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let start = tokens.len();
                tokens.push(Token { text: open.into(), line, kind: Kind::Open, mate: 0 });
                flatten(group.stream(), tokens);
                tokens[start].mate = tokens.len();
                let line = group.span_close().end().line;
                tokens.push(Token { text: close.into(), line, kind: Kind::Close, mate: start });
                joint_colon = false;
                continue;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && joint_colon => {
                joint_colon = false;
                if let Some(first) = tokens.last_mut() {
                    first.text = "::".into();
                }
                continue;
            }
            TokenTree::Punct(punct) => {
                joint_colon = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                (Kind::Punct, punct.to_string())
            }
            TokenTree::Ident(ident) => {
                (Kind::Ident, ident.to_string().trim_start_matches("r#").to_owned())
            }
            TokenTree::Literal(literal) => (Kind::Literal, literal.to_string()),
        };
        joint_colon &= text == ":";
        tokens.push(Token { text, line, kind, mate: 0 });
    }
}

#[test]
fn attributes_cover_what_they_stand_on() {
    let source = Source::parse(
        "src/x.rs",
        "#[a] use b::{c}; #[d] let e = F { g }.h(); #[i] fn j<K, L>() { m(); } #[n] O { p, q }, r",
    );
    let covered: Vec<_> = source
        .attributes()
        .iter()
        .map(|found| source.tokens[found.covers.clone()].iter().map(|token| &*token.text).collect())
        .collect::<Vec<String>>();
    assert_eq!(
        covered,
        ["#[a]useb::{c};", "#[d]lete=F{g}.h();", "#[i]fnj<K,L>(){m();}", "#[n]O{p,q},"]
    );
}

#[test]
fn inner_attributes_cover_their_group() {
    let source = Source::parse("src/x.rs", "a { b { #![c] d } e }");
    let covers = source.attributes().remove(0).covers;
    assert_eq!((source.text(covers.start), source.text(covers.end - 1)), ("#", "d"));
    let whole = Source::parse("src/x.rs", "#![a] b {} c");
    assert_eq!(whole.attributes().remove(0).covers, 0..whole.tokens.len());
}

#[test]
fn test_code_is_told_by_attribute_or_name() {
    let parts = |path, text| Source::parse(path, text).test_code().len();
    assert_eq!(parts("src/x.rs", "#[cfg(test)] mod a {} #[test] fn b() {}"), 2);
    assert_eq!(parts("src/x.rs", "#[tokio::test(start_paused = true)] async fn a() {}"), 1);
    assert_eq!(parts("src/x.rs", "#[cfg(all(unix, test))] mod a {}"), 1);
    assert_eq!(
        parts("src/x.rs", "#[cfg(not(test))] mod a {} #[derive(x)] struct Test; fn b() {}"),
        0
    );
    assert_eq!(parts("src/x/tests.rs", "fn a() {}"), 1);
    assert_eq!(parts("tests/x.rs", "fn a() {}"), 1);
}
