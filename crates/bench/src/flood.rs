//! `flood`: the latency of a caller of few appends, alone and beside another that floods the server.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sessiond::cli::{
    ConnectArgs, Failure, TokenArgs,
    bench::{Fixture, connect},
    positive, progress_bar,
};
use tokio::{runtime, sync::oneshot, task::spawn_blocking};

use crate::open_loop::{Offered, Rate, Refused, offer};

/// Sessions of each caller.
const SESSIONS: usize = 16;

#[derive(Debug, Args)]
pub struct FloodArgs {
    /// flood: file with the bearer token of the flooding caller; by default it sends that of --token-file.
    #[arg(long, value_name = "PATH")]
    flood_token_file: Option<PathBuf>,
    /// flood: appends that the flooding caller begins in a second.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = positive)]
    pub flood_rate: usize,
    /// flood: appends that the other caller begins in a second.
    #[arg(long, value_name = "N", default_value = "100", value_parser = positive)]
    pub modest_rate: usize,
}

#[derive(Debug, Serialize)]
struct Latency {
    goodput_per_second: f64,
    p50_millis: f64,
    p99_millis: f64,
    refused: Refused,
}

impl Latency {
    fn of(offered: Offered) -> Self {
        Self {
            goodput_per_second: offered.goodput(),
            p50_millis: offered.millis_at(0.5),
            p99_millis: offered.millis_at(0.99),
            refused: offered.refused,
        }
    }

    fn text(&self) -> String {
        let Self { goodput_per_second, p50_millis, p99_millis, refused } = self;
        let refused: Vec<_> =
            refused.iter().map(|(reason, count)| format!(", {reason} {count}")).collect();
        let refused = refused.concat();
        format!(
            "{goodput_per_second:.0}/s, p50 {p50_millis:.2} ms, p99 {p99_millis:.2} ms{refused}"
        )
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    workload: &'static str,
    alone: Latency,
    /// During the warm-up of the flood, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_first: Option<Latency>,
    beside: Latency,
    /// Of the flooding caller, with its warm-up.
    flood: Latency,
    flood_begun_per_second: f64,
    /// p99 beside the flood to p99 alone.
    p99_ratio: f64,
}

impl Report {
    pub fn text(&self) -> String {
        let Self { workload, flood_begun_per_second, p99_ratio, .. } = self;
        let [alone, beside, flood] = [&self.alone, &self.beside, &self.flood].map(Latency::text);
        let beginning =
            |it: &Latency| format!("beside the beginning of the flood {}\n  ", it.text());
        let at_first = self.at_first.as_ref().map(beginning).unwrap_or_default();
        format!(
            "{workload}: alone {alone}\n  \
             {at_first}beside the flood {beside}, p99 ratio {p99_ratio:.1}\n  \
             the flood, begun {flood_begun_per_second:.0}/s: {flood}\n"
        )
    }
}

impl FloodArgs {
    /// How the flooding caller connects.
    pub fn connect(&self, connect: &ConnectArgs) -> ConnectArgs {
        let token = self.flood_token_file.clone().map(TokenArgs::of_file);
        ConnectArgs { token: token.unwrap_or_else(|| connect.token.clone()), ..connect.clone() }
    }
}

/// What the flooding caller needs. It has a thread, a runtime and connections of its own: a client that begins more than it can would delay
/// the other's calls.
pub struct Flood {
    pub connect: ConnectArgs,
    pub connections: usize,
    pub app: String,
    pub body_bytes: usize,
    pub rate: Rate,
    pub keep: bool,
}

impl Flood {
    /// Floods after `begin`, and removes its sessions. `None`: `begin` was dropped.
    fn run(
        self,
        ready: oneshot::Sender<()>,
        begin: oneshot::Receiver<()>,
    ) -> Result<Option<Offered>, Failure> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(error.to_string()))?;
        runtime.block_on(async {
            let servers = connect(self.connections, &self.connect).await?;
            let mut fixture = Fixture::new(servers, self.app.clone(), self.body_bytes);
            let flooded = self.flood(&mut fixture, ready, begin).await;
            let removed = if self.keep { Ok(()) } else { fixture.remove().await };
            flooded.and_then(|flooded| removed.map(|()| flooded))
        })
    }

    async fn flood(
        &self,
        fixture: &mut Fixture,
        ready: oneshot::Sender<()>,
        begin: oneshot::Receiver<()>,
    ) -> Result<Option<Offered>, Failure> {
        let keys = fixture.sessions("flood", 0..SESSIONS, 1).await?;
        let many: Vec<_> = keys.iter().map(|key| fixture.append(key)).collect();
        // Fails if the receiver has gone.
        let _ = ready.send(());
        if begin.await.is_err() {
            return Ok(None);
        }
        Ok(Some(offer(&fixture.servers, &many, self.rate).await))
    }
}

/// Measures the caller of few appends alone and then beside the flood, after a warm-up each. The flood lasts for the second of them
/// as well.
pub async fn measure(
    modest: &mut Fixture,
    flood: Flood,
    slow: Rate,
    warmup: u64,
) -> Result<Report, Failure> {
    let keys = modest.sessions("modest", 0..SESSIONS, 1).await?;
    let warm = Rate { seconds: warmup, ..slow };
    let flood =
        Flood { rate: Rate { seconds: warmup + flood.rate.seconds, ..flood.rate }, ..flood };
    let few: Vec<_> = keys.iter().map(|key| modest.append(key)).collect();
    let progress = progress_bar("measuring flood", None);
    let (ready, is_ready) = oneshot::channel();
    let (begin, may_begin) = oneshot::channel();
    let flooding = spawn_blocking(move || flood.run(ready, may_begin));
    let measured = async {
        is_ready.await.ok()?;
        offer(&modest.servers, &few, warm).await;
        let alone = offer(&modest.servers, &few, slow).await;
        begin.send(()).ok()?;
        let at_first = offer(&modest.servers, &few, warm).await;
        Some([alone, at_first, offer(&modest.servers, &few, slow).await])
    };
    let measured = measured.await;
    let flooded = flooding.await.map_err(|error| Failure::Failed(error.to_string()))??;
    drop(progress);
    let (Some([alone, at_first, beside]), Some(flood)) = (measured, flooded) else {
        return Err(Failure::Failed("the flood has not begun".to_owned()));
    };
    let flood_begun_per_second = flood.begun as f64 / flood.seconds;
    let [alone, beside, flood] = [alone, beside, flood].map(Latency::of);
    let at_first = (warmup > 0).then(|| Latency::of(at_first));
    let p99_ratio = beside.p99_millis / alone.p99_millis.max(f64::EPSILON);
    let workload = "flood";
    Ok(Report { workload, alone, at_first, beside, flood, flood_begun_per_second, p99_ratio })
}
