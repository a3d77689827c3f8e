//! Encrypted connections: asked for, begun at once, and demanded.

use std::sync::Arc;

use strandline_pgwire_server::{PgSettings, PgTls, TLS_PROTOCOL, TlsMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::fixture::{ENDLESS, Server, bounded, code, rows};
use crate::raw::Raw;

const CERTIFICATE: &[u8] = include_bytes!("../tls/server.pem");
const KEY: &[u8] = include_bytes!("../tls/server.key");
const SSL_REQUEST: u32 = 80_877_103;

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(CERTIFICATE).unwrap()
}

fn settings(mode: TlsMode) -> PgSettings {
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate()], key).unwrap();
    config.alpn_protocols = vec![TLS_PROTOCOL.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    PgSettings { tls: Some(PgTls { acceptor, mode }), ..PgSettings::default() }
}

fn connector(protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

async fn handshake(socket: TcpStream, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    bounded(connector(protocols).connect(name, socket)).await.unwrap()
}

async fn asked_for(server: &Server) -> TlsStream<TcpStream> {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(&[&8_u32.to_be_bytes()[..], &SSL_REQUEST.to_be_bytes()].concat()).await.unwrap();
    assert_eq!(bounded(socket.read_u8()).await.unwrap(), b'S');
    handshake(socket, &[]).await
}

async fn begun_at_once(server: &Server, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
    handshake(TcpStream::connect(server.address).await.unwrap(), protocols).await
}

async fn session(stream: TlsStream<TcpStream>) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.user("ada").dbname("strandline");
    let (client, connection) = bounded(config.connect_raw(stream, NoTls)).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_session_is_encrypted_when_the_client_asks_for_it() {
    let server = Server::start_with(settings(TlsMode::Optional)).await;
    let client = session(asked_for(&server).await).await;
    // More than one record of TLS in each direction.
    let long = "x".repeat(100_000);
    assert_eq!(rows(&client, &format!("SELECT '{long}', 1")).await, [[long.as_str(), "1"]]);
    let plain = server.connect().await;
    assert_eq!(rows(&plain, "SELECT 1").await, [["1"]]);
}

#[tokio::test]
async fn a_session_knows_whether_it_is_encrypted() {
    let server = Server::start_with(settings(TlsMode::Optional)).await;
    let encrypted = [
        session(asked_for(&server).await).await,
        session(begun_at_once(&server, &[TLS_PROTOCOL]).await).await,
    ];
    for client in encrypted {
        assert_eq!(rows(&client, "SHOW ssl").await, [["on"]]);
        bounded(client.simple_query("RESET ALL")).await.unwrap();
        assert_eq!(rows(&client, "SELECT current_setting('ssl')").await, [["on"]]);
    }
    assert_eq!(rows(&server.connect().await, "SHOW ssl").await, [["off"]]);
}

#[tokio::test]
async fn a_session_is_encrypted_when_the_client_begins_with_the_handshake() {
    let server = Server::start_with(settings(TlsMode::Required)).await;
    let client = session(begun_at_once(&server, &[TLS_PROTOCOL]).await).await;
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
}

#[tokio::test]
async fn a_handshake_that_does_not_name_the_protocol_is_refused() {
    let server = Server::start_with(settings(TlsMode::Optional)).await;
    let mut stream = begun_at_once(&server, &[]).await;
    let mut answer = Vec::new();
    bounded(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("C08P01"), "{answer:x?}");
}

#[tokio::test]
async fn bytes_ahead_of_the_handshake_are_refused() {
    let server = Server::start_with(settings(TlsMode::Optional)).await;
    let mut raw = Raw::connect(server.address).await;
    let startup = b"\0\0\0\x13\0\x03\0\0user\0eve\0\0";
    raw.send(&[&8_u32.to_be_bytes()[..], &SSL_REQUEST.to_be_bytes(), startup].concat()).await;
    let refused = raw.until_closed().await;
    assert_eq!((refused[0].tag, refused[0].field(b'C').as_str()), (b'E', "08P01"));
}

#[tokio::test]
async fn encryption_is_asked_for_once() {
    let server = Server::start_with(settings(TlsMode::Optional)).await;
    let mut stream = asked_for(&server).await;
    stream.write_all(&[&8_u32.to_be_bytes()[..], &SSL_REQUEST.to_be_bytes()].concat()).await.unwrap();
    let mut answer = Vec::new();
    bounded(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("C08P01"), "{answer:x?}");
}

#[tokio::test]
async fn a_session_in_the_clear_is_refused_where_encryption_is_required() {
    let server = Server::start_with(settings(TlsMode::Required)).await;
    let refused = server.try_connect("user=ada").await.unwrap_err();
    assert_eq!(code(&refused), "28000");
    let message = refused.as_db_error().unwrap().message();
    assert_eq!(message, "this server takes encrypted connections only");
    let client = session(asked_for(&server).await).await;
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
}

#[tokio::test]
async fn a_statement_is_canceled_over_an_encrypted_connection() {
    let server = Server::start_with(settings(TlsMode::Required)).await;
    server.topic("big", (0..2_000).map(|n| format!(r#"{{"n":{n}}}"#))).await;
    let client = session(asked_for(&server).await).await;
    let cancel = client.cancel_token();
    let running = tokio::spawn(async move { client.simple_query(ENDLESS).await });
    while !running.is_finished() {
        // A cancel that comes before the statement runs does nothing.
        cancel.cancel_query_raw(asked_for(&server).await, NoTls).await.unwrap();
    }
    assert_eq!(code(&bounded(running).await.unwrap().unwrap_err()), "57014");
}

#[tokio::test]
async fn a_handshake_that_is_none_harms_nobody() {
    let server = Server::start_with(settings(TlsMode::Optional)).await;
    for bytes in [&b"\x16\x03\x01\xff\xffgarbage"[..], b"\x16", b"\x16\x03\x01\0\x02\x01\0"] {
        let mut raw = Raw::connect(server.address).await;
        raw.send(bytes).await;
        drop(raw);
    }
    assert_eq!(rows(&server.connect().await, "SELECT 1").await, [["1"]]);
}
