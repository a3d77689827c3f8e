//! An authority that signs certificates for tests, and both sides of TLS with them.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use strandline_kafka_gateway::TlsSource;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Whether a server asks its clients for certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    NotAsked,
    Optional,
    Required,
}

pub(crate) struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Identity(CertificateDer<'static>, PrivateKeyDer<'static>);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for loopback, with a subject in the order of the parts.
    pub(crate) fn sign(&self, subject: &[(DnType, &str)]) -> Identity {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity(certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    /// A server with a certificate of this authority, which trusts its clients' certificates too.
    pub(crate) fn server(&self, clients: Clients) -> TlsSource {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()), provider());
        let verifier = match clients {
            Clients::NotAsked => WebPkiClientVerifier::no_client_auth(),
            Clients::Optional => verifier.allow_unauthenticated().build().unwrap(),
            Clients::Required => verifier.build().unwrap(),
        };
        let Identity(certificate, key) = self.sign(&[(DnType::CommonName, "server")]);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key);
        let config = Arc::new(config.unwrap());
        TlsSource::new(move || config.clone())
    }

    /// Connects a client that trusts this authority. The server may still refuse its certificate.
    pub(crate) async fn connect(
        &self,
        socket: TcpStream,
        identity: Option<Identity>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity(certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }
}
