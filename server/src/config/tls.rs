//! The settings of TLS, and their typed form. The files that they name are read by net/tls/settings.rs.

use std::path::PathBuf;

use super::Password;
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

/// The part of a client's certificate that names the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateUser {
    /// The common name of its subject.
    CommonName,
    /// A URI among its alternative names.
    Uri,
}

/// The files of a certificate and of its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Identity {
    /// File of the certificate, with those between it and its authority.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The passphrase of a key that is encrypted.
    pub(crate) pass: Password,
}

/// How TLS is spoken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsSettings {
    /// TCP port, 0 for none.
    pub(crate) port: u16,
    /// Shown by this server; else the directive that is missing.
    pub(crate) identity: Result<Identity, &'static str>,
    /// Shown to other servers, where it is another one.
    pub(crate) client_identity: Option<Identity>,
    /// MIGRATE and, later, cluster and replication speak TLS with other servers.
    pub(crate) cluster: bool,
    pub(crate) replication: bool,
    /// File of the authorities whose certificates clients may show.
    pub(crate) authorities: Option<PathBuf>,
    /// Folder of such files.
    pub(crate) authorities_dir: Option<PathBuf>,
    pub(crate) clients: ClientCertificates,
    /// None: a certificate makes nobody a user.
    pub(crate) user: Option<CertificateUser>,
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
            identity: identity(values, ["tls-cert-file", "tls-key-file", "tls-key-file-pass"]),
            client_identity: identity(
                values,
                ["tls-client-cert-file", "tls-client-key-file", "tls-client-key-file-pass"],
            )
            .ok(),
            cluster: values.yes("tls-cluster"),
            replication: values.yes("tls-replication"),
            authorities: values.path("tls-ca-cert-file"),
            authorities_dir: values.path("tls-ca-cert-dir"),
            clients,
            user: match values.bytes("tls-auth-clients-user") {
                b"CN" => Some(CertificateUser::CommonName),
                b"URI" => Some(CertificateUser::Uri),
                _ => None,
            },
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
        self.port > 0 || self.links_by_tls()
    }

    /// True if links to other servers are by TLS.
    pub(crate) fn links_by_tls(&self) -> bool {
        self.cluster || self.replication
    }
}

/// The files of a certificate, its key and the passphrase of that; else the directive that is missing.
fn identity(values: &Values, names: [&'static str; 3]) -> Result<Identity, &'static str> {
    let [certificate, key, pass] = names;
    Ok(Identity {
        certificate: values.path(certificate).ok_or(certificate)?,
        key: values.path(key).ok_or(key)?,
        pass: Password(values.bytes(pass).to_vec()),
    })
}

/// True if the directive names a file, or a folder of files, that is read when TLS is set up.
pub(super) fn names_file(directive: &str) -> bool {
    directive.starts_with("tls-") && (directive.ends_with("-file") || directive.ends_with("-dir"))
}
