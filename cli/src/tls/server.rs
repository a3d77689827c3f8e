//! What the ports speak TLS with: one certificate for all of them, and the authorities of clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use strandline_kafka_gateway::TlsSource;
use strandline_pgwire_server::TLS_PROTOCOL;
use strandline_storage::seam::Clock;

use super::certificate::{Pair, ReloadedCertificate};
use super::reload::{Reloaded, Source};
use super::{FileError, provider, read_authorities};
use crate::config::{ClientCertificate, Config, TlsConfig};
use crate::failure::Failure;

/// The server's certificate, and how ports use it.
#[derive(Debug)]
pub struct ServerTls {
    certificate: Arc<ReloadedCertificate>,
    client_ca: Option<PathBuf>,
    clock: Arc<dyn Clock>,
}

/// The certificate of the settings, if they name one.
///
/// # Errors
/// Files that cannot be used, by name.
pub fn server_tls(config: &Config, clock: Arc<dyn Clock>) -> Result<Option<ServerTls>, Failure> {
    let TlsConfig { certificate, key, client_ca } = &config.tls;
    let Some((certificate, key)) = certificate.as_ref().zip(key.as_ref()) else { return Ok(None) };
    let pair = Pair { certificate: certificate.into(), key: key.into() };
    let certificate = Arc::new(ReloadedCertificate::of(pair, clock.clone()).map_err(unusable)?);
    let tls = ServerTls { certificate, client_ca: client_ca.as_ref().map(PathBuf::from), clock };
    // Also when no port asks for it: a setting that is wrong is an error.
    tls.kafka(ClientCertificate::Required)?;
    Ok(Some(tls))
}

fn unusable(error: FileError) -> Failure {
    Failure::Usage(format!("the settings in [tls] cannot be used: {error}"))
}

impl ServerTls {
    /// For a Kafka port.
    ///
    /// # Errors
    /// Authorities of clients that cannot be used.
    pub fn kafka(&self, clients: ClientCertificate) -> Result<TlsSource, Failure> {
        let authorities = self.client_ca.clone().filter(|_| clients != ClientCertificate::None);
        let files = authorities.iter().cloned().collect();
        let certificate = self.certificate.clone();
        // All of it is made anew, so that no session of an authority that is gone is resumed.
        let read = Box::new(move || {
            let verifier = verifier(authorities.as_deref(), clients)?;
            Ok(config(certificate.clone(), verifier))
        });
        let source = Source { name: "the authorities of clients' certificates", files, read };
        let reloaded = Reloaded::read(source, self.clock.clone()).map_err(unusable)?;
        Ok(TlsSource::new(move || reloaded.current()))
    }

    /// For the Postgres port.
    pub fn pg(&self) -> Arc<ServerConfig> {
        let mut config = config(self.certificate.clone(), WebPkiClientVerifier::no_client_auth());
        config.alpn_protocols = vec![TLS_PROTOCOL.to_vec()];
        Arc::new(config)
    }
}

fn config(certificate: Arc<ReloadedCertificate>, verifier: Arc<dyn ClientCertVerifier>) -> ServerConfig {
    ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites of TLS 1.2 and 1.3")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate)
}

