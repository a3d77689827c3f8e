//! Many clients that have introduced themselves, and say nothing more. All of it blocks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};

use crate::wire::Connection;

const API_VERSIONS_VERSION: i16 = 3;
const METADATA_VERSION: i16 = 12;
const PG_PROTOCOL: u32 = 3 << 16;
const STARTUP_PARAMETERS: &[u8] = b"user\0admin\0database\0strandline\0\0";
/// Nothing takes a server longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub kafka: SocketAddr,
    pub postgres: SocketAddr,
}

/// Clients of one port.
pub enum Crowd {
    Kafka(Vec<Connection>),
    Postgres(Vec<TcpStream>),
}

/// Clients that have asked what is served and which topics there are, as all do.
pub fn kafka(ports: Ports, count: usize) -> Result<Crowd> {
    let connect = |_| {
        let mut connection = Connection::open(ports.kafka)?;
        connection.call(API_VERSIONS_VERSION, &ApiVersionsRequest::default(), |_| Ok(()))?;
        ask_metadata(&mut connection)?;
        Ok(connection)
    };
    Ok(Crowd::Kafka((0..count).map(connect).collect::<Result<_>>()?))
}

/// Clients that have sent a statement.
pub fn postgres(ports: Ports, count: usize) -> Result<Crowd> {
    let connect = |_| {
        let mut socket = TcpStream::connect(ports.postgres).context("connecting to the Postgres port")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let length = u32::try_from(STARTUP_PARAMETERS.len() + 8)?;
        let head = [length.to_be_bytes(), PG_PROTOCOL.to_be_bytes()].concat();
        socket.write_all(&[&head[..], STARTUP_PARAMETERS].concat())?;
        until_ready(&mut socket)?;
        query(&mut socket)?;
        Ok(socket)
    };
    Ok(Crowd::Postgres((0..count).map(connect).collect::<Result<_>>()?))
}

impl Crowd {
    /// Asks with each client once more: all of them are served.
    pub fn ask_each(self) -> Result<()> {
        match self {
            Self::Kafka(connections) => {
                connections.into_iter().try_for_each(|mut one| ask_metadata(&mut one))
            }
            Self::Postgres(sockets) => sockets.into_iter().try_for_each(|mut one| query(&mut one)),
        }
    }
}

fn ask_metadata(connection: &mut Connection) -> Result<()> {
    connection.call(METADATA_VERSION, &MetadataRequest::default().with_topics(None), |answer| {
        ensure!(answer.brokers.len() == 1, "there is one broker, not {}", answer.brokers.len());
        Ok(())
    })
}

fn query(socket: &mut TcpStream) -> Result<()> {
    const STATEMENT: &[u8] = b"SELECT 1\0";
    let length = u32::try_from(STATEMENT.len() + 4)?;
    socket.write_all(&[&b"Q"[..], &length.to_be_bytes(), STATEMENT].concat())?;
    until_ready(socket)
}

/// Reads messages to the one that says that the server waits for a statement.
fn until_ready(socket: &mut TcpStream) -> Result<()> {
    loop {
        let mut head = [0; 5];
        socket.read_exact(&mut head).context("waiting for a message of the Postgres port")?;
        let [kind, length @ ..] = head;
        let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
        socket.read_exact(&mut body).context("reading a message of the Postgres port")?;
        match kind {
            b'Z' => return Ok(()),
            b'E' => bail!("the Postgres port answers {}", String::from_utf8_lossy(&body).replace('\0', " ")),
            _ => (),
        }
    }
}
