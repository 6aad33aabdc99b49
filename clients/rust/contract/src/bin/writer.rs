//! One of several processes that append to one session: `writer ADDRESS NAME WRITERS APPENDS`.
//!
//! Says `written` on a line of its own when its writers are through, waits for a line, and then says what it reads: the state,
//! and the ids of the events in their order.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test that started it")]

use std::collections::BTreeMap;

use adk_core::{AdkError, Event};
use kit::{AppendEventRequest, SessionService as _};
use sessiond_adk::SessiondSessionService;
use sessiond_adk_contract::shared_session;
use sessiond_adk_testing::patient;

#[tokio::main]
async fn main() -> Result<(), AdkError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, writers, appends] = arguments.try_into().unwrap();
    let (writers, appends) = (writers.parse().unwrap(), appends.parse().unwrap());
    let service = patient(&address).connect().await?;
    let all = (0..writers).map(|n| {
        let (service, writer) = (service.clone(), format!("{name}{n}"));
        tokio::spawn(async move { write(&service, &writer, appends).await })
    });
    for writer in all.collect::<Vec<_>>() {
        writer.await.unwrap()?;
    }
    println!("written");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let session = service.get_for_identity(&shared_session()).await?;
    let state: BTreeMap<_, _> = session.state().all().into_iter().collect();
    println!("{}", serde_json::to_string(&state).unwrap());
    let ids: Vec<_> = session.events().all().into_iter().map(|event| event.id).collect();
    println!("{}", serde_json::to_string(&ids).unwrap());
    Ok(())
}

/// Appends events that count in a key of this writer's own, and fight over keys that all share.
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
