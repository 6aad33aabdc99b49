//! Certificates, and files that are read again.

use prometheus::{IntCounterVec, IntGaugeVec};

use super::register::Register;

/// A file with certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// The server's own, and those that lead to its authority.
    Certificate,
    /// The authorities of clients.
    ClientCa,
}

#[derive(Clone)]
pub struct TlsMetrics {
    expiry: IntGaugeVec,
    reload_failures: IntCounterVec,
}

impl TlsMetrics {
    pub(super) fn new(register: Register<'_>) -> Self {
        Self {
            expiry: register.gauges(
                "sessiond_tls_certificate_expiry_timestamp_seconds",
                "Time from which the first certificate of a file is no longer valid, in seconds since 1970.",
                "file",
            ),
            reload_failures: register.counters(
                "sessiond_reload_failures_total",
                "Attempts to reload files that failed, so that their old content stays in use.",
                &["files"],
            ),
        }
    }

    /// Attempts to reload some files have failed.
    pub fn failed(&self, files: &str, times: u64) {
        self.reload_failures.with_label_values(&[files]).inc_by(times);
    }

    /// The certificates of a file are valid until then.
    pub fn set_expiry(&self, file: TlsFile, secs: i64) {
        let file = match file {
            TlsFile::Certificate => "certificate",
            TlsFile::ClientCa => "client_ca",
        };
        self.expiry.with_label_values(&[file]).set(secs);
    }
}
