//! The threads of the lanes: how they end.

use tokio::{runtime::Runtime, task::spawn_blocking, time::timeout};

use super::*;
use crate::write::lanes::Lanes;
use sessiond_store::RequestContext;

/// Nothing that waits here takes that long.
const LONG: Duration = Duration::from_secs(60);

async fn start(fixture: &Fixture) -> Arc<Lanes> {
    let shared = Arc::clone(&fixture.shared);
    Arc::new(spawn_blocking(move || Lanes::start(&shared)).await.unwrap().unwrap())
}

async fn create(lanes: &Lanes) -> Result<Answer, Error> {
    lanes.commit(&RequestContext::internal(), Request::Create(creation("s"))).await
}

/// A server that may no longer wait for its lanes exits, whatever they wait for.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_waits_for_the_database_does_not_hold_up_the_exit() {
    let Some(fixture) = Fixture::with(|mut options| {
        options.settings.statement_timeout = 10 * LONG;
        options
    })
    .await
    else {
        return;
    };
    let lanes = start(&fixture).await;
    let holder = fixture.shared.connect().await.unwrap();
    holder.batch("BEGIN; LOCK TABLE session").await.unwrap();
    let created = tokio::spawn({
        let lanes = Arc::clone(&lanes);
        async move { create(&lanes).await }
    });
    let waiting = format!(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{}.session'::regclass",
        fixture.schema
    );
    let waits = async {
        while fixture.count(&waiting).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, waits).await.expect("the lane does not wait");
    let exit = spawn_blocking(move || {
        let server = Runtime::new().unwrap();
        let closed = server.block_on(async { timeout(Duration::ZERO, lanes.close()).await });
        drop(server);
        closed.is_ok()
    });
    let is_closed = timeout(LONG, exit).await.expect("the exit waits for the lane").unwrap();
    assert!(!is_closed);
    holder.roll_back().await.unwrap();
    assert!(matches!(created.await.unwrap(), Ok(Answer::Created(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_completes_what_was_accepted() {
    let Some(fixture) = Fixture::new().await else { return };
    let lanes = start(&fixture).await;
    let (created, ()) = tokio::join!(create(&lanes), lanes.close());
    assert!(matches!(created, Ok(Answer::Created(_))), "{created:?}");
    assert_eq!(fixture.count("SELECT count(*) FROM session").await, 1);
    assert!(create(&lanes).await.is_err());
}
