//! Notes of each call: a log line with `--log-calls`, its metrics, and the spans of one that is sampled. None of them has anything that a caller has written but the method's
//! path and the name in its credential.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use http_body_util::BodyExt as _;
use tonic::{
    Code, Status,
    body::Body,
    codegen::{Bytes, http},
};

use super::traces::{TracedCall, Traces};
use crate::{
    access::Principal,
    metrics::{Calls, MeasuredCall},
    proto::code_name,
    rpc::status::reason,
    store::CallId,
};

/// Characters of a path. Those of the services are shorter.
const PATH_CHARS: usize = 128;

#[derive(Default)]
pub struct CallNotes {
    pub log: bool,
    pub calls: Option<Arc<Calls>>,
    /// `None`: no call has spans.
    pub traces: Option<Traces>,
}

/// A call that has begun. It is noted when its answer ends, or when the client leaves.
pub struct CallLog {
    began: Instant,
    /// As far as it is known.
    code: Option<Code>,
    line: Option<Line>,
    metrics: Option<MeasuredCall>,
    traced: Option<TracedCall>,
}

struct Line {
    path: String,
    request_id: CallId,
    /// `None`: the call was refused for its credential.
    principal: Option<Principal>,
    peer: Arc<str>,
    received: Arc<AtomicU64>,
    sent: u64,
}

impl CallNotes {
    /// Begins a call, if anything is noted of it.
    #[expect(clippy::disallowed_methods, reason = "the duration is that of the process's clock")]
    pub fn begin(
        &self,
        request: &http::Request<Body>,
        principal: Option<&Principal>,
        peer: &Arc<str>,
    ) -> Option<CallLog> {
        let path = request.uri().path();
        let line = || Line {
            path: path.chars().take(PATH_CHARS).collect(),
            request_id: CallId::next(),
            principal: principal.cloned(),
            peer: Arc::clone(peer),
            received: Arc::default(),
            sent: 0,
        };
        let line = self.log.then(line);
        let metrics = self.calls.as_ref().map(|calls| calls.begin(path));
        // Calls without a valid credential have no spans.
        let traces = self.traces.as_ref().filter(|_| principal.is_some());
        let traced = traces.and_then(|traces| traces.begin(request));
        (line.is_some() || metrics.is_some() || traced.is_some()).then(|| CallLog {
            began: Instant::now(),
            code: None,
            line,
            metrics,
            traced,
        })
    }
}

impl CallLog {
    /// The same request with the id of its line, and with what the services note their stages in. Its bytes are counted.
    pub fn request(&self, mut request: http::Request<Body>) -> http::Request<Body> {
        if let Some(traced) = &self.traced {
            request.extensions_mut().insert(traced.spans.clone());
        }
        let Some(line) = &self.line else { return request };
        request.extensions_mut().insert(line.request_id);
        let received = Arc::clone(&line.received);
        request.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                received.fetch_add(bytes as u64, Relaxed);
                frame
            }))
        })
    }

    /// It has an answer with these headers.
    pub fn answered(&mut self, headers: &http::HeaderMap) {
        self.traced.iter().for_each(|traced| traced.spans.answered());
        self.ended(headers);
    }

    pub fn sent(&mut self, data: &Bytes) {
        if let Some(line) = &mut self.line {
            line.sent += data.len() as u64;
        }
    }

    /// Trailers, or the headers of an answer without a body: they have its status.
    pub fn ended(&mut self, headers: &http::HeaderMap) {
        // Most calls end well. The details of others are decoded.
        match headers.get(Status::GRPC_STATUS) {
            None => return,
            Some(code) if code == "0" => self.code = Some(Code::Ok),
            Some(_) => {
                let Some(status) = Status::from_header_map(headers) else { return };
                self.code = Some(status.code());
                if let Some(call) = &self.metrics {
                    call.refuse(reason(&status).as_deref());
                }
            }
        }
        // Before the client has the status, so that it finds its call in the metrics and in the log.
        self.note();
    }

    fn note(&mut self) {
        // Without a status the client has left.
        let code = self.code.unwrap_or(Code::Cancelled);
        if let Some(traced) = self.traced.take() {
            traced.end(code);
        }
        let code = code_name(code);
        let elapsed = self.began.elapsed();
        if let Some(call) = self.metrics.take() {
            call.end(code, elapsed);
        }
        let Some(line) = self.line.take() else { return };
        let Line { path, request_id, principal, peer, received, sent } = line;
        tracing::info!(
            target: "sessiond::calls",
            method = path.trim_start_matches('/'),
            %request_id,
            // As a text, so that the log quotes what a certificate or a token says.
            principal = principal.as_ref().map_or("none", Principal::name),
            peer = &*peer,
            code,
            micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            received_bytes = received.load(Relaxed),
            sent_bytes = sent,
            "call"
        );
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        self.note();
    }
}
