//! Whether notifications arrive from every replica, so that watched versions need no look.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use sessiond_store::instant;

/// Time without a sign of a replica after which its notifications may be lost: three heartbeats.
const MISSED: Duration = Duration::from_secs(15);

/// Time without a sign after which a replica has died. Its changes were looked for meanwhile.
const ENDED: Duration = Duration::from_secs(60);

/// Time between two looks while notifications arrive, for what no heartbeat shows.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The signs of life that came by notifications.
#[derive(Default)]
pub(in super::super) struct Heard {
    replicas: Mutex<HashMap<u64, Instant>>,
    /// Something may have been missed since the last look.
    gap: AtomicBool,
}

impl Heard {
    pub(super) fn hear(&self, replica: u64) {
        self.lock().insert(replica, instant());
    }

    /// A replica has told that it ends.
    pub(super) fn ended(&self, replica: u64) {
        self.lock().remove(&replica);
    }

    /// Notifications were lost, here or at their sender.
    pub(super) fn gap(&self) {
        self.gap.store(true, Relaxed);
    }

    /// Whether versions are to be looked at, after a look at a time. `own` is this replica, whose heartbeats come back to it.
    pub(super) fn wants_look(&self, own: u64, last: Option<Instant>) -> bool {
        let now = instant();
        let mut replicas = self.lock();
        replicas.retain(|_, heard| now - *heard < ENDED);
        let is_proved =
            replicas.contains_key(&own) && replicas.values().all(|heard| now - *heard < MISSED);
        let is_gap = self.gap.swap(false, Relaxed);
        is_gap || !is_proved || last.is_none_or(|last| now - last >= LOOK_EVERY)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Instant>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const OWN: u64 = 1;

    #[tokio::test(start_paused = true)]
    async fn versions_are_looked_at_while_a_replica_is_not_heard() {
        let heard = Heard::default();
        let looks = |last| heard.wants_look(OWN, last);
        assert!(looks(None) && looks(Some(instant())), "nothing proves that notifications come");
        heard.hear(2);
        assert!(looks(Some(instant())), "nor does another replica's alone");
        heard.hear(OWN);
        let last = Some(instant());
        assert!(!looks(last));
        heard.gap();
        assert!(looks(last) && !looks(last), "once for each gap");
        for _ in 0..3 {
            advance(MISSED / 3).await;
            heard.hear(OWN);
        }
        assert!(looks(Some(instant())), "the other is silent");
        for _ in 0..10 {
            advance(MISSED / 3).await;
            heard.hear(OWN);
        }
        assert!(!looks(Some(instant())), "it has died");
        heard.hear(3);
        advance(MISSED / 3).await;
        heard.ended(3);
        for _ in 0..3 {
            heard.hear(OWN);
            assert!(!looks(Some(instant())), "this one has ended, and is not waited for");
            advance(MISSED / 3).await;
        }
        heard.hear(OWN);
        let last = Some(instant());
        for _ in 0..6 {
            assert!(!looks(last));
            advance(LOOK_EVERY / 6).await;
            heard.hear(OWN);
        }
        assert!(looks(last), "every now and then all the same");
    }
}
