//! The contract of the server, as its reflection describes it, against that of this program.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tokio_stream::once;
use tonic::Code;
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use super::finding::{Finding, Outcome};
use crate::{
    cli::{connect::Server, failure::Failure},
    proto::DESCRIPTOR_SET,
};

const CHECK: &str = "contract";
/// One symbol of each file.
const SYMBOLS: [&str; 6] = [
    "sessiond.v1.SessionService",
    "sessiond.v1.EventService",
    "sessiond.v1.StateService",
    "sessiond.v1.WatchService",
    "sessiond.v1.AdminService",
    "sessiond.v1.Event",
];
/// Names in a finding.
const SHOWN_NAMES: usize = 5;

pub async fn examine(server: &Server) -> Finding {
    let own = FileDescriptorSet::decode(DESCRIPTOR_SET).unwrap_or_default().file;
    match described(server).await {
        Ok(theirs) => compare(&names(&own), &names(&theirs)),
        Err(failure) => Finding::new(CHECK, Outcome::Unknown, failure.text()),
    }
}

fn compare(own: &BTreeSet<String>, theirs: &BTreeSet<String>) -> Finding {
    let missing = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        a.difference(b).take(SHOWN_NAMES).cloned().collect::<Vec<_>>().join(", ")
    };
    let (outcome, detail) = match (missing(own, theirs), missing(theirs, own)) {
        (old, new) if old.is_empty() && new.is_empty() => {
            (Outcome::Ok, "the same on both sides".to_owned())
        }
        (old, new) if old.is_empty() => {
            (Outcome::Warning, format!("the server is newer: this program does not know {new}"))
        }
        (old, _) => (Outcome::Warning, format!("the server is older: it does not know {old}")),
    };
    Finding::new(CHECK, outcome, detail)
}

/// Methods and fields of the contract's own package.
fn names(files: &[FileDescriptorProto]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|file| file.package() == "sessiond.v1") {
        for service in &file.service {
            let methods = service.method.iter();
            names.extend(methods.map(|it| format!("{}.{}", service.name(), it.name())));
        }
        for message in &file.message_type {
            let fields = message.field.iter();
            names.extend(fields.map(|it| format!("{}.{}", message.name(), it.name())));
        }
    }
    names
}

async fn described(server: &Server) -> Result<Vec<FileDescriptorProto>, Failure> {
    let mut found = Vec::new();
    for symbol in SYMBOLS {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(symbol.to_owned())),
        };
        let mut client = ServerReflectionClient::new(server.channel.clone());
        let mut answers = client.server_reflection_info(once(request)).await?.into_inner();
        let answer = match answers.message().await {
            // An older server does not have this service.
            Err(status) if status.code() == Code::NotFound => continue,
            answer => answer?.and_then(|answer| answer.message_response),
        };
        if let Some(MessageResponse::FileDescriptorResponse(files)) = answer {
            let files = files.file_descriptor_proto;
            found.extend(files.iter().filter_map(|it| FileDescriptorProto::decode(&**it).ok()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_lacks_a_name_is_the_older_one() {
        let own = names(&FileDescriptorSet::decode(DESCRIPTOR_SET).unwrap().file);
        assert!(own.contains("EventService.AppendEvent") && own.contains("Event.event_id"));
        assert_eq!(compare(&own, &own).result, Outcome::Ok);
        let mut less = own.clone();
        less.remove("Event.event_id");
        for (finding, side) in [(compare(&own, &less), "older"), (compare(&less, &own), "newer")] {
            assert_eq!(finding.result, Outcome::Warning);
            let detail = finding.detail;
            assert!(detail.contains(side) && detail.ends_with("know Event.event_id"), "{detail}");
        }
    }
}
