//! The inspector: a page in the program, with which people look at sessions in a browser. `ui/` has its sources.

use std::{collections::HashMap, fmt::Write as _, io::Write as _};

use flate2::{Compression, write::GzEncoder};
use ring::digest::{SHA256, digest};
use tonic::{
    body::Body,
    codegen::{
        Bytes,
        http::{
            HeaderName, HeaderValue, Request, Response, StatusCode,
            header::{
                ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
                CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
            },
        },
    },
};

/// The files of the page: a path, a type and what is there.
const FILES: &[(&str, &str, &[u8])] = if cfg!(feature = "inspector") {
    &[
        ("/", "text/html; charset=utf-8", include_bytes!("../../ui/dist/index.html")),
        ("/assets/app.js", "text/javascript", include_bytes!("../../ui/dist/app.js")),
        ("/assets/app.css", "text/css", include_bytes!("../../ui/dist/app.css")),
    ]
} else {
    &[]
};

/// The page runs nothing and loads nothing but its own files, whatever the body of an event says, and no other page frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

/// Headers of each file, beside those of every answer.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    // A browser asks whether its copy is still the one.
    (CACHE_CONTROL, "no-cache"),
    (VARY, "accept-encoding"),
];

pub struct Inspector {
    files: HashMap<&'static str, File>,
    /// What the page knows before it shows a credential.
    facts: String,
}

struct File {
    kind: &'static str,
    tag: HeaderValue,
    plain: &'static [u8],
    gzip: Bytes,
}

impl Inspector {
    pub fn new(is_read_only: bool, needs_credential: bool) -> Self {
        let files = FILES.iter().map(|&(path, kind, plain)| (path, File::new(kind, plain)));
        let facts =
            format!(r#"{{"readOnly":{is_read_only},"needsCredential":{needs_credential}}}"#);
        Self { files: files.collect(), facts }
    }

    /// The answer to a request for the page; `None`: it is for something else.
    pub fn answer<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let path = request.uri().path();
        if self.files.is_empty() {
            return None;
        }
        if path == "/inspector.json" {
            let mut response = Response::new(Body::new(self.facts.clone()));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            return Some(response);
        }
        self.files.get(path).map(|file| file.answer(request))
    }
}

impl File {
    fn new(kind: &'static str, plain: &'static [u8]) -> Self {
        let mut tag = String::from("\"");
        for byte in &digest(&SHA256, plain).as_ref()[..8] {
            // Writing to a text does not fail.
            let _ = write!(tag, "{byte:02x}");
        }
        tag.push('"');
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = encoder.write_all(plain).and_then(|()| encoder.finish()).unwrap_or_default();
        let tag = HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""));
        Self { kind, tag, plain, gzip: gzip.into() }
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let asked = |name| request.headers().get(name).and_then(|it| it.to_str().ok());
        let is_known = asked(IF_NONE_MATCH).is_some_and(|it| Some(it) == self.tag.to_str().ok());
        let is_gzip = asked(ACCEPT_ENCODING).is_some_and(|it| it.contains("gzip"));
        let body = match (is_known, is_gzip) {
            (true, _) => Bytes::new(),
            (false, true) => self.gzip.clone(),
            (false, false) => Bytes::from_static(self.plain),
        };
        let mut response = Response::new(Body::new(http_body_util::Full::from(body)));
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(ETAG, self.tag.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else if is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}
