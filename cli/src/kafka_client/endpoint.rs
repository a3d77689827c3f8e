//! Where a server is, how to speak to it, and who one is there.

use std::fmt;

use tokio_rustls::TlsConnector;

use crate::args::BootstrapArgs;
use crate::failure::Failure;
use crate::password::Login;
use crate::tls::connector;
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

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// # Errors
    /// Authorities that cannot be read, and a password that cannot be had.
    pub fn of(args: &BootstrapArgs) -> Result<Self, Failure> {
        let tls = args.login.client_tls().map(|tls| connector(&tls)).transpose()?;
        let login = Login::of(args.login.user.as_ref())?;
        Ok(Self { address: args.bootstrap.clone(), tls, login })
    }
}
