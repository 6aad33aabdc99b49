//! The cost of a group.

use std::time::Duration;

use tokio::time::Instant;

use crate::instant;

/// Bytes that a group is sent, loads, works on and answers: three scopes with all of their keys and a large batch, which the disk takes
/// some ten milliseconds for. The memory of a group is a small multiple.
pub const GROUP_BYTES: usize = 8 << 20;

/// Time for which a group loads, and then for which it decides: about that of one commit, so that all who wait together wait for a few
/// commits, whatever their requests cost. One request that takes longer is not interrupted.
const GROUP_TIME: Duration = Duration::from_millis(20);

/// The rest of what a group may cost. One request always fits.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    until: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: GROUP_BYTES, until: instant() + GROUP_TIME }
    }
}

impl Budget {
    /// Pays for a request. Whether another one fits.
    pub fn spend(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes > 0 && instant() < self.until
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_group_ends_by_its_bytes_or_by_its_time() {
        let mut budget = Budget::default();
        assert!(budget.spend(GROUP_BYTES - 1));
        assert!(!budget.spend(1));
        let mut budget = Budget::default();
        advance(GROUP_TIME - Duration::from_millis(1)).await;
        assert!(budget.spend(0));
        advance(Duration::from_millis(1)).await;
        assert!(!budget.spend(0));
    }
}