fn verifier(
    authorities: Option<&Path>,
    clients: ClientCertificate,
) -> Result<Arc<dyn ClientCertVerifier>, FileError> {
    let Some(path) = authorities else { return Ok(WebPkiClientVerifier::no_client_auth()) };
    let authorities = Arc::new(read_authorities(path)?);
    let builder = WebPkiClientVerifier::builder_with_provider(authorities, provider());
    let builder = match clients {
        ClientCertificate::Required => builder,
        ClientCertificate::None | ClientCertificate::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| FileError::new(path, error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{
        BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose,
        generate_simple_self_signed,
    };
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, HandshakeKind, RootCertStore};
    use strandline_storage::seam::Seams;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::super::read_certificates;
    use super::super::reload::LOOKS_APART;
    use super::*;

    const NAME: &str = "localhost";

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            let key = KeyPair::generate().expect("a key");
            let pem = params.self_signed(&key).expect("a certificate").pem();
            Self { pem, issuer: Issuer::new(params, key) }
        }

        /// A client with a certificate of this authority, which trusts the server of `files`.
        fn client(&self, files: &Files) -> Arc<ClientConfig> {
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new(vec!["client".to_owned()]).expect("parameters");
            let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
            let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key in PKCS #8");
            let mut servers = RootCertStore::empty();
            let server = read_certificates(&files.path("server.pem")).expect("the server's certificate");
            servers.add(server[0].clone()).expect("a certificate");
            let config = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_root_certificates(servers)
                .with_client_auth_cert(vec![certificate.der().clone()], key);
            Arc::new(config.expect("a certificate and its key"))
        }
    }

    struct Files {
        directory: tempfile::TempDir,
    }

    impl Files {
        /// The server's certificate, its key, and the authorities of clients.
        fn new(client_ca: &str) -> Self {
            let files = Self { directory: tempfile::tempdir().expect("a temporary directory") };
            let made = generate_simple_self_signed(vec![NAME.to_owned()]).expect("a certificate");
            files.write("server.pem", &made.cert.pem());
            files.write("server.key", &made.signing_key.serialize_pem());
            files.write("clients.pem", client_ca);
            files
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).expect("it is written");
        }

        fn settings(&self) -> Config {
            let path = |name| Some(self.path(name).display().to_string());
            let tls = TlsConfig {
                certificate: path("server.pem"),
                key: path("server.key"),
                client_ca: path("clients.pem"),
            };
            Config { tls, ..Config::default() }
        }
    }

    /// How the client came in. `None`: it was refused.
    async fn handshake(port: &TlsSource, client: &Arc<ClientConfig>) -> Option<HandshakeKind> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let accepting = async {
            let mut stream = TlsAcceptor::from(port.current()).accept(far).await.ok()?;
            stream.write_all(b"!").await.expect("the client reads");
            stream.flush().await.expect("the client reads");
            stream.get_ref().1.handshake_kind()
        };
        let connecting = async {
            let name = ServerName::try_from(NAME).expect("a name");
            // The last words of a handshake come with the first byte.
            let mut stream = TlsConnector::from(client.clone()).connect(name, near).await?;
            stream.read_u8().await
        };
        let (accepted, connected) = tokio::join!(accepting, connecting);
        assert_eq!(accepted.is_some(), connected.is_ok(), "{connected:?}");
        accepted
    }

    #[tokio::test(start_paused = true)]
    async fn authorities_that_changed_are_read_again_and_their_clients_resume_nothing() {
        let (first, second) = (Authority::new(), Authority::new());
        let files = Files::new(&first.pem);
        let clock = Seams::simulated(1).clock;
        let tls = server_tls(&files.settings(), clock).expect("good files").expect("a certificate");
        let port = tls.kafka(ClientCertificate::Required).expect("good files");
        let (old, new) = (first.client(&files), second.client(&files));
        assert_eq!(handshake(&port, &old).await, Some(HandshakeKind::Full));
        assert_eq!(handshake(&port, &old).await, Some(HandshakeKind::Resumed));
        assert_eq!(handshake(&port, &new).await, None);

        files.write("clients.pem", &format!("{}\n# changed\n", second.pem));
        tokio::time::advance(LOOKS_APART).await;
        assert_eq!(handshake(&port, &old).await, None);
        assert_eq!(handshake(&port, &new).await, Some(HandshakeKind::Full));

        files.write("clients.pem", "no PEM");
        tokio::time::advance(LOOKS_APART).await;
        assert_eq!(handshake(&port, &old).await, None);
        assert!(handshake(&port, &new).await.is_some(), "the last good authorities stay in use");
    }
}
