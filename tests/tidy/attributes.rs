//! Attributes that silence a lint give a reason, and no test is ignored.

use crate::{
    Violation,
    source::{Kind, Source},
};

/// `allow` and `expect` without a reason, `ignore`, and examples in documentation that are left out.
pub fn attributes(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for attribute in source.attributes() {
        let violation = |says: &str| Violation::new(&source.path, attribute.line, says);
        let name = source.text(attribute.inside.start);
        for at in attribute.inside.clone() {
            let (text, next) = (source.text(at), source.text(at + 1));
            if !source.is_ident(at) {
                continue;
            }
            if matches!(text, "allow" | "expect") && next == "(" && !has_reason(source, at + 1) {
                found.push(violation(&format!("`{text}` needs a reason")));
            }
            if text == "ignore" && (name == "cfg_attr" || name == "ignore") {
                found.push(violation("a test that is ignored tests nothing"));
            }
        }
        if name == "doc" && leaves_out(source.text(attribute.inside.end - 1)) {
            found.push(violation("an example in the documentation runs, or is `text`"));
        }
    }
    found
}

/// Whether the group that opens at `open` holds `reason = "…"` with something in it.
fn has_reason(source: &Source, open: usize) -> bool {
    (open..source.tokens[open].mate).any(|at| {
        let literal = source.tokens.get(at + 2).filter(|token| token.kind == Kind::Literal);
        source.text(at) == "reason"
            && source.text(at + 1) == "="
            && literal.is_some_and(|reason| reason.text.trim_matches(['"', ' ']).len() > 3)
    })
}

fn leaves_out(documentation: &str) -> bool {
    let fence = documentation.trim_matches(['"', ' ']).strip_prefix("```");
    fence.is_some_and(|language| language.split([',', ' ']).any(|word| word == "ignore"))
}

#[test]
fn silence_without_a_reason_is_seen() {
    for text in [
        "#[allow(dead_code)] fn f() {}",
        "#![allow(dead_code)]",
        "#[expect(dead_code, reason = \"\")] fn f() {}",
        "#[cfg_attr(test, allow(dead_code))] fn f() {}",
        "#[cfg_attr(windows, ignore)] fn f() {}",
        "#[ignore] fn f() {}",
        "#[ignore = \"slow\"] fn f() {}",
        "/// ```ignore\n/// f()\n/// ```\nfn f() {}",
        "//! ```rust, ignore\n//! f()\n//! ```\n",
    ] {
        assert_eq!(attributes(&Source::parse("tests/x.rs", text)).len(), 1, "{text}");
    }
}

#[test]
fn reasons_are_accepted() {
    for text in [
        "#[allow(dead_code, reason = \"read by the other half\")] fn f() {}",
        "#![expect(clippy::expect_used, reason = \"tests\")]",
        "#[cfg_attr(test, allow(dead_code, reason = \"for tests\"))] fn f() {}",
        "fn f() { g.expect(h); ignore(i) } // #[ignore]",
        "/// ```\n/// f()\n/// ```\n/// To ignore it is fine.\nfn f() {}",
    ] {
        assert_eq!(attributes(&Source::parse("src/x.rs", text)), [], "{text}");
    }
}
