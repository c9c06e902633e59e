//! The settings of TLS, and their typed form. The files that they name are read by net/tls/settings.rs.

use std::path::PathBuf;

use super::table::Values;

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// They are not asked for one.
    No,
    /// One that is shown must be good.
    Optional,
    /// They must.
    Required,
}

/// How TLS is spoken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsSettings {
    /// TCP port, 0 for none.
    pub(crate) port: u16,
    /// File of the certificate, with those between it and its authority.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    /// File of the authorities whose certificates clients may show.
    pub(crate) authorities: Option<PathBuf>,
    /// Folder of such files.
    pub(crate) authorities_dir: Option<PathBuf>,
    pub(crate) clients: ClientCertificates,
    /// Versions, as OpenSSL calls them, with spaces between; empty: those that are thought safe.
    pub(crate) protocols: String,
    /// Cipher suites of TLS 1.2, as OpenSSL writes a list of them; empty: all.
    pub(crate) ciphers: String,
    /// Cipher suites of TLS 1.3, with colons between; empty: all.
    pub(crate) suites: String,
    /// The server's order of cipher suites counts, and not the client's.
    pub(crate) own_order: bool,
    /// Seconds for which a session may be resumed at least, 0 for none.
    pub(crate) resumption_s: u32,
    /// Counts how often CONFIG SET has named a file: it may hold something new under its old name.
    pub(crate) files_named: u64,
}

impl TlsSettings {
    /// The typed form of `values`.
    pub(super) fn of(values: &Values) -> TlsSettings {
        let clients = match values.bytes("tls-auth-clients") {
            b"no" => ClientCertificates::No,
            b"optional" => ClientCertificates::Optional,
            _ => ClientCertificates::Required,
        };
        let resumes = values.yes("tls-session-caching");
        TlsSettings {
            port: values.number("tls-port"),
            certificate: values.path("tls-cert-file"),
            key: values.path("tls-key-file"),
            authorities: values.path("tls-ca-cert-file"),
            authorities_dir: values.path("tls-ca-cert-dir"),
            clients,
            protocols: values.text("tls-protocols"),
            ciphers: values.text("tls-ciphers"),
            suites: values.text("tls-ciphersuites"),
            own_order: values.yes("tls-prefer-server-ciphers"),
            resumption_s: if resumes { values.number("tls-session-cache-timeout") } else { 0 },
            files_named: 0,
        }
    }

    /// True if TLS is spoken at all: until then nobody looks at the other settings.
    pub(crate) fn is_on(&self) -> bool {
        self.port > 0
    }
}

/// True if the directive names a file, or a folder of files, that is read when TLS is set up.
pub(super) fn names_file(directive: &str) -> bool {
    directive.starts_with("tls-") && (directive.ends_with("-file") || directive.ends_with("-dir"))
}
