//! Ids within messages.

use super::limits::QUOTED_BYTES;

/// Truncates an id that a message quotes at 64 bytes, at a character, and marks that with an ellipsis.
pub fn quoted(id: &str) -> String {
    if id.len() <= QUOTED_BYTES {
        return id.to_owned();
    }
    let cut = (0..=QUOTED_BYTES).rev().find(|&at| id.is_char_boundary(at)).unwrap_or(0);
    format!("{}…", &id[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_id_is_cut_at_a_character() {
        assert_eq!(quoted("short"), "short");
        assert_eq!(quoted(&"é".repeat(32)), "é".repeat(32));
        assert_eq!(quoted(&format!("x{}", "é".repeat(32))), format!("x{}…", "é".repeat(31)));
    }
}
