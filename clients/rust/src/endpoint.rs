//! Server addresses: `HOST:PORT`, `http://HOST:PORT` or `unix:PATH`.

use std::time::Duration;

use adk_core::Result;
use tonic::transport::Endpoint;

use crate::error::invalid;

/// The server runs beside the agent, so this is generous.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection with calls in flight is pinged after this long without data, and closed if it stays silent as long again.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

pub(crate) fn endpoint(address: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::from_shared(uri(address)?).map_err(|cause| {
        invalid("session.bad_address", format!("'{address}' is not a server address."))
            .with_source(cause)
    })?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE))
}

/// The address as tonic takes it.
fn uri(address: &str) -> Result<String> {
    let bad = |says: &str| Err(invalid("session.bad_address", format!("'{address}' {says}")));
    let authority = match address.split_once("://") {
        _ if address.starts_with("unix:") => {
            let path = address.strip_prefix("unix://").or(address.strip_prefix("unix:"));
            return match path {
                None | Some("") => bad("names no socket. Use unix:PATH."),
                Some(path) => Ok(format!("unix:{path}")),
            };
        }
        Some(("https", _)) => {
            return bad("asks for TLS. Pass a tonic channel with TLS to Builder::with_channel.");
        }
        Some(("http", authority)) => authority.strip_suffix('/').unwrap_or(authority),
        Some(_) => {
            return bad("has an unknown scheme. Use HOST:PORT, http://HOST:PORT or unix:PATH.");
        }
        None => address,
    };
    match authority.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => {
            Ok(format!("http://{authority}"))
        }
        _ => bad("is not a server address. Use HOST:PORT, http://HOST:PORT or unix:PATH."),
    }
}

/// An IPv6 address stands in brackets, as it has colons of its own.
fn is_host(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    !host.is_empty()
        && !bare.unwrap_or(host).contains(['/', '?', '#', '@', '[', ']'])
        && (bare.is_some() || !host.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        for (address, wanted) in [
            ("127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("http://127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("http://127.0.0.1:50051/", "http://127.0.0.1:50051"),
            ("[::1]:50051", "http://[::1]:50051"),
            ("sessions.internal:80", "http://sessions.internal:80"),
            ("unix:/run/sessiond.sock", "unix:/run/sessiond.sock"),
            ("unix:///run/sessiond.sock", "unix:/run/sessiond.sock"),
            ("unix:here.sock", "unix:here.sock"),
        ] {
            assert_eq!(uri(address).unwrap(), wanted);
            endpoint(address).unwrap();
        }
    }

    #[test]
    fn a_bad_address_is_invalid_input() {
        for address in [
            "",
            "localhost",
            ":50051",
            "localhost:",
            "localhost:http",
            "http://localhost",
            "unix:",
            "unix://",
            "https://localhost:50051",
            "ftp://localhost:50051",
            "localhost:70000",
            "local host:1",
            "a:1/b:2",
            "::1:50051",
            "me@host:1",
            "host:1?",
            "[]x:1",
            "http://",
        ] {
            let error = endpoint(address).unwrap_err();
            assert_eq!(error.category, adk_core::ErrorCategory::InvalidInput, "{address}");
            assert_eq!(error.code, "session.bad_address", "{address}");
        }
    }
}
