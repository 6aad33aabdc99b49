//! Certificates of a test, and the authority that issues them.
#![expect(clippy::unwrap_used, reason = "a failure here fails the calling test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority with its certificate in a file.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    pub file: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let file = folder.join("ca.pem");
        fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder: folder.to_owned(), file }
    }

    /// The files of a certificate for this machine, and of its key.
    pub fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let files =
            (self.folder.join(format!("{name}.pem")), self.folder.join(format!("{name}.key")));
        fs::write(&files.0, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }
}
