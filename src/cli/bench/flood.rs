//! `sessiond bench flood`: the latency of a caller of few appends, alone and beside another that floods the server.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{
    fixture::Fixture,
    open_loop::{Offered, Rate, Refused, offer},
};
use crate::cli::{
    bearer::TokenArgs, connect::ConnectArgs, failure::Failure, parse, progress::Progress,
};

/// Sessions of each caller.
const SESSIONS: usize = 16;

#[derive(Debug, Args)]
pub struct FloodArgs {
    /// flood: file with the bearer token of the flooding caller; by default it sends that of --token-file.
    #[arg(long, value_name = "PATH")]
    flood_token_file: Option<PathBuf>,
    /// flood: appends that the flooding caller begins in a second.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = parse::positive)]
    flood_rate: usize,
    /// flood: appends that the other caller begins in a second.
    #[arg(long, value_name = "N", default_value = "100", value_parser = parse::positive)]
    modest_rate: usize,
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
    beside: Latency,
    flood: Latency,
    flood_begun_per_second: f64,
    /// p99 beside the flood to p99 alone.
    p99_ratio: f64,
}

impl Report {
    pub fn text(&self) -> String {
        let Self { workload, alone, beside, flood, flood_begun_per_second, p99_ratio } = self;
        let (alone, beside, flood) = (alone.text(), beside.text(), flood.text());
        format!(
            "{workload}: alone {alone}\n  beside the flood {beside}, p99 ratio {p99_ratio:.1}\n  \
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

/// Measures the caller of few appends alone, after a warm-up, and then beside the other. Both have the deadline and the bound of `rate`.
pub async fn measure(
    modest: &mut Fixture,
    flooding: &mut Fixture,
    args: &FloodArgs,
    rate: Rate,
    warmup: u64,
) -> Result<Report, Failure> {
    let keys = modest.sessions("modest", 0..SESSIONS, 1).await?;
    let few = modest.appends(&keys);
    let keys = flooding.sessions("flood", 0..SESSIONS, 1).await?;
    let many = flooding.appends(&keys);
    let slow = Rate { per_second: args.modest_rate as f64, ..rate };
    let fast = Rate { per_second: args.flood_rate as f64, ..rate };
    let progress = Progress::spinner("measuring flood");
    offer(modest.servers(), &few, Rate { seconds: warmup, ..slow }).await;
    let alone = offer(modest.servers(), &few, slow).await;
    let (beside, flood) =
        tokio::join!(offer(modest.servers(), &few, slow), offer(flooding.servers(), &many, fast));
    drop(progress);
    let flood_begun_per_second = flood.begun as f64 / flood.seconds;
    let [alone, beside, flood] = [alone, beside, flood].map(Latency::of);
    let p99_ratio = beside.p99_millis / alone.p99_millis.max(f64::EPSILON);
    Ok(Report { workload: "flood", alone, beside, flood, flood_begun_per_second, p99_ratio })
}
