//! The least that serving data from files takes: read them, check them, copy them once, send them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};

use crate::measure::{Rate, Stopwatch};

/// As much as the log reads in one request.
const READ_BYTES: usize = 4 * 1024 * 1024;
const RECEIVE_BYTES: usize = 1024 * 1024;

/// Sends whole files over loopback, to a reader that throws them away. Blocks.
pub fn measure(files: &[PathBuf]) -> Result<Rate> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listening on loopback")?;
    let address = listener.local_addr().context("reading the address of the listener")?;
    let watch = Stopwatch::default();
    let (sent, received) = thread::scope(|scope| {
        let sender = scope.spawn(|| send_files(&listener, files));
        let received = receive(TcpStream::connect(address).context("connecting to loopback")?)?;
        let sent = sender.join().map_err(|_| anyhow!("the sender panicked"))??;
        anyhow::Ok((sent, received))
    })?;
    ensure!(sent == received, "{received} of {sent} bytes came through loopback");
    Ok(Rate { bytes: received, elapsed: watch.elapsed() })
}

fn send_files(listener: &TcpListener, files: &[PathBuf]) -> Result<u64> {
    let (mut socket, _) = listener.accept().context("accepting on loopback")?;
    let mut read = vec![0; READ_BYTES];
    let mut copied = vec![0; READ_BYTES];
    // Kept, so that the checksums cannot be left out.
    let mut checksums = 0;
    let mut sent = 0;
    for path in files {
        let name = || format!("reading {}", path.display());
        let file = File::open(path).with_context(name)?;
        let length = file.metadata().with_context(name)?.len();
        for position in (0..length).step_by(READ_BYTES) {
            let wanted = usize::try_from(length - position).map_or(READ_BYTES, |left| left.min(READ_BYTES));
            file.read_exact_at(&mut read[..wanted], position).with_context(name)?;
            checksums ^= crc32c::crc32c(&read[..wanted]);
            copied[..wanted].copy_from_slice(&read[..wanted]);
            socket.write_all(&copied[..wanted]).context("sending to loopback")?;
            sent += wanted as u64;
        }
    }
    std::hint::black_box(checksums);
    Ok(sent)
}

fn receive(mut socket: TcpStream) -> Result<u64> {
    let mut buffer = vec![0; RECEIVE_BYTES];
    let mut received = 0;
    loop {
        match socket.read(&mut buffer).context("receiving from loopback")? {
            0 => return Ok(received),
            read => received += read as u64,
        }
    }
}
