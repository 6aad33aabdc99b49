//! What a client without a credential can leave open.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use sessiond::cli::{Failure, bench::instant};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::fairness::{
    attacker::{Attacker, Held, path},
    raw::Windows,
};

const CONNECTIONS: usize = 20;

fn held(path: &str, streams: usize) -> Held {
    Held {
        path: path.to_owned(),
        token: None,
        connections: CONNECTIONS,
        streams_each: streams / CONNECTIONS,
        windows: Windows::Usual,
        bytes: Bytes::new(),
        ends: false,
    }
}

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// An empty message.
const EMPTY: Bytes = Bytes::from_static(&[0; 5]);

pub async fn nothing(_: Arc<Attacker>) -> Result<(), Failure> {
    Ok(())
}

pub async fn health_watches(it: Arc<Attacker>) -> Result<(), Failure> {
    let watch = held("/grpc.health.v1.Health/Watch", 80_000);
    it.hold(Held { bytes: EMPTY, ends: true, ..watch }).await
}

pub async fn health_checks(it: Arc<Attacker>) -> Result<(), Failure> {
    it.hold(held("/grpc.health.v1.Health/Check", 80_000)).await
}

pub async fn unfinished_calls(it: Arc<Attacker>) -> Result<(), Failure> {
    it.hold(held(&path("SessionService/GetSession"), 80_000)).await
}

pub async fn reflection(it: Arc<Attacker>) -> Result<(), Failure> {
    it.hold(held(REFLECTION, 80_000)).await
}

/// `list_services`, again and again: 15 KB of it on each stream.
pub async fn unread_reflection(it: Arc<Attacker>) -> Result<(), Failure> {
    // Field 7 of ServerReflectionRequest, a text.
    let mut request = vec![0, 0, 0, 0, 3, 0x3a, 1];
    request.push(b'*');
    let bytes = Bytes::from(request.repeat(15_000 / request.len()));
    it.hold(Held { bytes, windows: Windows::Zero, ..held(REFLECTION, 20_000) }).await
}

pub async fn silent_connections(it: Arc<Attacker>) -> Result<(), Failure> {
    keep_silent(&it, it.address.clone(), 300).await;
    Ok(())
}

pub async fn silent_admin_connections(it: Arc<Attacker>) -> Result<(), Failure> {
    keep_silent(&it, it.admin.clone(), 64).await;
    Ok(())
}

/// Connections that send nothing, each replaced when the server ends it.
async fn keep_silent(it: &Arc<Attacker>, address: String, connections: usize) {
    let began = instant();
    let mut silent = JoinSet::new();
    for _ in 0..connections {
        let (it, address) = (Arc::clone(it), address.clone());
        silent.spawn(async move {
            while began.elapsed() < it.lasts {
                let Ok(mut socket) = TcpStream::connect(&address).await else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                it.counts().held += 1;
                let left = it.lasts.saturating_sub(began.elapsed());
                let ended = timeout(left, socket.read_to_end(&mut Vec::new())).await;
                it.counts().ended_connections += u64::from(ended.is_ok());
            }
        });
    }
    silent.join_all().await;
}
