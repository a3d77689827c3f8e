//! Bytes that no client should send: the right error or a closed connection, nothing stored, nobody
//! else harmed.

use std::io::{Read, Write};
use std::net::TcpStream;

use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};
use strandline_storage::format::Compression;

use crate::raw::{RawClient, RawRecord, batch, frame, seal};
use crate::server::Server;
use crate::sql::Sql;

const CORRUPT_MESSAGE: i16 = 2;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_RECORD: i16 = 87;

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_lie_close_their_connection_and_no_other() {
    let server = Server::start();
    let mut bystander = RawClient::connect(server.kafka);
    bystander.create_topic("safe", 1, &[]);
    let metadata = frame(9, &MetadataRequest::default().with_topics(None));
    let mut lying_count = frame(4, &MetadataRequest::default().with_topics(Some(Vec::new())));
    let count_at = lying_count.len() - 5;
    lying_count[count_at..count_at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
    let mut unknown_version = metadata.clone();
    unknown_version[6..8].copy_from_slice(&999_i16.to_be_bytes());
    let mut unknown_api = metadata.clone();
    unknown_api[4..6].copy_from_slice(&9999_i16.to_be_bytes());
    let mut short = metadata.clone();
    short[..4].copy_from_slice(&3_i32.to_be_bytes());
    for (name, bytes) in [
        ("a negative length", (-1_i32).to_be_bytes().to_vec()),
        ("a length beyond all bounds", i32::MAX.to_be_bytes().to_vec()),
        ("a count beyond its bytes", lying_count),
        ("an unknown version", unknown_version),
        ("an unknown API", unknown_api),
        ("a frame shorter than its header", short),
    ] {
        let mut client = RawClient::connect(server.kafka);
        client.send_bytes(&bytes);
        client.expect_closed();
        let offset = bystander.produce_ok("safe", 0, batch(Compression::None, &[RawRecord::at(1, name)]));
        assert!(offset >= 0, "{name}");
    }
    let sql = Sql::connect(&server).await;
    assert_eq!(sql.text("SELECT count(*) FROM safe").await, "6");
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_with_those_that_are_known() {
    let server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    let mut request = frame(3, &ApiVersionsRequest::default());
    request[6..8].copy_from_slice(&99_i16.to_be_bytes());
    client.send_bytes(&request);
    // The answer to an unknown version is always in version 0.
    let mut stream = client.into_stream();
    let mut head = [0; 10];
    stream.read_exact(&mut head).expect("it is answered");
    assert_eq!(i16::from_be_bytes([head[8], head[9]]), UNSUPPORTED_VERSION);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_lie_are_refused_and_take_no_offset() {
    let server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("batches", 1, &[]);
    let good = batch(Compression::None, &[RawRecord::at(1, "a"), RawRecord::at(2, "b")]);
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.to_vec();
        change(&mut bytes);
        bytes
    };
    let sealed = |change: fn(&mut Vec<u8>)| {
        let mut bytes = changed(change);
        seal(&mut bytes);
        bytes
    };
    for (name, bytes, code) in [
        ("a wrong CRC", changed(|bytes| bytes[17] ^= 1), CORRUPT_MESSAGE),
        ("a flipped byte", changed(|bytes| *bytes.last_mut().expect("it has bytes") ^= 1), CORRUPT_MESSAGE),
        ("a count that lies", sealed(|bytes| bytes[60] = 9), INVALID_RECORD),
        ("a base offset", changed(|bytes| bytes[7] = 1), INVALID_RECORD),
        ("a control batch", sealed(|bytes| bytes[22] |= 0x20), INVALID_RECORD),
    ] {
        assert_eq!(client.produce("batches", 0, bytes.into()).error_code, code, "{name}");
    }
    let truncated = good.slice(..good.len() - 1);
    assert_ne!(client.produce("batches", 0, truncated).error_code, 0);
    assert_eq!(client.produce_ok("batches", 0, good), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_messages_that_lie_close_their_connection_and_no_other() {
    let server = Server::start();
    let sql = Sql::connect(&server).await;
    for (name, bytes) in [
        ("a startup beyond all bounds", i32::MAX.to_be_bytes().to_vec()),
        ("a negative startup", (-8_i32).to_be_bytes().to_vec()),
        ("a startup shorter than itself", 4_i32.to_be_bytes().to_vec()),
    ] {
        let mut stream = TcpStream::connect(server.pg).expect("the server listens");
        stream.write_all(&bytes).expect("the server reads");
        expect_end(stream, name);
    }
    for (name, bytes) in [
        ("a query beyond all bounds", [b"Q".as_slice(), &i32::MAX.to_be_bytes()].concat()),
        ("a negative length", [b"Q".as_slice(), &(-1_i32).to_be_bytes()].concat()),
        ("a bind whose counts lie", lying_bind()),
    ] {
        let mut stream = TcpStream::connect(server.pg).expect("the server listens");
        stream.write_all(&startup()).expect("the server reads");
        stream.write_all(&bytes).expect("the server reads");
        stream.shutdown(std::net::Shutdown::Write).expect("our half can be closed");
        expect_end(stream, name);
    }
    assert_eq!(sql.text("SELECT 1").await, "1");
}

fn startup() -> Vec<u8> {
    let parameters = b"user\0test\0database\0strandline\0\0";
    let length = i32::try_from(8 + parameters.len()).expect("it is short");
    [&length.to_be_bytes()[..], &196_608_i32.to_be_bytes(), parameters].concat()
}

/// No portal name, no statement name, then 32,767 format codes in no bytes.
fn lying_bind() -> Vec<u8> {
    let body = [b"\0\0".as_slice(), &i16::MAX.to_be_bytes()].concat();
    let length = i32::try_from(4 + body.len()).expect("it is short");
    [b"B".as_slice(), &length.to_be_bytes(), &body].concat()
}

/// Reads until the server has closed.
fn expect_end(mut stream: TcpStream, name: &str) {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a bound can be set");
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{name}: not closed: {error}"),
    }
}
