//! Paths of modules and items, as Rust code writes them.

use std::ops::Range;

use crate::source::{Kind, Source};

/// One path of a `use` tree, or a path in code.
pub struct Leaf {
    /// The token that it ends with.
    pub end: usize,
    /// The last one may be `*`.
    pub segments: Vec<String>,
}

/// The paths of the `use` tree, or the one path, that begins at `at`.
pub fn leaves(source: &Source, mut at: usize) -> Vec<Leaf> {
    let mut segments = Vec::new();
    loop {
        match source.tokens.get(at) {
            Some(token) if token.kind == Kind::Ident => segments.push(token.text.clone()),
            Some(token) if token.text == "*" => segments.push("*".into()),
            Some(token) if token.text == "{" => {
                let mut found = Vec::new();
                let mut next = at + 1;
                while next < token.mate {
                    found.extend(leaves(source, next).into_iter().map(|leaf| Leaf {
                        end: leaf.end,
                        segments: [segments.clone(), leaf.segments].concat(),
                    }));
                    while next < token.mate && source.text(next) != "," {
                        let group = source.text(next) == "{";
                        next = if group { source.tokens[next].mate } else { next } + 1;
                    }
                    next += 1;
                }
                return found;
            }
            _ => break,
        }
        if source.text(at + 1) != "::" {
            break;
        }
        at += 2;
    }
    vec![Leaf { end: at, segments }]
}

/// The module that the file at `path` is, as its path from the root of the crate whose files are below `root`.
pub fn module_of(root: &str, path: &str) -> Vec<String> {
    let path = path.trim_start_matches(root).trim_end_matches(".rs");
    path.split('/').filter(|part| *part != "mod").map(Into::into).collect()
}

/// The modules that are written inside the file, each with the tokens of its body.
fn inline_modules(source: &Source) -> Vec<(String, Range<usize>)> {
    let heads =
        source.idents().filter(|(at, token)| token.text == "mod" && source.text(at + 2) == "{");
    heads
        .map(|(at, _)| (source.text(at + 1).to_owned(), at + 2..source.tokens[at + 2].mate))
        .collect()
}

/// The module around the token at `at` of the file that is `module`.
pub fn module_at(source: &Source, module: &[String], at: usize) -> Vec<String> {
    let around = inline_modules(source).into_iter().filter(|(_, body)| body.contains(&at));
    module.iter().cloned().chain(around.map(|(name, _)| name)).collect()
}
