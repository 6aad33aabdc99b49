//! A log line for each call, with `--log-calls`. It has nothing that a caller has written but the method's path and
//! the name in his credential.

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
    codegen::{Body as _, Bytes, http},
};

use crate::{access::Principal, proto::code_name, store::CallId};

/// Characters of a path. Those of the services are shorter.
const PATH_CHARS: usize = 128;

/// A call that has begun. Its line is written when its answer ends, or when the client leaves.
pub struct CallLog {
    path: String,
    request_id: CallId,
    /// `None`: the call was refused for its credential.
    principal: Option<Principal>,
    began: Instant,
    received: Arc<AtomicU64>,
    sent: u64,
    /// As far as it is known.
    code: Option<Code>,
}

impl CallLog {
    #[expect(clippy::disallowed_methods, reason = "the duration is that of the process's clock")]
    pub fn new(request_id: CallId, path: &str, principal: Option<Principal>) -> Self {
        Self {
            path: path.chars().take(PATH_CHARS).collect(),
            request_id,
            principal,
            began: Instant::now(),
            received: Arc::default(),
            sent: 0,
            code: None,
        }
    }

    /// The same request with the id of its line. Its bytes are counted.
    pub fn request(&self, mut request: http::Request<Body>) -> http::Request<Body> {
        request.extensions_mut().insert(self.request_id);
        let received = Arc::clone(&self.received);
        request.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                received.fetch_add(bytes as u64, Relaxed);
                frame
            }))
        })
    }

    /// The same answer. Its end is that of the call.
    pub fn answer(mut self, answer: http::Response<Body>) -> http::Response<Body> {
        // An answer without a body has its status in the headers.
        self.code = Status::from_header_map(answer.headers()).map(|status| status.code());
        if answer.body().is_end_stream() {
            return answer;
        }
        answer.map(|body| {
            Body::new(body.map_frame(move |frame| {
                self.note(frame.data_ref(), frame.trailers_ref());
                frame
            }))
        })
    }

    fn note(&mut self, data: Option<&Bytes>, trailers: Option<&http::HeaderMap>) {
        self.sent += data.map_or(0, Bytes::len) as u64;
        if let Some(trailers) = trailers {
            self.code = Status::from_header_map(trailers).map(|status| status.code());
        }
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        let Self { path, request_id, principal, began, received, sent, code } = self;
        // Without a status the client has left.
        let code = code.unwrap_or(Code::Cancelled);
        tracing::info!(
            target: "sessiond::calls",
            method = path.trim_start_matches('/'),
            %request_id,
            // As a text, so that the log quotes what a certificate or a token says.
            principal = principal.as_ref().map_or("none", Principal::name),
            code = code_name(code),
            micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
            received_bytes = received.load(Relaxed),
            sent_bytes = *sent,
            "call"
        );
    }
}
