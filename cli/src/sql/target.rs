//! Where statements go: a server, or a data directory opened beside whoever writes to it.

use std::path::Path;

use strandline_engine::{Engine, EngineSettings, Inference};
use strandline_pgwire_server::PgSettings;
use strandline_storage::seam::Seams;
use tokio_postgres::{Client, NoTls};

use super::database_error;
use super::server::{Server, config, drive};
use crate::args::SqlArgs;
use crate::failure::Failure;
use crate::serve::open_log_read_only;
use crate::units::HostPort;

const DEFAULT_DATA: &str = "./strandline-data";
const DEFAULT_PORT: u16 = 5432;
/// Between the server code and the client code of this process.
const PIPE_BYTES: usize = 1 << 20;

/// Where to ask.
#[derive(Clone, Debug)]
pub enum Target {
    Server(Server),
    Data(String),
    /// The server at the usual port, or else the usual directory.
    Either(Server),
}

impl Target {
    /// # Errors
    /// Authorities that cannot be read, and a password that cannot be had.
    pub fn of(args: &SqlArgs) -> Result<Self, Failure> {
        match (&args.data, &args.server) {
            (Some(data), _) => Ok(Self::Data(data.clone())),
            (None, Some(address)) => Server::of(args, address.clone()).map(Self::Server),
            (None, None) => Server::of(args, HostPort::loopback(DEFAULT_PORT)).map(Self::Either),
        }
    }
}

/// A client of the target; says on standard error which one it is when that was not asked for.
pub async fn connect(target: &Target) -> Result<Client, Failure> {
    match target {
        Target::Server(server) => server.connect().await,
        Target::Data(data) => connect_data(data).await,
        Target::Either(server) => connect_either(server).await,
    }
}

async fn connect_either(server: &Server) -> Result<Client, Failure> {
    let address = &server.address;
    let unreachable = match server.connect().await {
        Ok(client) => match is_strandline(&client).await {
            true => {
                eprintln!("asking the server at {address}");
                return Ok(client);
            }
            false => format!("what answers at {address} is another database"),
        },
        Err(failure) if server.is_meant() => return Err(failure),
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
