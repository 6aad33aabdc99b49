//! The bearer token that calls send, from a file, so that it stands in no list of processes.

use std::path::{Path, PathBuf};

use clap::Args;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
};

use super::{args::CONNECTION, failure::Failure};

#[derive(Debug, Clone, Default, Args)]
pub struct TokenArgs {
    /// File with the bearer token to send, for a server that asks for one.
    #[arg(long, env = "SESSIOND_TOKEN_FILE", value_name = "PATH", global = true, help_heading = CONNECTION)]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token of another file.
    pub fn of_file(path: PathBuf) -> Self {
        Self { token_file: Some(path) }
    }

    /// Adds the token of the file to calls. The file is read once.
    pub fn bearer(&self) -> Result<Bearer, Failure> {
        match &self.token_file {
            Some(path) => read(path).map(|value| Bearer(Some(value))),
            None => Ok(Bearer(None)),
        }
    }
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
#[derive(Debug, Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let args = TokenArgs { token_file: Some(path.clone()) };
        assert!(args.bearer().unwrap_err().text().contains("token file '"));
        std::fs::write(&path, "s3cret-._~+/==\n").unwrap();
        let mut bearer = args.bearer().unwrap();
        let request = bearer.call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer s3cret-._~+/==");
        assert!(!format!("{bearer:?} {request:?}").contains("s3cret"));
        for content in ["", "\n", "s3cret two", "s3cret\nmore", "s3cret\u{e9}", "{\"s3cret\":1}"] {
            std::fs::write(&path, content).unwrap();
            let error = args.bearer().unwrap_err().text();
            assert!(error.contains("one token") && !error.contains("s3cret"), "{error}");
        }
        let request = TokenArgs::default().bearer().unwrap().call(Request::new(())).unwrap();
        assert!(request.metadata().is_empty());
    }
}
