//! What the machine can do at most: the generator, the loopback and the disk, each for itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use strandline_storage::object::{DurableLocal, LogStore};
use tokio::task::JoinSet;

use super::null_broker;
use crate::generator::Load;
use crate::measure::{Rate, Stopwatch};
use crate::place::Place;

/// Sizes of objects that a commit may have.
const OBJECT_MEBIBYTES: [usize; 4] = [1, 2, 4, 8];
/// As many as a log has.
const PUTS_IN_FLIGHT: u64 = 4;
const COPY_BYTES: usize = 1024 * 1024;

/// Puts of objects of one size.
#[derive(Clone, Copy, Debug)]
pub struct Puts {
    pub object_bytes: usize,
    pub rate: Rate,
}

#[derive(Clone, Debug)]
pub struct Limits {
    pub null_broker: Rate,
    pub loopback: Rate,
    pub puts: Vec<Puts>,
}

impl Limits {
    pub async fn measure(place: &Place, load: &Load) -> Result<Self> {
        let measured = load.clone();
        let null_broker = tokio::task::spawn_blocking(move || null_broker::measure(&measured));
        let null_broker = null_broker.await.context("running the null broker")??;
        let bytes = load.bytes();
        let loopback = tokio::task::spawn_blocking(move || loopback_rate(bytes));
        let loopback = loopback.await.context("copying over loopback")??;
        let mut puts = Vec::new();
        for mebibytes in OBJECT_MEBIBYTES {
            let store = place.store(&format!("puts-{mebibytes}"))?;
            let object = object(&load.batch, mebibytes * 1024 * 1024);
            let object_bytes = object.len();
            puts.push(Puts { object_bytes, rate: put_rate(store, object, bytes).await? });
        }
        Ok(Self { null_broker, loopback, puts })
    }
}

/// One stream of plain bytes from one thread to another. Blocks.
fn loopback_rate(bytes: u64) -> Result<Rate> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
    let address = listener.local_addr().context("reading the address of the listener")?;
    let watch = Stopwatch::default();
    let received = thread::scope(|scope| {
        let reader = scope.spawn(|| drain(&listener));
        let mut socket = TcpStream::connect(address).context("connecting to loopback")?;
        let buffer = vec![0; COPY_BYTES];
        for _ in 0..bytes.div_ceil(COPY_BYTES as u64) {
            socket.write_all(&buffer).context("writing to loopback")?;
        }
        drop(socket);
        reader.join().map_err(|_| anyhow!("the reader of the loopback panicked"))?
    })?;
    ensure!(received >= bytes, "{received} of {bytes} bytes came through loopback");
    Ok(Rate { bytes: received, elapsed: watch.elapsed() })
}

/// Reads one connection to its end.
fn drain(listener: &TcpListener) -> Result<u64> {
    let (mut socket, _) = listener.accept().context("accepting on loopback")?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut received = 0;
    loop {
        match socket.read(&mut buffer).context("reading from loopback")? {
            0 => return Ok(received),
            read => received += read as u64,
        }
    }
}

/// Puts objects through the durable store and nothing else, as many at a time as a log does.
async fn put_rate(store: Arc<DurableLocal>, object: Bytes, bytes: u64) -> Result<Rate> {
    let objects = bytes.div_ceil(object.len() as u64);
    let object_bytes = object.len() as u64;
    let watch = Stopwatch::default();
    let mut puts = JoinSet::new();
    for lane in 0..PUTS_IN_FLIGHT {
        let (store, object) = (store.clone(), object.clone());
        puts.spawn(async move {
            for number in (lane..objects).step_by(PUTS_IN_FLIGHT as usize) {
                store.create(&format!("puts/{number:020}"), object.clone()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(put) = puts.join_next().await {
        put.context("putting objects")?.context("putting objects")?;
    }
    Ok(Rate { bytes: objects * object_bytes, elapsed: watch.elapsed() })
}

/// Bytes of batches, repeated to the size of an object.
fn object(batch: &[u8], length: usize) -> Bytes {
    batch.iter().copied().cycle().take(length).collect()
}
