//! Where a server is, how to speak to it, and who one is there.

use std::fmt;

use tokio_rustls::TlsConnector;

use crate::args::BootstrapArgs;
use crate::failure::Failure;
use crate::password;
use crate::tls::{ClientTls, connector};
use crate::units::HostPort;

/// A server as the person who typed the command knows it.
#[derive(Clone)]
pub struct Endpoint {
    pub address: HostPort,
    /// `None`: plaintext.
    pub tls: Option<TlsConnector>,
    /// `None`: somebody without a name.
    pub login: Option<Login>,
}

/// Who one is, and what proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// # Errors
    /// Authorities that cannot be read, and a password that cannot be had.
    pub fn of(args: &BootstrapArgs) -> Result<Self, Failure> {
        let tls = match &args.tls_ca {
            Some(path) => Some(ClientTls::Authorities(path.clone())),
            None => args.tls.then_some(ClientTls::System),
        };
        let tls = tls.map(|tls| connector(&tls)).transpose()?;
        let login = args.user.as_ref().map(|user| {
            let password = password::of_user(user)?;
            Ok::<_, Failure>(Login { user: user.clone(), password })
        });
        Ok(Self { address: args.bootstrap.clone(), tls, login: login.transpose()? })
    }
}
