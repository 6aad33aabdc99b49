//! What a write costs beyond its events.

use std::sync::Arc;

use super::limits::Limits;
use crate::{RequestContext, Work};
use sessiond_core::domain::{id::AppName, limits::APPEND_BYTES};

/// The context of a write that charges the limits for its work once it is done, also if its caller has gone. `events` were counted
/// before. `None`: there are no limits of appends.
pub(super) fn charged(
    limits: &Arc<Limits>,
    context: &RequestContext,
    application: AppName,
    events: usize,
) -> Option<RequestContext> {
    limits.count_appends().then(|| {
        let (limits, principal) = (Arc::clone(limits), context.principal.clone());
        let work = Work::charged(move |bytes| {
            let more = bytes.div_ceil(APPEND_BYTES).saturating_sub(events);
            if more > 0 {
                limits.charge(&principal, &application, more);
            }
        });
        RequestContext { work, ..context.clone() }
    })
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, time::Duration};

    use tokio::time::sleep;

    use super::*;
    use crate::{
        Gate, LimitOptions, SystemClock, instant,
        memory::MemoryStore,
        tests::{batch, call, creation, event_of, fork_of, json, key, one},
    };
    use sessiond_access::Policies;
    use sessiond_core::{
        commit::Append,
        domain::{
            delta::{Delta, Operation},
            error::Error,
            precondition::{Condition, Precondition},
            scope::{SessionKey, SessionRef},
            token::StoreId,
        },
    };

    /// With a session whose `l` is a list of 110 KB, and a limit of 100 appends a second.
    async fn gate() -> Gate {
        let store = MemoryStore::new(StoreId([0; 16]), Arc::new(SystemClock));
        let limits =
            LimitOptions { principal_appends: NonZeroU32::new(100), ..LimitOptions::default() };
        let gate = Gate::new(
            Arc::new(store),
            Policies::open(),
            limits,
            sessiond_metrics::Metrics::default().reads,
        );
        gate.create_session(&call(), creation("u", "s")).await.unwrap();
        let list = format!("[\"{}\"]", "x".repeat(110_000));
        append(&gate, one("s", "0", &[("l", &list)])).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        gate
    }

    async fn append(gate: &Gate, append: Append<SessionKey>) -> Result<(), Error> {
        let session = SessionRef::Full(append.session.clone());
        gate.append(&call(), append.to(session)).await.map(drop)
    }

    /// Milliseconds after a write until an append passes, beyond those that the burst allows.
    async fn wait_after(gate: &Gate) -> u64 {
        match append(gate, one("s", "probe", &[])).await {
            Ok(()) => 0,
            Err(Error::RateLimited { retry_after_millis, .. }) => retry_after_millis,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn to_list(id: &str, max_length: usize) -> Append<SessionKey> {
        let append = Operation::ListAppend { values: json("[1]"), max_length };
        let operations = vec![(key("l"), append); 20];
        batch("s", [event_of(id, Delta { operations, ..Delta::default() })])
    }

    #[tokio::test(start_paused = true)]
    async fn operations_on_a_large_value_are_held_to_the_limit() {
        let gate = gate().await;
        let (began, mut appends) = (instant(), 0);
        while began.elapsed() < Duration::from_secs(60) {
            match append(&gate, to_list(&appends.to_string(), 0)).await {
                Ok(()) => appends += 1,
                Err(Error::RateLimited { retry_after_millis, .. }) => {
                    sleep(Duration::from_millis(retry_after_millis)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        // 20 operations on 110 KB are 135 appends, and a burst of 100 passes before.
        assert!((44..=46).contains(&appends), "{appends}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_whose_caller_leaves_is_charged_when_it_is_done() {
        let gate = gate().await;
        let limits = Arc::clone(&gate.limits);
        let context = charged(&limits, &call(), AppName::new("a").unwrap(), 1).unwrap();
        let of_store = context.clone();
        drop(context);
        of_store.work.add(APPEND_BYTES * 200);
        assert_eq!(wait_after(&gate).await, 0);
        drop(of_store);
        assert!(wait_after(&gate).await > 900);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_read_answered_or_copied_counts_as_well() {
        let gate = gate().await;
        // Its last operation is refused.
        let mut refused = to_list("1", 0);
        refused.events[0].delta.operations.push((key("l"), Operation::MergePatch(json("{}"))));
        assert!(matches!(
            append(&gate, refused).await,
            Err(Error::Invalid(_) | Error::TypeMismatch { .. })
        ));
        assert!((340..=360).contains(&wait_after(&gate).await));
        sleep(Duration::from_secs(60)).await;
        let keys = vec![(key("l"), Condition::Value(json("[1]"))); 30];
        let precondition = Precondition { keys, ..Precondition::default() };
        let failed = append(&gate, Append { precondition, ..one("s", "2", &[]) }).await;
        assert!(matches!(failed, Err(Error::Conflict { .. })));
        assert!((1_010..=1_030).contains(&wait_after(&gate).await));
        sleep(Duration::from_secs(60)).await;
        for id in 0..30 {
            append(&gate, Append { return_state: true, ..one("s", &format!("3-{id}"), &[]) })
                .await
                .unwrap();
            if wait_after(&gate).await > 0 {
                assert_eq!(
                    id, 12,
                    "seven appends for each event with its state, and one for the probe"
                );
                break;
            }
        }
        sleep(Duration::from_secs(60)).await;
        let events = (0..200).map(|id| event_of(&format!("4-{id}"), Delta::default()));
        append(&gate, batch("s", events)).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        gate.fork_session(&call(), fork_of("s", "t", None)).await.unwrap();
        assert!(wait_after(&gate).await > 1_200);
    }
}
