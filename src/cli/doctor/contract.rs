//! The contract of the server, as its reflection describes it, against that of this program.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tokio_stream::iter;
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

/// Names in a finding.
const SHOWN_NAMES: usize = 5;

pub async fn examine(server: &Server) -> Finding {
    let own = FileDescriptorSet::decode(DESCRIPTOR_SET).unwrap_or_default().file;
    match described(server, &own).await {
        Ok(theirs) => compare(&names(&own), &names(&theirs)),
        Err(failure) => Finding::new("contract", Outcome::Unknown, failure.text()),
    }
}

fn compare(own: &BTreeSet<String>, theirs: &BTreeSet<String>) -> Finding {
    let difference = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        a.difference(b).take(SHOWN_NAMES).cloned().collect::<Vec<_>>().join(", ")
    };
    let (outcome, detail) = match (difference(own, theirs), difference(theirs, own)) {
        (old, new) if old.is_empty() && new.is_empty() => {
            (Outcome::Ok, "the same on both sides".to_owned())
        }
        (old, new) if old.is_empty() => {
            (Outcome::Warning, format!("the server is newer: this program does not know {new}"))
        }
        (old, _) => (Outcome::Warning, format!("the server is older: it does not know {old}")),
    };
    Finding::new("contract", outcome, detail)
}

/// Methods and fields of the contract's own package.
fn names(files: &[FileDescriptorProto]) -> BTreeSet<String> {
    let own = files.iter().filter(|file| file.package() == "sessiond.v1");
    let names = own.flat_map(|file| {
        let methods = file.service.iter().flat_map(|service| {
            service.method.iter().map(|it| format!("{}.{}", service.name(), it.name()))
        });
        let fields = file.message_type.iter().flat_map(|message| {
            message.field.iter().map(|it| format!("{}.{}", message.name(), it.name()))
        });
        methods.chain(fields)
    });
    names.collect()
}

/// The server's files of the names that this program's files have.
async fn described(
    server: &Server,
    own: &[FileDescriptorProto],
) -> Result<Vec<FileDescriptorProto>, Failure> {
    let mut client = ServerReflectionClient::new(server.channel.clone());
    let mut files = Vec::new();
    for file in own {
        let request = ServerReflectionRequest {
            message_request: Some(MessageRequest::FileByFilename(file.name().to_owned())),
            ..Default::default()
        };
        // A stream for each: a file that an older server lacks ends its stream.
        let answer = match client.server_reflection_info(iter([request])).await {
            Ok(answers) => answers.into_inner().message().await,
            Err(status) => Err(status),
        };
        let answer = match answer {
            Err(status) if status.code() == Code::NotFound => continue,
            answer => answer?,
        };
        if let Some(MessageResponse::FileDescriptorResponse(file)) =
            answer.and_then(|answer| answer.message_response)
        {
            let file = file.file_descriptor_proto;
            files.extend(file.iter().filter_map(|it| FileDescriptorProto::decode(&**it).ok()));
        }
    }
    Ok(files)
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
