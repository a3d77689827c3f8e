//! The TLS of the client commands: whom they trust.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::{FileError, provider, read_authorities, read_certificates};
use crate::failure::Failure;

/// Where operating systems keep the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Whom a command trusts to name the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTls {
    /// The authorities of the operating system.
    System,
    /// Those of a file.
    Authorities(PathBuf),
}

/// What makes a connection a TLS one.
///
/// # Errors
/// Authorities that cannot be read.
pub fn connector(tls: &ClientTls) -> Result<TlsConnector, Failure> {
    Ok(TlsConnector::from(Arc::new(client_config(tls)?)))
}

/// The same for clients that connect by themselves.
///
/// # Errors
/// Authorities that cannot be read.
pub fn client_config(tls: &ClientTls) -> Result<ClientConfig, Failure> {
    let authorities = match tls {
        ClientTls::System => system_authorities()?,
        ClientTls::Authorities(path) => read_authorities(path).map_err(unusable)?,
    };
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::failed(format!("TLS is not possible: {error}")))?
        .with_root_certificates(authorities)
        .with_no_client_auth())
}

/// Those of the system's that can be used: lists have old ones in them.
fn system_authorities() -> Result<RootCertStore, Failure> {
    let path = SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.exists());
    let path = path.ok_or_else(|| {
        Failure::failed("this machine has no list of authorities to trust; name one with --tls-ca FILE")
    })?;
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(read_certificates(path).map_err(unusable)?);
    Ok(authorities)
}

fn unusable(error: FileError) -> Failure {
    Failure::Usage(format!("the authorities to trust cannot be used: {error}"))
}
