//! Until when certificates are valid.

use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::pem;

/// The end of the first certificate of a PEM file, in seconds since 1970. `None`: the file has none that can be read.
pub fn first_expiry(pem: &[u8]) -> Option<i64> {
    let certificates = pem::certificates(pem).ok()?;
    let expiry = |der: &[u8]| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(certificate.validity().not_after.timestamp())
    };
    certificates.iter().filter_map(|der| expiry(der)).min()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_chain_expires_with_its_first_certificate() {
        let ending_in = |year| {
            let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(year, 1, 1);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        let chain = ending_in(2040) + &ending_in(2031);
        assert_eq!(first_expiry(chain.as_bytes()), Some(1_924_992_000));
        assert_eq!(first_expiry(b""), None);
    }
}
