//! Random and broken messages at every call: each gets a status of the table or of the transport, and the server lives on.

use std::time::Duration;

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, TestRunner},
};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{Request, Status, Streaming, client::Grpc};

use crate::{
    harness::{Service, within},
    health::is_serving,
    judge,
    make::{append, create, get, setting},
    protobuf::{Contract, Method},
    raw::Raw,
};

/// How long a stream that says nothing is listened to: a watch from now on has nothing to say but that it is caught up.
const SILENCE: Duration = Duration::from_millis(100);

/// Messages that one call sends, and answers that it reads at most.
const ITEMS: usize = 4;

/// Sends messages to a call of any kind, for all kinds look alike on the wire, and gives how it ended.
async fn call(service: &Service, method: &Method, messages: Vec<Vec<u8>>) -> Result<(), Status> {
    let mut client = Grpc::new(service.channel());
    client.ready().await.unwrap();
    let path = method.path.parse().unwrap();
    let request = Request::new(tokio_stream::iter(messages));
    let answers = within("an answer", client.streaming(request, path, Raw)).await?;
    let mut answers: Streaming<Vec<u8>> = answers.into_inner();
    for _ in 0..=ITEMS {
        match timeout(SILENCE, answers.message()).await {
            Ok(Ok(Some(answer))) => judge::fits(answer.len()),
            Ok(Ok(None)) | Err(_) => return Ok(()),
            Ok(Err(status)) => return Err(status),
        }
    }
    Ok(())
}

/// A status of the table, by no fault of the server.
fn is_of_the_table(status: &Status) {
    judge::well_formed(status);
    let reason = judge::reason(status);
    assert!(
        !["INTERNAL", "OUTCOME_UNKNOWN", "STORE_UNAVAILABLE"].contains(&&*reason),
        "{status:?}"
    );
}

async fn lives(service: &Service) {
    assert!(is_serving(service, "").await);
    // Sessions that nothing random is aimed at.
    let answer = service.append_event(append("untouched", setting("{\"k\":1}"))).await.unwrap();
    let read = service.get_session(get("untouched")).await.unwrap().session.unwrap();
    assert_eq!(read.last_sequence, answer.event.unwrap().sequence);
}

/// Runs a property on a server of each kind.
fn with_server<S: Strategy>(cases: u32, strategy: &S, check: impl AsyncFn(&Service, S::Value)) {
    let runtime = Runtime::new().unwrap();
    for sqlite in [false, true] {
        let service = runtime.block_on(async {
            let service =
                if sqlite { Service::on_sqlite(&[]).await } else { Service::in_memory(&[]).await };
            for id in ["s1", "s2", "untouched"] {
                service.create_session(create(id, r#"{"a":1,"n":2,"list":[]}"#)).await.unwrap();
            }
            service
        });
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let result = TestRunner::new(config).run(strategy, |value| {
            runtime.block_on(async {
                check(&service, value).await;
                lives(&service).await;
            });
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
        runtime.block_on(service.stop());
    }
}

#[test]
fn random_messages_of_the_contract_are_answered_or_refused() {
    let contract = Contract::read();
    let strategies: Vec<_> = contract
        .methods
        .iter()
        .map(|method| {
            let messages = vec(contract.message(&method.request), 1..ITEMS);
            (Just(method.clone()), messages).boxed()
        })
        .collect();
    let any = proptest::strategy::Union::new(strategies);
    with_server(600, &any, async |service, (method, mut messages)| {
        if !method.path.ends_with("Stream") {
            messages.truncate(1);
        }
        if let Err(status) = call(service, &method, messages).await {
            is_of_the_table(&status);
        }
    });
}

/// What is done to the bytes of a valid message.
#[derive(Clone, Debug)]
enum Damage {
    Set(Index, u8),
    Cut(Index),
    Repeat(Index, Index),
    Insert(Index, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Repeat(from, to)),
        1 => (any::<Index>(), vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let length = bytes.len() + 1;
        match damage {
            Damage::Set(at, byte) => match bytes.get_mut(at.index(length)) {
                Some(place) => *place = *byte,
                None => bytes.push(*byte),
            },
            Damage::Cut(at) => bytes.truncate(at.index(length)),
            Damage::Repeat(from, to) => {
                let (from, to) = (from.index(length), to.index(length));
                bytes.extend_from_within(from.min(to)..from.max(to));
            }
            Damage::Insert(at, more) => {
                let at = at.index(length);
                bytes.splice(at..at, more.iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn damaged_messages_are_refused_and_harm_nobody() {
    let contract = Contract::read();
    let strategies: Vec<_> = contract
        .methods
        .iter()
        .map(|method| {
            let damaged = (contract.message(&method.request), vec(damage(), 1..6))
                .prop_map(|(bytes, damages)| damaged(bytes, &damages));
            (Just(method.clone()), damaged).boxed()
        })
        .collect();
    let any = proptest::strategy::Union::new(strategies);
    with_server(400, &any, async |service, (method, message)| {
        if let Err(status) = call(service, &method, vec![message]).await {
            is_of_the_table(&status);
        }
    });
}

#[test]
fn random_bytes_are_refused_and_harm_nobody() {
    let methods = select(Contract::read().methods);
    let any = (methods, vec(vec(any::<u8>(), 0..200), 1..ITEMS));
    with_server(400, &any, async |service, (method, mut messages)| {
        if !method.path.ends_with("Stream") {
            messages.truncate(1);
        }
        if let Err(status) = call(service, &method, messages).await {
            is_of_the_table(&status);
        }
    });
}
