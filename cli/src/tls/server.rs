//! What the ports speak TLS with: one certificate for all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use strandline_pgwire_server::TLS_PROTOCOL;
use strandline_storage::seam::Clock;

use super::reload::{Pair, ReloadedCertificate};
use super::{FileError, provider, read_authorities};
use crate::config::{ClientCertificate, Config, TlsConfig};
use crate::failure::Failure;

/// The server's certificate, and how ports use it.
#[derive(Debug)]
pub struct ServerTls {
    certificate: Arc<ReloadedCertificate>,
    client_ca: Option<PathBuf>,
}

/// The certificate of the settings, if they name one.
///
/// # Errors
/// Files that cannot be used, by name.
pub fn server_tls(config: &Config, clock: Arc<dyn Clock>) -> Result<Option<ServerTls>, Failure> {
    let TlsConfig { certificate, key, client_ca } = &config.tls;
    let Some((certificate, key)) = certificate.as_ref().zip(key.as_ref()) else { return Ok(None) };
    let pair = Pair { certificate: certificate.into(), key: key.into() };
    let certificate = Arc::new(ReloadedCertificate::read(pair, clock).map_err(unusable)?);
    let tls = ServerTls { certificate, client_ca: client_ca.as_ref().map(PathBuf::from) };
    // Also when no port asks for it: a setting that is wrong is an error.
    tls.kafka(ClientCertificate::None)?;
    if tls.client_ca.is_some() {
        tls.kafka(ClientCertificate::Required)?;
    }
    Ok(Some(tls))
}

fn unusable(error: FileError) -> Failure {
    Failure::Usage(format!("the settings in [tls] cannot be used: {error}"))
}

impl ServerTls {
    /// For a Kafka port.
    pub fn kafka(&self, clients: ClientCertificate) -> Result<Arc<ServerConfig>, Failure> {
        self.config(clients).map(Arc::new)
    }

    /// For the Postgres port.
    pub fn pg(&self) -> Result<Arc<ServerConfig>, Failure> {
        let mut config = self.config(ClientCertificate::None)?;
        config.alpn_protocols = vec![TLS_PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }

    fn config(&self, clients: ClientCertificate) -> Result<ServerConfig, Failure> {
        let versions = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::failed(format!("TLS is not possible: {error}")))?;
        let verifier = self.verifier(clients).map_err(unusable)?;
        Ok(versions.with_client_cert_verifier(verifier).with_cert_resolver(self.certificate.clone()))
    }

    fn verifier(&self, clients: ClientCertificate) -> Result<Arc<dyn ClientCertVerifier>, FileError> {
        let authorities = |path: &Path| read_authorities(path).map(Arc::new);
        let Some(path) = self.client_ca.as_deref().filter(|_| clients != ClientCertificate::None) else {
            return Ok(WebPkiClientVerifier::no_client_auth());
        };
        let builder = WebPkiClientVerifier::builder_with_provider(authorities(path)?, provider());
        let builder = match clients {
            ClientCertificate::Required => builder,
            ClientCertificate::None | ClientCertificate::Optional => builder.allow_unauthenticated(),
        };
        builder.build().map_err(|error| FileError::new(path, error))
    }
}
