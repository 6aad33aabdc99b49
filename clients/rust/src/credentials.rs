//! TLS files and token files, from the builder or from the environment variables of the `sessiond` command.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use adk_core::{AdkError, Result};
use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::Endpoint,
};

use crate::{endpoint::Address, error::invalid};

/// Long enough that the file costs nothing, short enough for tokens that are replaced minutes before they expire.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A path, and the setting or variable that names it, for messages.
#[derive(Clone, Debug, PartialEq)]
struct File {
    path: PathBuf,
    source: &'static str,
}

impl File {
    fn new(path: impl Into<PathBuf>, source: &'static str) -> Self {
        Self { path: path.into(), source }
    }

    #[cfg(feature = "tls")]
    fn read(&self) -> Result<Vec<u8>> {
        fs::read(&self.path).map_err(|cause| self.unreadable(cause))
    }

    fn unreadable(&self, cause: std::io::Error) -> AdkError {
        let says = format!("{}: cannot read '{}': {cause}.", self.source, self.path.display());
        bad(says).with_source(cause)
    }
}

fn bad(says: impl Into<String>) -> AdkError {
    invalid("session.bad_credentials", says)
}

/// The files of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CredentialFiles {
    ca: Option<File>,
    certificate: Option<File>,
    key: Option<File>,
    token: Option<File>,
}

impl CredentialFiles {
    pub fn set_ca(&mut self, path: &Path) {
        self.ca = Some(File::new(path, "tls_ca"));
    }

    pub fn set_client_certificate(&mut self, certificate: &Path, key: &Path) {
        self.certificate = Some(File::new(certificate, "client_certificate"));
        self.key = Some(File::new(key, "client_certificate"));
    }

    pub fn set_token(&mut self, path: &Path) {
        self.token = Some(File::new(path, "token_file"));
    }

    /// Takes the files that are not set from the environment.
    pub fn or_environment(self, variable: impl Fn(&'static str) -> Option<OsString>) -> Self {
        let or = |file: Option<File>, source| {
            let named = || variable(source).filter(|path| !path.is_empty());
            file.or_else(|| named().map(|path| File::new(path, source)))
        };
        Self {
            ca: or(self.ca, "SESSIOND_TLS_CA"),
            certificate: or(self.certificate, "SESSIOND_CLIENT_TLS_CERT"),
            key: or(self.key, "SESSIOND_CLIENT_TLS_KEY"),
            token: or(self.token, "SESSIOND_TOKEN_FILE"),
        }
    }

    /// The endpoint of an address, with TLS if it is an https address.
    pub fn endpoint(&self, address: &Address) -> Result<Endpoint> {
        let endpoint = address.endpoint()?;
        if address.is_tls() {
            return self.with_tls(endpoint);
        }
        match [&self.ca, &self.certificate, &self.key].into_iter().flatten().next() {
            Some(File { source, .. }) => {
                let target = address.target();
                Err(bad(format!(
                    "{source} needs TLS, and {target} has none. Use https://HOST:PORT."
                )))
            }
            None => Ok(endpoint),
        }
    }

    #[cfg(feature = "tls")]
    fn with_tls(&self, endpoint: Endpoint) -> Result<Endpoint> {
        use tonic::transport::{Certificate, ClientTlsConfig, Identity};

        let mut config = match &self.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca.read()?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                config.identity(Identity::from_pem(certificate.read()?, key.read()?))
            }
            (None, None) => config,
            _ => {
                let says = "The client's certificate and its key belong together. Set both.";
                return Err(bad(says));
            }
        };
        endpoint.tls_config(config).map_err(|cause| {
            bad(format!("The TLS files cannot be used: {cause}.")).with_source(cause)
        })
    }

    #[cfg(not(feature = "tls"))]
    fn with_tls(&self, _: Endpoint) -> Result<Endpoint> {
        Err(bad("https:// needs the feature `tls` of sessiond-adk."))
    }

    /// The token, if there is a file of it. It is refused where it would cross a network unencrypted.
    pub fn token_file(&self, address: &Address) -> Result<Option<TokenFile>> {
        let Some(file) = &self.token else { return Ok(None) };
        if !address.is_tls() && !address.is_local() {
            let target = address.target();
            let says =
                format!("Refusing to send a token to {target} without TLS. Use https://HOST:PORT.");
            return Err(bad(says));
        }
        TokenFile::new(file.clone(), Instant::now()).map(Some)
    }
}

/// The token in a file. The file is read again after it has changed.
#[derive(Debug)]
pub(crate) struct TokenFile {
    file: File,
    last: Mutex<Token>,
}

#[derive(Debug)]
struct Token {
    header: MetadataValue<Ascii>,
    modified: SystemTime,
    checked: Instant,
}

impl TokenFile {
    fn new(file: File, now: Instant) -> Result<Self> {
        let modified = modified(&file)?;
        let last = Token { header: read_header(&file)?, modified, checked: now };
        Ok(Self { file, last: Mutex::new(last) })
    }

