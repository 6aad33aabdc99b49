//! The flags of the HTTP listener.

use std::str::FromStr;

use clap::{Args, builder::BoolishValueParser};
use tonic::codegen::http::uri::Authority;

use super::Listen;

/// Calls over HTTP: the Connect protocol, for curl, browsers and languages without an adapter. Whatever protects `--listen` (TLS, tokens,
/// policy, limits) holds here too.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// Address of the HTTP listener, HOST:PORT or unix:PATH, or off; 127.0.0.1:8380 by default while --listen is a loopback address
    #[arg(long, env = "SESSIOND_HTTP_LISTEN", value_name = "ADDRESS")]
    pub http_listen: Option<HttpListen>,

    /// Names by which the HTTP listener is reached, beside localhost and its address: a request to another one is refused
    #[arg(long, env = "SESSIOND_HTTP_HOSTS", value_name = "HOST,...", value_delimiter = ',', value_parser = host)]
    pub http_hosts: Vec<String>,

    /// Origins, each a scheme and a host, whose pages may call the HTTP listener
    #[arg(long, env = "SESSIOND_HTTP_ORIGINS", value_name = "ORIGIN,...", value_delimiter = ',', value_parser = origin)]
    pub http_origins: Vec<String>,

    /// Refuse calls that change anything on the HTTP listener
    #[arg(long, env = "SESSIOND_HTTP_READ_ONLY", value_parser = BoolishValueParser::new())]
    pub http_read_only: bool,
}

/// A name without scheme and port, as it is compared.
fn host(text: &str) -> Result<String, &'static str> {
    let host = text.trim();
    match host.parse::<Authority>() {
        Ok(authority) if authority.host() == host && !host.contains('*') => Ok(host.to_owned()),
        _ => Err("not a host. Pass a name without scheme and port, as in sessions.example.com"),
    }
}

/// An origin as browsers send it: without the port that its scheme has by itself.
fn origin(text: &str) -> Result<String, &'static str> {
    const ADVICE: &str = "not an origin. Pass its scheme and host, as in https://app.example.com";
    let text = text.trim().to_ascii_lowercase();
    let (scheme, host) = text.split_once("://").ok_or(ADVICE)?;
    let own_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return Err(ADVICE),
    };
    let authority: Authority = host.parse().map_err(|_| ADVICE)?;
    let has_port = authority.as_str().len() > authority.host().len();
    if host.contains(['*', '@']) || has_port && authority.port_u16().is_none() {
        return Err(ADVICE);
    }
    Ok(format!("{scheme}://{}", host.strip_suffix(own_port).unwrap_or(host)))
}

/// The address of the HTTP listener, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpListen {
    Off,
    On(Listen),
}

impl FromStr for HttpListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            _ => text.parse().map(Self::On).map_err(|_: String| {
                "not an address. Pass HOST:PORT, as in 127.0.0.1:8380, unix:PATH, or off".to_owned()
            }),
        }
    }
}
