//! A server as `strandline sql` speaks to it: its address, who one is there, and whether the connection is
//! encrypted.

use std::fmt;
use std::time::Duration;

use futures::{StreamExt, stream};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::database_error;
use crate::args::SqlArgs;
use crate::failure::Failure;
use crate::password::Login;
use crate::tls::client_config;
use crate::units::HostPort;

const DATABASE: &str = "strandline";
/// What a server that takes encrypted connections only answers to others.
const IN_THE_CLEAR: SqlState = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Server {
    pub address: HostPort,
    login: Option<Login>,
    /// `None`: in the clear.
    tls: Option<ClientConfig>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// # Errors
    /// Authorities that cannot be read, and a password that cannot be had.
    pub fn of(args: &SqlArgs, address: HostPort) -> Result<Self, Failure> {
        let tls = args.login.client_tls().map(|tls| client_config(&tls)).transpose()?;
        let login = Login::of(args.login.user.as_ref())?;
        Ok(Self { address, login, tls })
    }

    /// Whether the person who typed the command means a server: one has said who one is, or how to speak
    /// to it.
    pub fn is_meant(&self) -> bool {
        self.login.is_some() || self.tls.is_some()
    }

    /// # Errors
    /// A server that does not answer, or does not let one in.
    pub async fn connect(&self) -> Result<Client, Failure> {
        // The port of something else may take the connection and then say nothing.
        let Ok(connected) = timeout(2 * CONNECT_TIMEOUT, self.connect_now()).await else {
            return Err(Failure::Unreachable(format!(
                "{} does not answer as a Postgres server; is it the port of --pg-listen?",
                self.address
            )));
        };
        connected.map_err(|error| self.refusal(error))
    }

    async fn connect_now(&self) -> Result<Client, Error> {
        let mut config = config();
        config.host(&self.address.host).port(self.address.port);
        if let Some(Login { user, password }) = &self.login {
            config.user(user).password(password);
        }
        match &self.tls {
            Some(tls) => {
                config.ssl_mode(SslMode::Require);
                let (client, connection) = config.connect(MakeRustlsConnect::new(tls.clone())).await?;
                tokio::spawn(drive(connection));
                Ok(client)
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(drive(connection));
                Ok(client)
            }
        }
    }

    fn refusal(&self, error: Error) -> Failure {
        let address = &self.address;
        let cause = root_cause(&error);
        match error.as_db_error() {
            Some(refusal) if self.tls.is_none() && *refusal.code() == IN_THE_CLEAR => Failure::failed(
                format!("the server at {address} refuses this: {}; try --tls", refusal.message()),
            ),
            Some(_) => database_error::failure(error),
            // What the client library says when a proof is asked for and it was given no password.
            None if cause == "password missing" => Failure::failed(format!(
                "the server at {address} wants to know who you are: name a user with --user"
            )),
            None if cause == "server does not support TLS" => {
                Failure::failed(format!("the server at {address} takes no TLS; leave out --tls and --tls-ca"))
            }
            None => Failure::Unreachable(format!(
                "cannot reach a server at {address}: {cause}; is `strandline serve` running there?"
            )),
        }
    }
}

/// What all connections begin with.
pub fn config() -> Config {
    let mut config = Config::new();
    config
        .user(DATABASE)
        .dbname(DATABASE)
        .application_name("strandline sql")
        .connect_timeout(CONNECT_TIMEOUT);
    config
}

/// Moves a connection's messages, and shows notices.
pub async fn drive<S, T>(mut connection: Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut messages = stream::poll_fn(|context| connection.poll_message(context));
    // An error ends the statement that waits, which tells of it.
    while let Some(Ok(message)) = messages.next().await {
        if let AsyncMessage::Notice(notice) = message {
            eprintln!("{}: {}", notice.severity().to_lowercase(), notice.message());
        }
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
