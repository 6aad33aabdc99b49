//! Calls of any method of the contract, with messages that are made from its descriptors.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use futures_util::stream;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, Value};
use serde_json::Value as Json;
use sessiond::proto::{DESCRIPTOR_SET, code_name};
use tokio::time::timeout;
use tonic::{
    Code, Status,
    body::Body,
    client::{Grpc, GrpcService},
    codegen::{self, Bytes, StdError},
    metadata::{KeyAndValueRef, MetadataMap},
    transport::Channel,
};
use tonic_types::StatusExt as _;

use crate::{
    harness::{PATIENCE, with_token},
    over_http::OverHttp,
    raw::Raw,
};

static CONTRACT: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTOR_SET).unwrap());

/// All methods of the contract.
pub fn methods() -> Vec<MethodDescriptor> {
    let own = CONTRACT.services().filter(|it| it.package_name() == "sessiond.v1");
    own.flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

pub fn method(name: &str) -> MethodDescriptor {
    let found = methods().into_iter().find(|it| it.name() == name);
    found.unwrap_or_else(|| panic!("the contract has no method {name}"))
}

/// A request of a method from its JSON form.
pub fn request(method: &MethodDescriptor, json: &Json) -> DynamicMessage {
    DynamicMessage::deserialize(method.input(), json).unwrap_or_else(|error| {
        panic!("{json} is no request of {}: {error}", method.name());
    })
}

/// A caller: a connection, and the token that it sends.
#[derive(Clone)]
pub struct Client {
    way: Way,
    token: Option<String>,
}

#[derive(Clone)]
enum Way {
    Grpc(Channel),
    Http(OverHttp),
}

/// An answer as its caller sees it.
pub struct Answer {
    pub messages: Vec<DynamicMessage>,
    /// Headers, and trailers with the status and its details, as they came.
    pub metadata: Vec<String>,
    pub refusal: Option<Refusal>,
}

/// An error, by the status of a call or by an item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub reason: String,
    pub message: String,
    pub metadata: BTreeMap<String, String>,
    /// All other details, and names of trailers.
    pub rest: String,
}

impl Client {
    pub fn new(channel: Channel) -> Self {
        Self { way: Way::Grpc(channel), token: None }
    }

    /// The same caller over HTTP.
    pub fn over_http(&self, way: OverHttp) -> Self {
        Self { way: Way::Http(way), token: self.token.clone() }
    }

    pub fn is_over_http(&self) -> bool {
        matches!(self.way, Way::Http(_))
    }

    pub fn with_token(&self, token: &str) -> Self {
        Self { way: self.way.clone(), token: Some(token.to_owned()) }
    }

    /// The answer of a call. A watch counts as answered when it has caught up.
    pub async fn call(&self, method: &MethodDescriptor, request: &DynamicMessage) -> Answer {
        let mut answer = Answer { messages: Vec::new(), metadata: Vec::new(), refusal: None };
        let calling = self.follow(method, request, |message| {
            let is_live = message.has_field_by_name("caught_up");
            answer.messages.push(message);
            is_live
        });
        let (metadata, ended) =
            timeout(PATIENCE, calling).await.unwrap_or_else(|_| panic!("no answer: {request:?}"));
        answer.metadata = metadata;
        answer.refusal = ended.as_ref().map(of_status);
        let failed = answer.messages.iter().find(|it| it.has_field_by_name("failure"));
        let failure = failed.and_then(|it| it.get_field_by_name("failure"));
        if let Some(Value::Message(failure)) = failure.as_deref() {
            answer.refusal = Some(of_item(failure));
        }
        answer
    }

    /// Calls with a request in JSON.
    pub async fn ask(&self, name: &str, json: &Json) -> Answer {
        let method = method(name);
        self.call(&method, &request(&method, json)).await
    }

