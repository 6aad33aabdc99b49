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
    let mut uri = None;
    let mut hosts = Vec::new();
    for name in alternatives {
        match name {
            // A certificate names one workload.
            GeneralName::URI(_) if uri.is_some() => return None,
            GeneralName::URI(found) => uri = Some(*found),
            GeneralName::DNSName(name) if is_wildcard(name) => {}
            GeneralName::DNSName(name) => hosts.push(DnsName::try_from(*name).ok()?),
            // It may have been meant as the name that counts.
            GeneralName::Invalid(..) => return None,
            _ => {}
        }
    }
    let is_spiffe = match uri {
        Some(uri) => scheme(uri)?.eq_ignore_ascii_case("spiffe"),
        None => false,
    };
    let mut hosts = hosts.iter().map(|name| format!("dns:{}", name.as_ref().to_ascii_lowercase()));
    let (name, aliases) = match (uri.filter(|_| is_spiffe), hosts.next()) {
        (Some(uri), _) => (spiffe(uri)?, Vec::new()),
        (None, Some(first)) => (first, hosts.collect()),
        (None, None) => (common_name(&certificate)?, Vec::new()),
    };
    let expire_time = Time::new(certificate.validity().not_after.timestamp(), 0);
    Some(Identity { aliases, expire_time, ..Identity::new(name) })
}

/// A name for many hosts, which names none.
fn is_wildcard(name: &str) -> bool {
    name.strip_prefix("*.").is_some_and(|rest| DnsName::try_from(rest).is_ok())
}

/// The scheme of a URI; `None`: it is no URI.
fn scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once(':')?;
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(may)
        && uri.bytes().all(|byte| byte.is_ascii_graphic());
    is_scheme.then_some(scheme)
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
            (&["agent"], &["https://example.org/x", two[0]]),
            (&["agent"], &[two[0], "https://example.org/x"]),
            (&["agent"], &["https://example.org/x", "https://example.org/y"]),
            (&["agent"], &["SPIFFE://example.org/agents/a"]),
            (&["agent"], &["Spiffe://example.org/agents/a"]),
            (&["agent"], &["spiffE:example.org"]),
            (&["agent"], &[" spiffe://example.org/a"]),
            (&["agent"], &["spiffe //example.org/a"]),
            (&["agent"], &["spiffe//example.org/a"]),
            (&["agent"], &["//example.org/a"]),
            (&["agent"], &["1spiffe://example.org/a"]),
            (&["agent"], &["https://example.org/\n"]),
            (&["agent"], &["spiffe://"]),
            (&["agent"], &["spiffe:/example.org/a"]),
            (&["agent"], &["spiffe://Example.org/a"]),
            (&["agent"], &["spiffe://user@example.org/a"]),
            (&["agent"], &["spiffe://example.org/"]),
            (&["agent"], &["spiffe://example.org/a/../b"]),
            (&["agent"], &["spiffe://example.org/%61"]),
            (&["agent"], &["spiffe://example.org/a?b"]),
        ] {
            // A DNS name beside it does not help.
            let hosts = &["host.example.org"][usize::from(uris.is_empty())..];
            let fault = identity(&issued(common_names, uris, hosts)).err();
            assert_eq!(fault, Some(CredentialFault::CertificateName), "{common_names:?} {uris:?}");
        }
        assert!(identity(&CertificateDer::from(vec![1, 2, 3])).is_err());
    }

    /// A certificate whose alternative names are these, each with the number of its kind.
    fn with_raw(names: &[(u8, &[u8])]) -> CertificateDer<'static> {
        let mut content = Vec::new();
        for (kind, name) in names {
            content.extend([0x80 | kind, u8::try_from(name.len()).unwrap()]);
            content.extend(*name);
        }
        let sequence = [&[0x30, u8::try_from(content.len()).unwrap()][..], &content].concat();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "admin");
        let alternatives = rcgen::CustomExtension::from_oid_content(&[2, 5, 29, 17], sequence);
        params.custom_extensions = vec![alternatives];
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    #[test]
    fn a_name_that_does_not_parse_leaves_no_other_to_count() {
        const DNS: u8 = 2;
        const URI: u8 = 6;
        let (id, host) = ((URI, &b"spiffe://example.org/a"[..]), (DNS, &b"a.example.org"[..]));
        assert_eq!(identity(&with_raw(&[host, id])).unwrap().name, "spiffe://example.org/a");
        assert_eq!(identity(&with_raw(&[host])).unwrap().name, "dns:a.example.org");
        for names in [
            &[(URI, &b"spiffe://example.org/\xff"[..])][..],
            &[host, (URI, b"spiffe://example.org/\xff")],
            &[id, (URI, b"spiffe://example.org/\xff")],
            &[(URI, b"spiffe://example.org/\xc3\xa9"), id],
            &[(URI, b"\xffspiffe://example.org/a")],
            &[(URI, b"spiffe://example.org/a\0")],
            &[(URI, b"")],
            &[(DNS, b"a\xffb")],
            &[(DNS, b"a b")],
            &[host, (DNS, b"")],
            &[(DNS, b"*.*.example.org")],
        ] {
            let fault = identity(&with_raw(names)).err();
            assert_eq!(fault, Some(CredentialFault::CertificateName), "{names:?}");
        }
    }
}
