//! `sessiond bench flood`: the latency of a tenant of few appends, alone and beside another that floods the server.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde::Serialize;

use super::{
    Bench,
    fixture::Fixture,
    open_loop::{Offered, Rate, Refused, offer},
};
use crate::cli::{
    bearer::TokenArgs,
    connect::{ConnectArgs, Server},
    failure::Failure,
    output, parse,
    progress::Progress,
};

/// Sessions of each tenant.
const SESSIONS: usize = 16;

#[derive(Debug, Args)]
pub struct FloodArgs {
    /// flood: file with the bearer token of the flooding tenant; by default it sends that of --token-file.
    #[arg(long, value_name = "PATH")]
    flood_token_file: Option<PathBuf>,
    /// flood: appends that the flooding tenant begins in a second.
    #[arg(long, value_name = "N", default_value = "20000", value_parser = parse::positive)]
    flood_rate: usize,
    /// flood: appends that the other tenant begins in a second.
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
struct Report {
    workload: &'static str,
    alone: Latency,
    beside: Latency,
    flood: Latency,
    flood_begun_per_second: f64,
    /// p99 beside the flood to p99 alone.
    p99_ratio: f64,
}

impl Bench<'_> {
    pub(super) async fn flood(&mut self) -> Result<(), Failure> {
        let args = self.args;
        let token = args.flood.flood_token_file.clone().map(TokenArgs::of_file);
        let connect = ConnectArgs {
            timeout: Duration::ZERO,
            token: token.unwrap_or_else(|| args.connect.token.clone()),
            ..args.connect.clone()
        };
        let mut servers = Vec::new();
        for _ in 0..args.connections {
            servers.push(Server::connect(&connect).await?);
        }
        let app = format!("{}-flood", self.fixture.app());
        let mut flooding = Fixture::new(servers, app, args.body_bytes);
        let measured = self.beside(&mut flooding).await;
        let removed = if args.keep { Ok(()) } else { flooding.remove().await };
        measured.and(removed)
    }

    async fn beside(&mut self, flooding: &mut Fixture) -> Result<(), Failure> {
        let args = self.args;
        let keys = self.fixture.sessions("modest", 0..SESSIONS, 1).await?;
        let modest = self.fixture.appends(&keys);
        let keys = flooding.sessions("flood", 0..SESSIONS, 1).await?;
        let flood = flooding.appends(&keys);
        let rate = |per_second: usize, seconds| Rate {
            per_second: per_second as f64,
            seconds,
            deadline: args.deadline,
            max_in_flight: args.max_in_flight,
        };
        let progress = Progress::spinner("measuring flood");
        let (few, many) = (args.flood.modest_rate, args.flood.flood_rate);
        let servers = self.fixture.servers();
        if args.warmup > 0 {
            offer(servers, &modest, rate(few, args.warmup)).await;
        }
        let alone = offer(servers, &modest, rate(few, args.seconds)).await;
        let (beside, flood) = tokio::join!(
            offer(servers, &modest, rate(few, args.seconds)),
            offer(flooding.servers(), &flood, rate(many, args.seconds)),
        );
        drop(progress);
        let flood_begun_per_second = flood.begun as f64 / flood.seconds;
        let (alone, beside) = (Latency::of(alone), Latency::of(beside));
        let p99_ratio = beside.p99_millis / alone.p99_millis.max(f64::EPSILON);
        let flood = Latency::of(flood);
        let report =
            Report { workload: "flood", alone, beside, flood, flood_begun_per_second, p99_ratio };
        if self.prints_json() {
            return output::print(&report);
        }
        output::print_text(&format!(
            "flood: alone {}\n  beside the flood {}, p99 ratio {:.1}\n  the flood, begun {:.0}/s: {}\n",
            report.alone.text(),
            report.beside.text(),
            report.p99_ratio,
            report.flood_begun_per_second,
            report.flood.text(),
        ))
    }
}
