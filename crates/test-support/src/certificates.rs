//! Certificates of a test, and the authorities that issue them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

/// An authority with its certificate in a file.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub file: PathBuf,
}

/// A certificate and its key, as PEM.
pub type Pair = (String, String);

impl Authority {
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let file = folder.join(name);
        fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }

    /// Names are those of hosts, addresses and URIs.
    pub fn issue(&self, common_name: &str, names: &[&str]) -> Pair {
        self.issue_for_years(common_name, names, 1975, 4096)
    }

    /// Valid from the beginning of the first year until the beginning of the last one.
    pub fn issue_for_years(
        &self,
        common_name: &str,
        names: &[&str],
        first: i32,
        last: i32,
    ) -> Pair {
        let (uris, names): (Vec<_>, Vec<_>) =
            names.iter().map(|name| (*name).to_owned()).partition(|name| name.contains("://"));
        let mut params = CertificateParams::new(names).unwrap();
        let uris = uris.into_iter().map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_before = rcgen::date_time_ymd(first, 1, 1);
        params.not_after = rcgen::date_time_ymd(last, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}
