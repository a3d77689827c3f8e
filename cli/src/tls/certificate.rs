//! The server's certificate and its key.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use strandline_storage::seam::Clock;

use super::reload::{Reloaded, Source};
use super::{FileError, described, provider, read_certificates};

/// The files of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Pair {
    fn read(&self) -> Result<CertifiedKey, FileError> {
        let chain = read_certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| FileError::new(&self.key, described(error)))?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            let certificate = self.certificate.display();
            FileError::new(&self.key, format!("is not usable as the key of {certificate}: {error}"))
        })
    }
}

pub(super) type ReloadedCertificate = Reloaded<CertifiedKey>;

impl ReloadedCertificate {
    /// Reads the pair, which has to be a good one.
    pub(super) fn of(pair: Pair, clock: Arc<dyn Clock>) -> Result<Self, FileError> {
        let files = vec![pair.certificate.clone(), pair.key.clone()];
        let read = Box::new(move || pair.read());
        Self::read(Source { name: "the server's certificate and key", files, read }, clock)
    }
}

impl ResolvesServerCert for ReloadedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::generate_simple_self_signed;
    use strandline_storage::seam::Seams;

    use super::super::reload::LOOKS_APART;
    use super::*;

    struct Files {
        directory: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().expect("a temporary directory") }
        }

        fn pair(&self) -> Pair {
            let path = |name| self.directory.path().join(name);
            Pair { certificate: path("server.pem"), key: path("server.key") }
        }

        /// Writes a pair for `name`, and gives the certificate.
        fn write(&self, name: &str) -> Vec<u8> {
            let made = generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
            fs::write(self.pair().certificate, made.cert.pem()).expect("it is written");
            fs::write(self.pair().key, made.signing_key.serialize_pem()).expect("it is written");
            made.cert.der().to_vec()
        }
    }

    fn shown(certificate: &ReloadedCertificate) -> Vec<u8> {
        certificate.current().cert[0].to_vec()
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_changed_are_read_again_a_second_later() {
        let files = Files::new();
        let first = files.write("first");
        let clock = Seams::simulated(1).clock;
        let certificate = ReloadedCertificate::of(files.pair(), clock).expect("a good pair");
        let second = files.write("second.example");
        assert_eq!(shown(&certificate), first, "nothing was looked at yet");
        tokio::time::advance(LOOKS_APART).await;
        assert_eq!(shown(&certificate), second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pair_that_cannot_be_used_leaves_the_last_good_one() {
        let files = Files::new();
        let first = files.write("first");
        let certificate =
            ReloadedCertificate::of(files.pair(), Seams::simulated(1).clock).expect("a good pair");
        for broken in ["", "no PEM"] {
            fs::write(files.pair().certificate, broken).expect("it is written");
            tokio::time::advance(LOOKS_APART).await;
            assert_eq!(shown(&certificate), first);
        }
        fs::remove_file(files.pair().key).expect("it is removed");
        tokio::time::advance(LOOKS_APART).await;
        assert_eq!(shown(&certificate), first);
        let second = files.write("second.example");
        tokio::time::advance(LOOKS_APART).await;
        assert_eq!(shown(&certificate), second);
    }

    #[test]
    fn a_bad_pair_is_refused_with_the_file_that_is_wrong() {
        let files = Files::new();
        let refused = |pair: &Pair| {
            let refused = ReloadedCertificate::of(pair.clone(), Seams::system().clock);
            refused.expect_err("the pair is bad").to_string()
        };
        let pair = files.pair();
        assert!(refused(&pair).contains("server.pem: cannot be read"), "{}", refused(&pair));
        files.write("first");
        let other = Files::new();
        other.write("other");
        let mixed = Pair { key: other.pair().key, ..pair.clone() };
        let message = refused(&mixed);
        assert!(message.contains("server.key: is not usable as the key of"), "{message}");
        fs::write(&pair.key, "nothing").expect("it is written");
        assert!(refused(&pair).contains("server.key: is not PEM"), "{}", refused(&pair));
        fs::write(&pair.certificate, "nothing").expect("it is written");
        assert!(refused(&pair).contains("server.pem: holds no certificate"), "{}", refused(&pair));
    }
}
