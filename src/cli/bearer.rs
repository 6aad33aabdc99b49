//! The bearer token that calls send, from a file, so that it stands in no list of processes.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::Uri,
};

use super::{args::CONNECTION, failure::Failure};

#[derive(Debug, Clone, Default, Args)]
pub struct TokenArgs {
    /// File with the bearer token to send, for a server that asks for one. Without TLS it is sent to loopback addresses and Unix sockets only.
    #[arg(long, env = "SESSIOND_TOKEN_FILE", value_name = "PATH", global = true, help_heading = CONNECTION)]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token of another file.
    pub fn of_file(path: PathBuf) -> Self {
        Self { token_file: Some(path) }
    }

    pub fn file(&self) -> &Option<PathBuf> {
        let Self { token_file } = self;
        token_file
    }

    /// Adds the token of the file to calls to a server.
    pub fn bearer(&self, server: &str) -> Result<Bearer, Failure> {
        let Some(path) = &self.token_file else { return Ok(Bearer::default()) };
        if !server.starts_with("https://") && !is_local(server) {
            let text = format!(
                "refusing to send the token of --token-file to {server} without TLS. Write https://HOST:PORT"
            );
            return Err(Failure::Usage(text));
        }
        Ok(Bearer { value: Some(read(path)?), file: Some(path.clone()) })
    }
}

/// Whether calls stay on this machine: a Unix socket or a loopback address.
fn is_local(server: &str) -> bool {
    let uri = server.parse::<Uri>();
    let host = uri.as_ref().ok().and_then(Uri::host).unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    server.starts_with("unix:")
        || host.eq_ignore_ascii_case("localhost")
        || ip.is_ok_and(|ip| ip.is_loopback())
}

fn read(path: &Path) -> Result<MetadataValue<Ascii>, Failure> {
    let fail = |cause: &str| {
        Failure::Usage(format!("cannot use the token file '{}': {cause}", path.display()))
    };
    let content = std::fs::read_to_string(path).map_err(|error| fail(&error.to_string()))?;
    let token =
        token(&content).ok_or_else(|| fail("it has to contain one token and nothing else"))?;
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {token}").parse().map_err(|_| fail("it is not a token"))?;
    // Tools that print metadata leave it out.
    value.set_sensitive(true);
    Ok(value)
}

/// The token of a file or of standard input: letters, digits and `-._~+/=` (RFC 6750), perhaps with white space around them.
pub fn token(content: &str) -> Option<&str> {
    let token = content.trim();
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    (!token.is_empty() && token.bytes().all(may)).then_some(token)
}

/// Adds the token to every call.
#[derive(Debug, Clone, Default)]
pub struct Bearer {
    value: Option<MetadataValue<Ascii>>,
    /// Where the value comes from.
    file: Option<PathBuf>,
}

impl Bearer {
    /// Takes the token that is in the file now. Returns whether it is another one. A file that cannot be used changes nothing.
    pub fn renew(&mut self) -> Result<bool, Failure> {
        let value = self.file.as_deref().map(read).transpose()?;
        let is_new = value != self.value;
        self.value = value;
        Ok(is_new)
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.value {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "http://127.0.0.1:1";

    #[test]
    fn a_token_is_sent_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let args = TokenArgs { token_file: Some(path.clone()) };
        assert!(args.bearer(HERE).unwrap_err().text().contains("token file '"));
        std::fs::write(&path, "s3cret-._~+/==\n").unwrap();
        let mut bearer = args.bearer(HERE).unwrap();
        let request = bearer.call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer s3cret-._~+/==");
        assert!(!format!("{bearer:?} {request:?}").contains("s3cret"));
        assert!(!bearer.renew().unwrap());
        std::fs::write(&path, "n3xt").unwrap();
        assert!(bearer.renew().unwrap());
        std::fs::write(&path, "not a token").unwrap();
        assert!(bearer.renew().unwrap_err().text().contains("one token"));
        let request = bearer.call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer n3xt");
        for content in ["", "\n", "s3cret two", "s3cret\nmore", "s3cret\u{e9}", "{\"s3cret\":1}"] {
            std::fs::write(&path, content).unwrap();
            let error = args.bearer(HERE).unwrap_err().text();
            assert!(error.contains("one token") && !error.contains("s3cret"), "{error}");
        }
        let mut none = TokenArgs::default().bearer("http://db.internal:1").unwrap();
        assert!(!none.renew().unwrap());
        assert!(none.call(Request::new(())).unwrap().metadata().is_empty());
    }

    #[test]
    fn a_token_is_sent_over_tls_or_to_this_machine_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "s3cret").unwrap();
        let args = TokenArgs::of_file(path);
        for server in [
            "https://db.internal:443",
            "unix:/run/s.sock",
            "unix:///run/s.sock",
            "http://localhost:1",
            "http://LocalHost:1",
            "http://127.8.8.8:1",
            "http://[::1]:1",
        ] {
            assert!(args.bearer(server).is_ok(), "{server}");
        }
        for server in [
            "http://db.internal:80",
            "http://10.0.0.1:1",
            "http://0.0.0.0:1",
            "http://[2001:db8::1]:1",
            "http://localhost.example.org:1",
            "http://127.0.0.1@db.internal:1",
            "http://127.0.0.1.example.org:1",
        ] {
            let refused = args.bearer(server).unwrap_err();
            assert!(matches!(refused, Failure::Usage(_)), "{server}");
            let text = refused.text();
            assert!(text.contains("--token-file") && text.contains(server), "{text}");
            assert!(text.contains("Write https://HOST:PORT") && !text.contains("s3cret"), "{text}");
        }
    }
}
