//! Ranges of names, and the texts before them.

use super::*;

#[test]
fn nothing_lies_between_a_name_and_the_text_before_it() {
    for name in ["a", "shop", "sho\u{1}", "\u{1}", "\u{e000}", "é", "a\u{10ffff}"] {
        let before = before(name);
        assert!(*before < *name, "{name:?}");
        // The greatest name below it that could be.
        let mut chars: Vec<char> = name.chars().collect();
        let last = chars.pop().unwrap();
        let below: String = chars.iter().collect();
        assert!(below <= before);
        if let Some(previous) = ('\u{1}'..last).next_back() {
            let mut greatest = below;
            greatest.push(previous);
            while greatest.len() + 4 <= ID_BYTES {
                greatest.push('\u{10ffff}');
            }
            assert!(greatest <= before, "{name:?}");
        }
    }
}

#[test]
fn ranges_do_not_overlap() {
    for (texts, expected) in [
        (&["shop", "a", "sho*", "shop*", "shop2", "b", "a"][..], &["a", "b", "sho*"][..]),
        (&["*", "a"], &["*"]),
        (&["ab", "a"], &["a", "ab"]),
    ] {
        let [given, left] = [texts, expected]
            .map(|texts| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>());
        assert_eq!(ranges(&given), left.iter().collect::<Vec<_>>());
    }
}
