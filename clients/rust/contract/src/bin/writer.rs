//! One of several processes that append to one session: `writer ADDRESS NAME WRITERS APPENDS`.
//!
//! Prints `ready` when all of its writers are ready, and waits for a line on stdin before they start, so that the processes start
//! together. Prints `written` when they are done, waits for a line, and then prints what it reads: the state, and the ids of the
//! events in order.
#![expect(clippy::unwrap_used, reason = "a failure here fails the test that started it")]

use std::{collections::BTreeMap, sync::Arc};

use adk_core::{AdkError, Event};
use sessiond_adk::SessiondSessionService;
use sessiond_adk_contract::shared_session;
use sessiond_adk_testing::builder;
use tokio::sync::Barrier;
use upstream::{AppendEventRequest, SessionService as _};

#[tokio::main]
async fn main() -> Result<(), AdkError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, writers, appends] = arguments.try_into().unwrap();
    let (writers, appends): (usize, u32) = (writers.parse().unwrap(), appends.parse().unwrap());
    let service = builder(&address).connect().await?;
    // Every writer waits at both, and this task too.
    let (ready, begin) = (Arc::new(Barrier::new(writers + 1)), Arc::new(Barrier::new(writers + 1)));
    let all = (0..writers).map(|n| {
        let (service, writer) = (service.clone(), format!("{name}{n}"));
        let (ready, begin) = (Arc::clone(&ready), Arc::clone(&begin));
        tokio::spawn(async move {
            ready.wait().await;
            begin.wait().await;
            write(&service, &writer, appends).await
        })
    });
    let all: Vec<_> = all.collect();
    ready.wait().await;
    print_and_wait("ready");
    begin.wait().await;
    for writer in all {
        writer.await.unwrap()?;
    }
    print_and_wait("written");
    let session = service.get_for_identity(&shared_session()).await?;
    let state: BTreeMap<_, _> = session.state().all().into_iter().collect();
    println!("{}", serde_json::to_string(&state).unwrap());
    let ids: Vec<_> = session.events().all().into_iter().map(|event| event.id).collect();
    println!("{}", serde_json::to_string(&ids).unwrap());
    Ok(())
}

/// Prints a line and waits for one, which the test sends to all processes together. Exits if the test has ended.
fn print_and_wait(line: &str) {
    println!("{line}");
    assert!(std::io::stdin().read_line(&mut String::new()).unwrap() > 0, "the test has ended");
}

/// Appends events that count in keys of this writer, and overwrite keys that all writers share.
async fn write(
    service: &SessiondSessionService,
    writer: &str,
    appends: u32,
) -> Result<(), AdkError> {
    for n in 1..=appends {
        let mut event = Event::with_id(format!("{writer}-{n}"), format!("turn-{writer}"));
        event.author = writer.into();
        let delta = &mut event.actions.state_delta;
        delta.insert(writer.into(), n.into());
        delta.insert(format!("user:{writer}"), n.into());
        for shared in ["last", "user:last", "app:last"] {
            delta.insert(shared.into(), event.id.clone().into());
        }
        let request = AppendEventRequest { identity: shared_session(), event };
        service.append_event_for_identity(request).await?;
    }
    Ok(())
}