    /// Calls, and passes on each message until one is enough. The metadata, and the status if the call failed.
    pub async fn follow(
        &self,
        method: &MethodDescriptor,
        request: &DynamicMessage,
        is_enough: impl FnMut(DynamicMessage) -> bool,
    ) -> (Vec<String>, Option<Status>) {
        match &self.way {
            Way::Grpc(channel) => self.follow_on(channel.clone(), method, request, is_enough).await,
            Way::Http(way) => self.follow_on(way.clone(), method, request, is_enough).await,
        }
    }

    async fn follow_on<S: GrpcService<Body>>(
        &self,
        way: S,
        method: &MethodDescriptor,
        request: &DynamicMessage,
        mut is_enough: impl FnMut(DynamicMessage) -> bool,
    ) -> (Vec<String>, Option<Status>)
    where
        S::ResponseBody: codegen::Body<Data = Bytes> + Send + 'static,
        <S::ResponseBody as codegen::Body>::Error: Into<StdError>,
    {
        let mut client = Grpc::new(way);
        if let Err(error) = client.ready().await {
            panic!("the connection is lost: {}", error.into());
        }
        let messages = stream::iter([request.encode_to_vec()]);
        let call = with_token(self.token.as_deref(), messages);
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let answer = match client.streaming(call, path.parse().unwrap(), Raw).await {
            Err(status) => return (shown(status.metadata()), Some(status)),
            Ok(answer) => answer,
        };
        let mut metadata = shown(answer.metadata());
        let mut messages = answer.into_inner();
        loop {
            match messages.message().await {
                Ok(Some(bytes)) => {
                    let message = DynamicMessage::decode(method.output(), &*bytes).unwrap();
                    if is_enough(message) {
                        return (metadata, None);
                    }
                }
                Ok(None) => {
                    let trailers = messages.trailers().await.unwrap();
                    metadata.extend(trailers.iter().flat_map(shown));
                    return (metadata, None);
                }
                Err(status) => {
                    metadata.extend(shown(status.metadata()));
                    return (metadata, Some(status));
                }
            }
        }
    }
}

impl Answer {
    /// The code as gRPC spells it.
    pub fn code(&self) -> &str {
        self.refusal.as_ref().map_or("OK", |refusal| &refusal.code)
    }

    /// The only message of a call that succeeded.
    pub fn message(&self) -> &DynamicMessage {
        assert!(self.refusal.is_none(), "{:?}", self.refusal);
        &self.messages[0]
    }
}

fn shown(metadata: &MetadataMap) -> Vec<String> {
    let entries = metadata.iter().map(|entry| match entry {
        KeyAndValueRef::Ascii(name, value) => {
            format!("{name}: {}", value.to_str().unwrap_or_default())
        }
        KeyAndValueRef::Binary(name, value) => {
            let value = value.to_bytes().unwrap();
            format!("{name}: {}", String::from_utf8_lossy(&value))
        }
    });
    entries.collect()
}

fn of_status(status: &Status) -> Refusal {
    let details = status.get_error_details();
    let info = details.error_info().cloned().unwrap_or_else(|| panic!("no reason: {status:?}"));
    // The date differs, and the details are compared piece by piece.
    let names = status.metadata().keys().map(|key| format!("{key:?}"));
    let names: Vec<_> = names.collect();
    let mut others = details.clone();
    others.set_error_info("", "", HashMap::<String, String>::new());
    Refusal {
        code: code_name(status.code()).to_owned(),
        reason: info.reason,
        message: status.message().to_owned(),
        metadata: info.metadata.into_iter().collect(),
        rest: format!("{names:?} {others:?}"),
    }
}

fn of_item(failure: &DynamicMessage) -> Refusal {
    let mut json = serde_json::to_value(failure).unwrap();
    let text = |it: Json| it.as_str().unwrap_or_default().to_owned();
    let code = json["code"].as_i64().unwrap();
    Refusal {
        code: code_name(Code::from(i32::try_from(code).unwrap())).to_owned(),
        reason: text(json["reason"].take()),
        message: text(json["message"].take()),
        metadata: serde_json::from_value(json["metadata"].take()).unwrap_or_default(),
        rest: json.to_string(),
    }
}
