//! Writes JSON strings.

/// Appends the string `head` followed by `tail`, in quotes.
pub fn push_string(text: &mut String, head: &str, tail: &str) {
    text.push('"');
    for part in [head, tail] {
        if is_plain(part) {
            text.push_str(part);
        } else {
            text.push_str(&escape(part));
        }
    }
    text.push('"');
}

/// Bytes of a string as JSON text, without its quotes.
pub fn text_bytes(value: &str) -> usize {
    if is_plain(value) { value.len() } else { escape(value).len() }
}

/// Whether a string needs no escapes. Has no early exit, so that the compiler vectorises it.
fn is_plain(value: &str) -> bool {
    value
        .bytes()
        .fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
}

/// A string as JSON text, without its quotes.
fn escape(value: &str) -> String {
    // serde_json can write every string.
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.pop();
    text.split_off(1)
}
