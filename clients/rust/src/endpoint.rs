//! Server addresses: `HOST:PORT`, `unix:PATH`, `sessiond://HOST:PORT`, `sessiond:///PATH`, `http://HOST:PORT` or `https://HOST:PORT`.

use std::{net::IpAddr, time::Duration};

use adk_core::{AdkError, Result};
use tonic::transport::Endpoint;

use crate::error::invalid;

const DEFAULT_PORT: u16 = 50051;

/// The server runs beside the agent, so this is generous.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection with calls in flight is pinged after this long without data, and closed if it stays silent as long again.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

const FORMS: &str = "Use HOST:PORT, unix:PATH, sessiond://HOST:PORT, sessiond:///PATH (a unix socket), http://HOST:PORT or https://HOST:PORT.";

/// What the query of a URI sets.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Settings {
    pub timeout: Option<Duration>,
    pub attempts: Option<u32>,
    pub first_delay: Option<Duration>,
    pub max_delay: Option<Duration>,
}

/// A server address as tonic takes it.
#[derive(Debug)]
pub(crate) struct Address {
    uri: String,
    pub settings: Settings,
}

pub(crate) fn parse(address: &str) -> Result<Address> {
    let (uri, settings) = uri(address)?;
    Ok(Address { uri, settings })
}

impl Address {
    pub fn endpoint(&self) -> Result<Endpoint> {
        let endpoint = Endpoint::from_shared(self.uri.clone())
            .map_err(|cause| bad(&self.uri, "is not a server address.").with_source(cause))?;
        Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            // The HTTP/2 library would end the connection, with all its calls and watches, after 1024 answers to calls that were given up.
            .http2_max_local_error_reset_streams(None))
    }

    pub fn is_tls(&self) -> bool {
        self.uri.starts_with("https://")
    }

    /// Whether calls stay on this machine: a Unix socket or a loopback address.
    pub fn is_local(&self) -> bool {
        let host = self.target().rsplit_once(':').map_or("", |(host, _)| host);
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        self.uri.starts_with("unix:") || host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// `HOST:PORT` or `unix:PATH`, for messages.
    pub fn target(&self) -> &str {
        self.uri.split_once("://").map_or(&self.uri, |(_, target)| target)
    }
}

fn bad(address: &str, says: &str) -> AdkError {
    invalid("session.bad_address", format!("'{address}' {says} {FORMS}"))
}

/// The address as tonic takes it, and the settings of its query.
fn uri(address: &str) -> Result<(String, Settings)> {
    let text = address.trim();
    if text.starts_with("unix:") {
        let path = text.strip_prefix("unix://").or(text.strip_prefix("unix:")).unwrap_or_default();
        return Ok((unix(address, path)?, Settings::default()));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok((tcp("http", address, text)?, Settings::default()));
    };
    let (place, query) =
        rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let settings = query.map_or(Ok(Settings::default()), |query| settings(address, query))?;
    let uri = match scheme {
        "sessiond" if place.starts_with('/') => unix(address, &decode(address, place)?)?,
        "sessiond" | "http" => tcp("http", address, place)?,
        "https" => tcp("https", address, place)?,
        _ => return Err(bad(address, "has an unknown scheme.")),
    };
    Ok((uri, settings))
}

fn unix(address: &str, path: &str) -> Result<String> {
    if path.trim_matches('/').is_empty() {
        return Err(bad(address, "names no socket."));
    }
    Ok(format!("unix:{path}"))
}

/// Adds the default port to an authority without a port. An IPv6 address must be in brackets.
fn tcp(scheme: &str, address: &str, place: &str) -> Result<String> {
    let has_scheme = address.contains("://");
    let authority = place.strip_suffix('/').filter(|_| has_scheme).unwrap_or(place);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !authority.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, Some(DEFAULT_PORT)),
    };
    match port {
        Some(port) if port > 0 && is_host(host) => Ok(format!("{scheme}://{host}:{port}")),
        _ => Err(bad(address, "is not a server address.")),
    }
}

fn is_host(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let forbidden = |c: char| c.is_whitespace() || "/?#@[]".contains(c);
    !host.is_empty()
        && !bare.unwrap_or(host).contains(forbidden)
        && (bare.is_some() || !host.contains(':'))
}

/// Decodes `%20` and its kin in the path of a socket.
fn decode(address: &str, text: &str) -> Result<String> {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(digits.ok_or_else(|| bad(address, "has a '%' that is no escape."))?);
        decoded.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(decoded).map_err(|cause| bad(address, "is not UTF-8.").with_source(cause))
}

