//! TLS: the server's certificate and the authorities of its clients, which are read again when their
//! files have changed, and the authorities that the client commands trust.

mod certificate;
mod client;
mod reload;
mod server;

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{RootCertStore, crypto};

pub use client::{ClientTls, client_config, connector};
pub use server::{ServerTls, server_tls};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

/// Why a file cannot be used; the message begins with its path.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
struct FileError {
    path: String,
    reason: String,
}

impl FileError {
    fn new(path: &Path, reason: impl ToString) -> Self {
        Self { path: path.display().to_string(), reason: reason.to_string() }
    }
}

/// All certificates of a file; at least one.
fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| FileError::new(path, described(error)))?;
    let certificates: Result<Vec<_>, pem::Error> = read.collect();
    let certificates = certificates.map_err(|error| FileError::new(path, described(error)))?;
    match certificates.is_empty() {
        true => Err(FileError::new(path, "holds no certificate in PEM")),
        false => Ok(certificates),
    }
}

/// The certificates of a file as authorities.
fn read_authorities(path: &Path) -> Result<RootCertStore, FileError> {
    let mut authorities = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        authorities.add(certificate).map_err(|error| FileError::new(path, error))?;
    }
    Ok(authorities)
}

fn described(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        error => format!("is not PEM as expected: {error}"),
    }
}
