//! OpenTelemetry's variables, as far as its SDK does not read them: whether traces are on, the protocol, the name, and TLS.

use std::{env, fs};

use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithTonicConfig as _};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

#[expect(
    clippy::disallowed_methods,
    reason = "OpenTelemetry has its settings in the environment, where its SDK reads the others"
)]
pub fn environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The exporter that the environment asks for. `None`: no collector is named, or traces are off. The error is for the log.
pub fn exporter(variable: impl Fn(&str) -> Option<String>) -> Result<Option<SpanExporter>, String> {
    let Some(endpoint) = endpoint(&variable) else { return Ok(None) };
    match of_traces(&variable, "PROTOCOL").as_deref() {
        None | Some("grpc") => {}
        Some(other) => return Err(format!("the protocol '{other}' is not supported, only grpc")),
    }
    let mut builder = SpanExporter::builder().with_tonic();
    if !is_plain(&variable, &endpoint) {
        builder = builder.with_tls_config(tls(&variable)?);
    }
    builder.build().map(Some).map_err(|error: ExporterBuildError| error.to_string())
}

/// Whether the service has a name. The SDK would take that of the executable.
pub fn is_named(variable: impl Fn(&str) -> Option<String>) -> bool {
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    variable("OTEL_SERVICE_NAME").is_some()
        || attributes.split(',').any(|it| it.trim_start().starts_with("service.name="))
}

/// The collector's address, unless traces are off.
fn endpoint(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let is = |name, value: &str| variable(name).is_some_and(|it| it.eq_ignore_ascii_case(value));
    let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
    of_traces(&variable, "ENDPOINT").filter(|_| !is_off)
}

/// A setting of the exporter: that for traces, or the general one.
fn of_traces(variable: impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    let of_traces = variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
    of_traces.or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
}

/// Whether the collector is reached without TLS, as the exporter decides it.
fn is_plain(variable: impl Fn(&str) -> Option<String>, endpoint: &str) -> bool {
    match endpoint.split_once("://") {
        Some((scheme, _)) => scheme != "https",
        None => of_traces(variable, "INSECURE").is_some_and(|it| it.eq_ignore_ascii_case("true")),
    }
}

/// The authorities that are trusted, by default those of this machine, and the client's own certificate.
fn tls(variable: impl Fn(&str) -> Option<String>) -> Result<ClientTlsConfig, String> {
    let read = |name| {
        let path = of_traces(&variable, name);
        let read = |path: String| {
            fs::read(&path).map_err(|error| format!("the file '{path}' cannot be read: {error}"))
        };
        path.map(read).transpose()
    };
    let config = match read("CERTIFICATE")? {
        Some(authority) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    Ok(match (read("CLIENT_CERTIFICATE")?, read("CLIENT_KEY")?) {
        (Some(certificate), Some(key)) => config.identity(Identity::from_pem(certificate, key)),
        (None, None) => config,
        _ => return Err("a client certificate and its key are needed together".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An environment with these variables.
    fn with<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn an_endpoint_turns_traces_on() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4317");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317");
        assert_eq!(endpoint(with(&[])), None);
        assert_eq!(endpoint(with(&[general])).as_deref(), Some(general.1));
        assert_eq!(endpoint(with(&[general, traces])).as_deref(), Some(traces.1));
        assert!(endpoint(with(&[general, ("OTEL_SDK_DISABLED", "false")])).is_some());
        assert_eq!(endpoint(with(&[general, ("OTEL_SDK_DISABLED", "True")])), None);
        assert_eq!(endpoint(with(&[general, ("OTEL_TRACES_EXPORTER", "none")])), None);
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4317");
        for (name, value, part) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "'http/protobuf'"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem", "'missing.pem'"),
        ] {
            let error = exporter(with(&[endpoint, (name, value)])).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(matches!(exporter(with(&[])), Ok(None)));
    }

    #[test]
    fn an_address_without_a_scheme_is_one_with_tls() {
        let insecure = [("OTEL_EXPORTER_OTLP_INSECURE", "TRUE")];
        for (address, is_expected, is_expected_if_insecure) in [
            ("http://collector:4317", true, true),
            ("unix:///run/otlp.sock", true, true),
            ("https://collector:4317", false, false),
            ("collector:4317", false, true),
        ] {
            assert_eq!(is_plain(with(&[]), address), is_expected, "{address}");
            assert_eq!(is_plain(with(&insecure), address), is_expected_if_insecure, "{address}");
        }
    }

    #[test]
    fn the_environment_may_name_the_service() {
        assert!(!is_named(with(&[("OTEL_RESOURCE_ATTRIBUTES", "a=b,my.service.name=c")])));
        assert!(is_named(with(&[("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=c")])));
        assert!(is_named(with(&[("OTEL_SERVICE_NAME", "c")])));
    }
}
