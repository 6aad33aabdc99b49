//! The server by its own account: health, credential, version, contract, clock.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Response, metadata::MetadataMap};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_client::HealthClient,
};

use super::{
    contract,
    finding::{Finding, Outcome},
};
use crate::{
    cli::{
        connect::{ConnectArgs, Server},
        failure::Failure,
        time,
    },
    proto::v1,
};

/// Beyond this a call over the loopback or a nearby network is slow.
const SLOW: Duration = Duration::from_millis(250);
/// The server's date has whole seconds.
const SKEW_SECS: i64 = 2;
/// Names of the health service beside the whole server's.
const SERVICES: [&str; 6] = [
    "sessiond.v1.SessionService",
    "sessiond.v1.EventService",
    "sessiond.v1.StateService",
    "sessiond.v1.WatchService",
    "sessiond.v1.AdminService",
    "sessiond.writes",
];

/// Adds what is found. Fails if the server cannot be reached.
pub async fn examine(connect: &ConnectArgs, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let server = match Server::connect(connect).await {
        Ok(server) => server,
        Err(failure) => {
            findings.push(Finding::new("server", Outcome::Error, "cannot be reached"));
            return Err(failure);
        }
    };
    // The first call also pays for the connection.
    let _ = check(&server, "").await;
    let started = now();
    let answer = check(&server, "").await;
    let (outcome, detail) = latency(&connect.server, started.elapsed());
    findings.push(Finding::new("server", outcome, detail));
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            findings.push(Finding::new("health", Outcome::Error, failure.text()));
            return Ok(());
        }
    };
    findings.push(health(&server, answer.get_ref()).await);
    findings.push(credential(&server).await);
    findings.push(version(answer.metadata()));
    findings.push(contract::examine(&server).await);
    findings.push(clock(answer.metadata(), time::now().seconds));
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a duration of the doctor, which no test pauses")]
fn now() -> Instant {
    Instant::now()
}

/// Asks the health service of gRPC about a service, or about the whole server.
pub async fn check(
    server: &Server,
    service: &str,
) -> Result<Response<HealthCheckResponse>, Failure> {
    let request = HealthCheckRequest { service: service.to_owned() };
    Ok(HealthClient::new(server.channel.clone()).check(request).await?)
}

fn latency(address: &str, took: Duration) -> (Outcome, String) {
    let outcome = if took > SLOW { Outcome::Warning } else { Outcome::Ok };
    (outcome, format!("{address} answers in {:.1} ms", took.as_secs_f64() * 1000.0))
}

async fn health(server: &Server, whole: &HealthCheckResponse) -> Finding {
    let mut not_serving = Vec::new();
    if whole.status() != ServingStatus::Serving {
        not_serving.push("the server");
    }
    for service in SERVICES {
        match check(server, service).await {
            Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => {}
            // A server that does not have this name has nothing to tell about it.
            Err(Failure::Refused(status)) if status.code() == Code::NotFound => {}
            Ok(_) | Err(_) => not_serving.push(service),
        }
    }
    match not_serving.as_slice() {
        [] => Finding::new("health", Outcome::Ok, "SERVING"),
        names => {
            Finding::new("health", Outcome::Error, format!("NOT_SERVING: {}", names.join(", ")))
        }
    }
}

/// Whether the server accepts calls with the credential of the flags, if it asks for one.
async fn credential(server: &Server) -> Finding {
    // A request without a session is at fault, so that nothing is read. The credential is looked at before the request.
    let answer = server.sessions().get_session(v1::GetSessionRequest::default()).await;
    match answer.map(drop) {
        Err(status) if status.code() == Code::Unauthenticated => {
            Finding::new("credential", Outcome::Error, Failure::from(status).text())
        }
        Err(status) if status.code() != Code::InvalidArgument => {
            Finding::new("credential", Outcome::Unknown, Failure::from(status).text())
        }
        _ => Finding::new("credential", Outcome::Ok, "accepted, or not asked for"),
    }
}

/// The version that the server sends with its answers.
fn version(metadata: &MetadataMap) -> Finding {
    let (check, own) = ("version", env!("CARGO_PKG_VERSION"));
    match metadata.get("sessiond-version").and_then(|version| version.to_str().ok()) {
        None => Finding::new(check, Outcome::Unknown, "the server does not tell"),
        Some(version) if version == own => Finding::new(check, Outcome::Ok, version),
        Some(version) => {
            let detail = format!("the server is {version}, and this program is {own}");
            Finding::new(check, Outcome::Warning, detail)
        }
    }
}

fn clock(metadata: &MetadataMap, own: i64) -> Finding {
    let check = "clock";
    let date = metadata.get("date").and_then(|date| date.to_str().ok());
    let Some(theirs) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else {
        return Finding::new(check, Outcome::Unknown, "the server sends no date");
    };
    let skew = prost_types::Timestamp::from(theirs).seconds - own;
    match skew.abs() {
        0..=SKEW_SECS => Finding::new(check, Outcome::Ok, "the same on both sides, within 2 s"),
        apart => {
            let side = if skew > 0 { "ahead of" } else { "behind" };
            let detail = format!("the server is {apart} s {side} this machine");
            Finding::new(check, Outcome::Warning, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(name: &'static str, value: &str) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        metadata.insert(name, value.parse().unwrap());
        metadata
    }

    #[test]
    fn clocks_that_differ_are_told() {
        let date = metadata("date", "Thu, 01 Jan 1970 00:10:00 GMT");
        let at = |own| clock(&date, own);
        assert_eq!(at(601).result, Outcome::Ok);
        assert_eq!(at(540).detail, "the server is 60 s ahead of this machine");
        assert_eq!(at(660).detail, "the server is 60 s behind this machine");
        assert_eq!(clock(&MetadataMap::new(), 0).result, Outcome::Unknown);
    }

    #[test]
    fn versions_are_compared_if_the_server_tells_its_own() {
        assert_eq!(version(&MetadataMap::new()).result, Outcome::Unknown);
        assert_eq!(
            version(&metadata("sessiond-version", env!("CARGO_PKG_VERSION"))).result,
            Outcome::Ok
        );
        assert_eq!(version(&metadata("sessiond-version", "9.9.9")).result, Outcome::Warning);
    }

    #[test]
    fn a_slow_answer_is_a_warning() {
        assert_eq!(latency("a", Duration::from_millis(3)).0, Outcome::Ok);
        assert_eq!(latency("a", Duration::from_secs(1)).0, Outcome::Warning);
    }
}
