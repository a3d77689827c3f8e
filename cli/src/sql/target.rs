//! Where statements go: a server, or a data directory opened beside whoever writes to it.

use std::path::Path;
use std::time::Duration;

use futures::{StreamExt, stream};
use strandline_engine::{Engine, EngineSettings, Inference};
use strandline_pgwire_server::PgSettings;
use strandline_storage::seam::Seams;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};

use super::database_error;
use crate::args::SqlArgs;
use crate::failure::Failure;
use crate::serve::open_log_read_only;
use crate::units::HostPort;

const DATABASE: &str = "strandline";
const DEFAULT_DATA: &str = "./strandline-data";
const DEFAULT_PORT: u16 = 5432;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between the server code and the client code of this process.
const PIPE_BYTES: usize = 1 << 20;

/// Where to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Server(HostPort),
    Data(String),
    /// The server at the usual port, or else the usual directory.
    Either,
}

impl Target {
    pub fn of(args: &SqlArgs) -> Self {
        match (&args.data, &args.server) {
            (Some(data), _) => Self::Data(data.clone()),
            (None, Some(server)) => Self::Server(server.clone()),
            (None, None) => Self::Either,
        }
    }
}

/// A client of the target; says on standard error which one it is when that was not asked for.
pub async fn connect(target: &Target) -> Result<Client, Failure> {
    match target {
        Target::Server(address) => connect_server(address).await,
        Target::Data(data) => connect_data(data).await,
        Target::Either => connect_either().await,
    }
}

async fn connect_either() -> Result<Client, Failure> {
    let address = HostPort::loopback(DEFAULT_PORT);
    let unreachable = match connect_server(&address).await {
        Ok(client) => match is_strandline(&client).await {
            true => {
                eprintln!("asking the server at {address}");
                return Ok(client);
            }
            false => format!("what answers at {address} is another database"),
        },
        Err(failure) => failure.to_string(),
    };
    if !Path::new(DEFAULT_DATA).is_dir() {
        return Err(Failure::Unreachable(format!(
            "{unreachable}; and there is no directory {DEFAULT_DATA}: name a server with --server, or a directory with --data"
        )));
    }
    eprintln!("reading {DEFAULT_DATA} (no server at {address})");
    connect_data(DEFAULT_DATA).await
}

/// A PostgreSQL server may hold the usual port.
async fn is_strandline(client: &Client) -> bool {
    let version = client.query_one("SELECT version()", &[]).await;
    let version = version.and_then(|row| row.try_get::<_, String>(0));
    version.is_ok_and(|version| version.contains("Strandline"))
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .user(DATABASE)
        .dbname(DATABASE)
        .application_name("strandline sql")
        .connect_timeout(CONNECT_TIMEOUT);
    config
}

async fn connect_server(address: &HostPort) -> Result<Client, Failure> {
    let mut connecting = config();
    connecting.host(&address.host).port(address.port);
    // The port of something else may take the connection and then say nothing.
    let Ok(connected) = timeout(2 * CONNECT_TIMEOUT, connecting.connect(NoTls)).await else {
        return Err(Failure::Unreachable(format!(
            "{address} does not answer as a Postgres server; is it the port of --pg-listen?"
        )));
    };
    match connected {
        Ok((client, connection)) => {
            tokio::spawn(drive(connection));
            Ok(client)
        }
        Err(error) if error.as_db_error().is_some() => Err(database_error::failure(error)),
        Err(error) => Err(Failure::Unreachable(format!(
            "cannot reach a server at {address}: {}; is `strandline serve` running there?",
            root_cause(&error)
        ))),
    }
}

async fn connect_data(data: &str) -> Result<Client, Failure> {
    let log = open_log_read_only(data, &Seams::system()).await?;
    let settings = EngineSettings { inference: Inference::Provisional, ..EngineSettings::default() };
    let engine = Engine::start(log, settings);
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    // Ends when the client drops its end of the pipe.
    tokio::spawn(strandline_pgwire_server::serve_stream(far, engine, PgSettings::default()));
    let (client, connection) = config().connect_raw(near, NoTls).await.map_err(database_error::failure)?;
    tokio::spawn(drive(connection));
    Ok(client)
}

/// Moves a connection's messages, and shows notices.
async fn drive<S, T>(mut connection: Connection<S, T>)
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
