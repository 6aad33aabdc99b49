//! Places of rows: how a database spreads applications and users.

use xxhash_rust::xxh3::xxh3_64;

/// Places of a database: each is small beside the whole, and some hundred nodes get equal shares of them.
pub const PLACES: u16 = 1024;

/// The place of a name. Rows are stored under it, so it never changes: `docs/internals.md` has test vectors.
///
/// The name of a user is the application and the user id, that of an application is the application and an empty user id.
pub fn place_of(name: &[&str]) -> i16 {
    let mut bytes = Vec::with_capacity(name.iter().map(|text| 4 + text.len()).sum());
    for text in name {
        // With its length, so that different names have different input. An id has 512 bytes at most.
        bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    (xxh3_64(&bytes) % u64::from(PLACES)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of `docs/internals.md`, which another implementation of the hash agrees with.
    #[test]
    fn a_place_never_changes() {
        let (app, user) = ("a".repeat(512), "u".repeat(512));
        assert_eq!(place_of(&["shop", "ada"]), 736);
        assert_eq!(place_of(&["shop", ""]), 672);
        assert_eq!(place_of(&["cart"]), 613);
        assert_eq!(place_of(&["Läden", "アダ"]), 327);
        assert_eq!(place_of(&[&app, &user]), 877);
    }
}
