//! A broker that reads requests and acknowledges them at once: what the generator can do at most.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, anyhow};
use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceResponse, ResponseHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion};

use crate::generator::{self, CORRELATION_ID, Load, VERSION};
use crate::measure::Rate;
use crate::wire::{read_frame, topic_name};

/// Produces the load into a broker that does nothing. Blocks.
pub fn measure(load: &Load) -> Result<Rate> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
    let address: SocketAddr = listener.local_addr().context("reading the address of the listener")?;
    let answer = answer()?;
    thread::scope(|scope| {
        let broker = scope.spawn(|| serve(&listener, load.connections, &answer));
        let rate = generator::run(address, load)?;
        broker.join().map_err(|_| anyhow!("the null broker panicked"))??;
        Ok(rate)
    })
}

/// Serves as many connections as the generator makes, until each has ended.
fn serve(listener: &TcpListener, connections: u16, answer: &[u8]) -> Result<()> {
    thread::scope(|scope| {
        for _ in 0..connections {
            let (socket, _) = listener.accept().context("accepting the generator")?;
            scope.spawn(move || acknowledge(socket, answer));
        }
        Ok(())
    })
}

/// Ends with the connection, which the generator closes when it has all its answers.
fn acknowledge(mut socket: TcpStream, answer: &[u8]) {
    let mut buffer = Vec::new();
    while read_frame(&mut socket, &mut buffer).is_ok() && socket.write_all(answer).is_ok() {}
}

fn answer() -> Result<BytesMut> {
    let partition = PartitionProduceResponse::default();
    let topic = TopicProduceResponse::default()
        .with_name(topic_name("produced"))
        .with_partition_responses(vec![partition]);
    let response = ProduceResponse::default().with_responses(vec![topic]);
    let mut body = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(CORRELATION_ID);
    header.encode(&mut body, ProduceResponse::header_version(VERSION))?;
    response.encode(&mut body, VERSION)?;
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(body.len()).context("the answer is small")?);
    frame.put_slice(&body);
    Ok(frame)
}
