//! Halves of surrogate pairs, `\ud83d` alone: a text was cut within an emoji. No Unicode text has them.
//!
//! In a value or a body a half becomes U+FFFD, as it does in every decoder that goes on. Two keys or ids could become one by that, so
//! there a half is refused.

use std::borrow::Cow;

/// The JSON text with U+FFFD for each half.
pub fn mend(text: &str) -> Cow<'_, str> {
    let mut mended = Cow::Borrowed(text);
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix(r"\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(skipped) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += skipped;
        at += match (unit(at), unit(at + 6)) {
            (None, _) => 2,
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                mended.to_mut().replace_range(at..at + 6, r"\ufffd");
                6
            }
            _ => 6,
        };
    }
    mended
}

/// Whether a text of JSON, or its characters, may have had a half: others do not write U+FFFD into a file beside halves.
pub fn is_mended(text: &str) -> bool {
    text.contains(r"\ufffd") || text.contains('\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_become_the_replacement_character() {
        for (text, mended) in [
            (r#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#),
            (r#"["\uD83D\ud83d\ude00\ude00"]"#, r#"["\ufffd\ud83d\ude00\ufffd"]"#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\ud83d"#, r#""\ufffd"#),
        ] {
            assert_eq!(mend(text), mended);
        }
        for whole in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""é 😀 \u00e9""#, r#""\u"#, "\\"] {
            assert!(matches!(mend(whole), Cow::Borrowed(_)), "{whole}");
        }
    }
}
