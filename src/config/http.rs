//! The flags of the HTTP listener.

use std::str::FromStr;

use clap::{Args, builder::BoolishValueParser};

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
    #[arg(long, env = "SESSIOND_HTTP_HOSTS", value_name = "HOST,...", value_delimiter = ',')]
    pub http_hosts: Vec<String>,

    /// Origins, each a scheme and a host, whose pages may call the HTTP listener
    #[arg(long, env = "SESSIOND_HTTP_ORIGINS", value_name = "ORIGIN,...", value_delimiter = ',', value_parser = origin)]
    pub http_origins: Vec<String>,

    /// Refuse calls that change anything on the HTTP listener
    #[arg(long, env = "SESSIOND_HTTP_READ_ONLY", value_parser = BoolishValueParser::new())]
    pub http_read_only: bool,
}

/// An origin as browsers send it.
fn origin(text: &str) -> Result<String, &'static str> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '*']) => {
            Ok(text.to_ascii_lowercase())
        }
        _ => Err("not an origin. Pass its scheme and host, as in https://app.example.com"),
    }
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
            _ => text.parse().map(Self::On).map_err(|error| format!("{error}, or off")),
        }
    }
}