    /// The value of `authorization`. Looks at the file at most once a second. If it cannot be read, the last token stays.
    pub fn header(&self) -> MetadataValue<Ascii> {
        self.header_at(Instant::now())
    }

    fn header_at(&self, now: Instant) -> MetadataValue<Ascii> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(last.checked) >= CHECK_INTERVAL {
            last.checked = now;
            if let Err(error) = self.read_again(&mut last) {
                crate::observe::observe(
                    || tracing::warn!(%error, "failed to read the token file again, the last token stays"),
                );
            }
        }
        last.header.clone()
    }

    fn read_again(&self, last: &mut Token) -> Result<()> {
        let modified = modified(&self.file)?;
        if modified != last.modified {
            last.header = read_header(&self.file)?;
            // Only now, so that a file that was caught half written is read again.
            last.modified = modified;
        }
        Ok(())
    }
}

fn modified(file: &File) -> Result<SystemTime> {
    let metadata = fs::metadata(&file.path).and_then(|metadata| metadata.modified());
    metadata.map_err(|cause| file.unreadable(cause))
}

fn read_header(file: &File) -> Result<MetadataValue<Ascii>> {
    let text = fs::read_to_string(&file.path).map_err(|cause| file.unreadable(cause))?;
    let token = text.trim();
    let header = (!token.is_empty() && token.chars().all(|c| c.is_ascii_graphic()))
        .then(|| MetadataValue::try_from(format!("Bearer {token}")).ok())
        .flatten();
    let mut header = header.ok_or_else(|| {
        let (source, path) = (file.source, file.path.display());
        bad(format!("{source}: '{path}' has no token. It must have one line of visible ASCII."))
    })?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs::FileTimes};

    use super::*;
    use crate::endpoint::parse;

    fn write(path: &Path, token: &str, seconds: u64) {
        fs::write(path, token).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    }

    #[test]
    fn the_file_is_looked_at_once_a_second_and_the_last_token_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        write(&path, "a\n", 1);
        let begin = Instant::now();
        let file = TokenFile::new(File::new(&path, "token_file"), begin).unwrap();
        let after = |millis| {
            let header = file.header_at(begin + Duration::from_millis(millis));
            header.to_str().unwrap().to_owned()
        };
        write(&path, "b", 2);
        assert_eq!([after(900), after(1000)], ["Bearer a", "Bearer b"]);
        write(&path, "the time is the same", 2);
        assert_eq!(after(2000), "Bearer b");
        write(&path, "", 3);
        assert_eq!(after(3000), "Bearer b");
        fs::remove_file(&path).unwrap();
        assert_eq!(after(4000), "Bearer b");
        write(&path, "c", 3);
        assert_eq!(after(5000), "Bearer c");
    }

    #[test]
    fn settings_win_over_variables() {
        let mut set = CredentialFiles::default();
        set.set_ca(Path::new("mine.pem"));
        let variables = HashMap::from([
            ("SESSIOND_TLS_CA", "theirs.pem"),
            ("SESSIOND_CLIENT_TLS_CERT", "cert.pem"),
            ("SESSIOND_CLIENT_TLS_KEY", "key.pem"),
            ("SESSIOND_TOKEN_FILE", ""),
        ]);
        let files = set.or_environment(|name| variables.get(name).map(OsString::from));
        let wanted = CredentialFiles {
            ca: Some(File::new("mine.pem", "tls_ca")),
            certificate: Some(File::new("cert.pem", "SESSIOND_CLIENT_TLS_CERT")),
            key: Some(File::new("key.pem", "SESSIOND_CLIENT_TLS_KEY")),
            token: None,
        };
        assert_eq!(files, wanted);
        let refused = files.endpoint(&parse("h:1").unwrap()).unwrap_err();
        assert!(refused.message.contains("tls_ca needs TLS, and h:1 has none."), "{refused}");
    }

    #[test]
    fn a_token_is_sent_within_this_machine_or_with_tls_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        write(&path, "secret", 1);
        let mut files = CredentialFiles::default();
        files.set_token(&path);
        let token = |address| files.token_file(&parse(address).unwrap());
        for address in
            ["127.0.0.1:1", "127.8.8.8:1", "localhost:1", "[::1]:1", "unix:/s", "https://h:1"]
        {
            assert_eq!(token(address).unwrap().unwrap().header(), "Bearer secret", "{address}");
        }
        for address in
            ["sessions.example.com:1", "http://10.0.0.1:1", "[2001:db8::1]:1", "0.0.0.0:1"]
        {
            let refused = token(address).unwrap_err();
            assert_eq!(refused.code, "session.bad_credentials");
            assert!(refused.message.starts_with("Refusing to send a token to "), "{refused}");
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let mut files = CredentialFiles::default();
        files.set_token(&path);
        let local = parse("localhost").unwrap();
        assert!(files.token_file(&local).unwrap_err().message.contains("token_file: cannot read"));
        for text in ["", " \n", "two words", "zwölf", "a\u{7}b"] {
            write(&path, text, 1);
            let refused = files.token_file(&local).unwrap_err();
            assert!(refused.message.contains("has no token"), "{text:?}: {refused}");
        }
    }
}
