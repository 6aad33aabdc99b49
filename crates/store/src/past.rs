//! When a snapshot of a scope is due, from which [the past](sessiond_core::read::past) is read.

use sessiond_core::domain::prelude::*;

/// Versions between two snapshots: as many changes a read of the past goes through at most, for a small state.
pub const SNAPSHOT_STEP: Version = 64;

/// Bytes of a snapshot above which it has to be worth its size: the changes since the last one weigh an eighth of it.
pub const LARGE_BYTES: usize = 4096;

/// Versions after which a snapshot is taken in any case, so that a read of the past goes through at most as many changes.
pub const SNAPSHOT_VERSIONS_MAX: Version = 4096;

/// Bytes of a snapshot for each version since the last one. One with more than a mebibyte, for the names of very many removed keys, waits
/// longer for that.
pub const BYTES_PER_VERSION: u64 = 256;

/// Whether a snapshot may be due after changes from version `before` to `version`.
pub fn is_step(before: Version, version: Version) -> bool {
    version / SNAPSHOT_STEP != before / SNAPSHOT_STEP
}

/// Whether a snapshot of this many bytes is due at a step, this many versions after the last one. `changed` counts the bytes of the
/// changes since then.
pub fn is_due<E>(
    versions: Version,
    bytes: usize,
    changed: impl FnOnce() -> Result<u64, E>,
) -> Result<bool, E> {
    Ok(if versions >= SNAPSHOT_VERSIONS_MAX {
        versions >= bytes as u64 / BYTES_PER_VERSION
    } else {
        bytes <= LARGE_BYTES || changed()? >= bytes as u64 / 8
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn due(versions: Version, bytes: usize, changed: u64) -> bool {
        is_due(versions, bytes, || Ok::<_, Infallible>(changed)).unwrap()
    }

    #[test]
    fn a_step_is_64_versions() {
        assert!(!is_step(0, 63) && is_step(63, 64) && !is_step(64, 127) && is_step(100, 300));
    }

    #[test]
    fn a_large_snapshot_is_due_when_an_eighth_changed_or_after_many_versions() {
        assert!(due(64, 4096, 0));
        assert!(!due(64, 80_000, 9_999) && due(64, 80_000, 10_000));
        assert!(!due(4095, 80_000, 1) && due(4096, 80_000, 1));
    }

    #[test]
    fn a_snapshot_of_very_many_names_waits_longer() {
        assert!(due(4096, 1 << 20, 0));
        assert!(!due(4096, 2 << 20, u64::MAX) && due(8192, 2 << 20, 0));
    }
}