fn settings(address: &str, query: &str) -> Result<Settings> {
    let mut settings = Settings::default();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = match name {
            "timeout" => seconds(value).map(|value| settings.timeout = Some(value)),
            "first_delay" => seconds(value).map(|value| settings.first_delay = Some(value)),
            "max_delay" => seconds(value).map(|value| settings.max_delay = Some(value)),
            "attempts" => {
                let attempts = value.parse().ok().filter(|attempts| *attempts > 0);
                attempts.map(|value| settings.attempts = Some(value))
            }
            // The default. ADK for Rust appends without a session object, so the others need a TrackedSession.
            "stale" if value == "merge" => Some(()),
            _ => None,
        };
        if known.is_none() {
            let says = format!(
                "'{address}' has the setting '{pair}'. Use timeout, first_delay and max_delay (in seconds) or attempts, \
                 each with a positive number. For stale=conflict, use SessiondSessionService::get_tracked."
            );
            return Err(invalid("session.bad_address", says));
        }
    }
    Ok(settings)
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_in_the_other_adapters() {
        for (address, wanted) in [
            ("127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("sessions.internal", "http://sessions.internal:50051"),
            (" localhost:1 ", "http://localhost:1"),
            ("http://127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("http://127.0.0.1:50051/", "http://127.0.0.1:50051"),
            ("http://localhost", "http://localhost:50051"),
            ("https://sessions.internal/", "https://sessions.internal:50051"),
            ("https://[::1]:443", "https://[::1]:443"),
            ("[::1]:50051", "http://[::1]:50051"),
            ("[::1]", "http://[::1]:50051"),
            ("sessions.internal:80", "http://sessions.internal:80"),
            ("sessiond://127.0.0.1:50052", "http://127.0.0.1:50052"),
            ("sessiond://localhost/", "http://localhost:50051"),
            ("sessiond://[::1]:7", "http://[::1]:7"),
            ("sessiond:///run/my%20s.sock", "unix:/run/my s.sock"),
            ("unix:/run/sessiond.sock", "unix:/run/sessiond.sock"),
            ("unix:///run/sessiond.sock", "unix:/run/sessiond.sock"),
            ("unix:here.sock", "unix:here.sock"),
        ] {
            assert_eq!(uri(address).unwrap(), (wanted.into(), Settings::default()), "{address}");
        }
    }

    #[test]
    fn an_address_may_have_settings() {
        let (place, settings) =
            uri("sessiond:///s.sock?timeout=0.5&attempts=2&first_delay=1&max_delay=2&stale=merge")
                .unwrap();
        assert_eq!(place, "unix:/s.sock");
        let wanted = Settings {
            timeout: Some(Duration::from_millis(500)),
            attempts: Some(2),
            first_delay: Some(Duration::from_secs(1)),
            max_delay: Some(Duration::from_secs(2)),
        };
        assert_eq!(settings, wanted);
        for query in [
            "x=1",
            "timeout",
            "timeout=",
            "timeout=0",
            "timeout=-1",
            "timeout=nan",
            "timeout=inf",
            "timeout=soon",
            "attempts=0",
            "attempts=1.5",
            "stale=conflict",
            "",
        ] {
            let error = uri(&format!("http://h:1?{query}")).unwrap_err();
            assert_eq!(error.code, "session.bad_address", "{query}");
            assert!(error.message.contains("Use timeout"), "{query}: {}", error.message);
        }
    }

    #[test]
    fn a_bad_address_is_invalid_input() {
        for address in [
            "",
            ":50051",
            "localhost:",
            "localhost:0",
            "localhost:http",
            "http://",
            "http:///run/s.sock",
            "unix:",
            "unix://",
            "unix:///",
            "sessiond://",
            "sessiond:///",
            "sessiond:///a%2",
            "sessiond:///a%zz",
            "sessiond://host:1/path",
            "sessiond://host:1#x",
            "https://",
            "ftp://localhost:50051",
            "localhost:70000",
            "local host:1",
            "a:1/b:2",
            "::1:50051",
            "me@host:1",
            "host:1?",
            "[]x:1",
        ] {
            let error = parse(address).and_then(|address| address.endpoint()).unwrap_err();
            assert_eq!(error.category, adk_core::ErrorCategory::InvalidInput, "{address}");
            assert_eq!(error.code, "session.bad_address", "{address}");
        }
    }
}
