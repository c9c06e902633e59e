//! Certificates made for a test in a folder of its own, and a blocking connection by TLS.
//!
//! ```text
//!   folder   ca.crt   server.crt, server.key   client.crt, client.key        all by one authority, whose key stays in memory
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
pub use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConnection, RootCertStore, StreamOwned};

/// The name that certificates of servers are good for, beside 127.0.0.1 and ::1.
const HOST: &str = "localhost";

/// A connection by TLS over a socket of this kind, to be read and written like the socket.
pub type TlsOver<S> = StreamOwned<ClientConnection, S>;

/// A connection by TLS over a socket of the standard library.
pub type TlsStream = TlsOver<TcpStream>;

/// See the module's picture. The folder goes with it.
#[derive(Debug)]
pub struct Certificates {
    dir: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// Makes an authority, and a certificate of a server and of a client, in a new folder with this name in it.
    ///
    /// # Panics
    /// When the folder cannot be written.
    #[must_use]
    pub fn make(name: &str) -> Certificates {
        let dir = std::env::temp_dir().join(format!("varve-tls-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for temporary files");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Authority of tests");
        let authority = CertifiedIssuer::self_signed(params, key()).expect("a certificate");
        let made = Certificates { dir, authority };
        made.write("ca.crt", &made.authority.pem());
        made.renew("server");
        made.renew("client");
        made
    }

    /// Writes a new certificate and key of this name, in the place of those there.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn renew(&self, name: &str) {
        self.renew_with_uris(name, &[]);
    }

    /// Writes a new certificate and key of this name, with these URIs among its alternative names.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn renew_with_uris(&self, name: &str, uris: &[&str]) {
        let names = [HOST, "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let mut params = CertificateParams::new(names).expect("names");
        params.subject_alt_names.extend(uris.iter().map(|&uri| SanType::URI(uri.try_into().expect("a URI"))));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = key();
        let certificate = params.signed_by(&key, &self.authority).expect("a certificate");
        self.write(&format!("{name}.crt"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file in a folder of our own");
    }

    /// The path of a file of the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The directives by which a server uses them.
    #[must_use]
    pub fn directives(&self) -> Vec<(&'static str, String)> {
        let path = |name| self.path(name).display().to_string();
        vec![
            ("tls-cert-file", path("server.crt")),
            ("tls-key-file", path("server.key")),
            ("tls-ca-cert-file", path("ca.crt")),
        ]
    }

    /// How a client connects: it trusts the authority, and shows its certificate or none.
    ///
    /// # Panics
    /// When the files are gone.
    #[must_use]
    pub fn client(&self, shows: bool) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(pem(&self.path("ca.crt"))).expect("a certificate");
        let builder = ClientConfig::builder().with_root_certificates(roots);
        if !shows {
            return builder.with_no_client_auth();
        }
        let key = PrivateKeyDer::from_pem_file(self.path("client.key")).expect("a key");
        builder.with_client_auth_cert(vec![pem(&self.path("client.crt"))], key).expect("a certificate and its key")
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{}: {error}", self.dir.display());
        }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("random numbers")
}

fn pem(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// Connects by TLS; the handshake is made by the first read or write. Reads wait for 20 seconds at most.
///
/// # Panics
/// When nobody listens.
#[must_use]
pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("an option of TCP");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option of sockets");
    let name = ServerName::try_from(HOST).expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a configuration that is whole");
    StreamOwned::new(session, stream)
}

/// How a client resumes sessions: never.
#[must_use]
pub fn no_resumption() -> Resumption {
    Resumption::disabled()
}

/// Connects by TLS, the handshake included.
///
/// # Errors
/// The server does not want this client.
///
/// # Panics
/// When nobody listens.
pub fn connect_whole(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
    let mut stream = connect(address, config);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// A connection that goes on over the socket which `change` makes of its own.
pub fn over<S: Read + Write>(stream: TlsStream, change: impl FnOnce(TcpStream) -> S) -> TlsOver<S> {
    let StreamOwned { conn, sock } = stream;
    StreamOwned::new(conn, change(sock))
}
