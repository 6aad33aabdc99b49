//! The identity that a client certificate names. Its chain and its times were verified when TLS began.

use rustls::pki_types::{CertificateDer, DnsName};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer};

use crate::{
    access::Identity,
    domain::{error::CredentialFault, time::Time},
};

/// Bytes of a SPIFFE id, as its specification limits them.
const SPIFFE_BYTES: usize = 2048;

/// The SPIFFE id, else the DNS names, the first of which counts, else the common name.
pub fn identity(certificate: &CertificateDer<'_>) -> Result<Identity, CredentialFault> {
    named(certificate).ok_or(CredentialFault::CertificateName)
}

fn named(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let alternatives = certificate.subject_alternative_name().ok()?;
    let alternatives = alternatives.map_or(&[][..], |found| &found.value.general_names);
    let uris = alternatives.iter().filter_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with("spiffe:") => Some(*uri),
        _ => None,
    });
    let hosts = alternatives.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => DnsName::try_from(*name).ok(),
        _ => None,
    });
    let mut hosts = hosts.map(|name| format!("dns:{}", name.as_ref().to_ascii_lowercase()));
    let (name, aliases) = match uris.collect::<Vec<_>>()[..] {
        [uri] => (spiffe(uri)?, Vec::new()),
        [] => match hosts.next() {
            Some(first) => (first, hosts.collect()),
            None => (common_name(&certificate)?, Vec::new()),
        },
        // A certificate names one workload.
        _ => return None,
    };
    let expire_time = Time::new(certificate.validity().not_after.timestamp(), 0);
    Some(Identity { aliases, expire_time, ..Identity::new(name) })
}

/// `spiffe://TRUST-DOMAIN/PATH`, without what makes two texts of one id: escapes, empty or relative segments, query, fragment.
fn spiffe(uri: &str) -> Option<String> {
    let (domain, path) = match uri.strip_prefix("spiffe://")?.split_once('/') {
        Some((domain, path)) => (domain, Some(path)),
        None => (uri.strip_prefix("spiffe://")?, None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_domain =
        !domain.is_empty() && domain.bytes().all(|byte| plain(byte) && !byte.is_ascii_uppercase());
    let is_segment = |it: &str| !it.is_empty() && it != "." && it != ".." && it.bytes().all(plain);
    let is_path = path.is_none_or(|path| path.split('/').all(is_segment));
    (is_domain && is_path && uri.len() <= SPIFFE_BYTES).then(|| uri.to_owned())
}

/// The only common name.
fn common_name(certificate: &X509Certificate<'_>) -> Option<String> {
    let mut names = certificate.subject().iter_common_name();
    let (first, second) = (names.next()?, names.next());
    let name = first.as_str().ok().filter(|name| !name.is_empty() && second.is_none())?;
    (!name.contains(char::is_control)).then(|| format!("cn:{name}"))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn issued(common_names: &[&str], uris: &[&str], hosts: &[&str]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in common_names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        let hosts = hosts.iter().map(|host| SanType::DnsName((*host).try_into().unwrap()));
        params.subject_alt_names = uris.chain(hosts).collect();
        params.not_after = rcgen::date_time_ymd(2100, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    #[test]
    fn a_spiffe_id_comes_before_a_dns_name_and_that_before_a_common_name() {
        let spiffe = "spiffe://example.org/ns/prod/agent_1";
        for (uris, hosts, name, aliases) in [
            (&[spiffe][..], &["a.example.org"][..], spiffe, &[][..]),
            (&["https://example.org/x", spiffe], &[], spiffe, &[]),
            (&[], &["A.example.org", "b.example.org"], "dns:a.example.org", &["dns:b.example.org"]),
            (&["https://example.org/x"], &[], "cn:agent", &[]),
            (&[], &["*.example.org"], "cn:agent", &[]),
            (&[], &[], "cn:agent", &[]),
        ] {
            let identity = identity(&issued(&["agent"], uris, hosts)).unwrap();
            assert_eq!(identity.name, name);
            assert_eq!(identity.aliases, aliases);
            assert_eq!(identity.expire_time, Time::new(4_102_444_800, 0));
            assert!(identity.claims.is_empty());
        }
    }

    #[test]
    fn a_certificate_that_does_not_name_one_holder_is_refused() {
        let two = ["spiffe://example.org/a", "spiffe://example.org/b"];
        for (common_names, uris) in [
            (&[][..], &[][..]),
            (&[""], &[]),
            (&["line\nbreak"], &[]),
            (&["agent"], &two),
            (&["agent"], &["spiffe://"]),
            (&["agent"], &["spiffe:/example.org/a"]),
            (&["agent"], &["spiffe://Example.org/a"]),
            (&["agent"], &["spiffe://user@example.org/a"]),
            (&["agent"], &["spiffe://example.org/"]),
            (&["agent"], &["spiffe://example.org/a/../b"]),
            (&["agent"], &["spiffe://example.org/%61"]),
            (&["agent"], &["spiffe://example.org/a?b"]),
        ] {
            let identity = identity(&issued(common_names, uris, &["host.example.org"][..0]));
            let fault = identity.err();
            assert_eq!(fault, Some(CredentialFault::CertificateName), "{common_names:?} {uris:?}");
        }
        assert!(identity(&CertificateDer::from(vec![1, 2, 3])).is_err());
    }
}
