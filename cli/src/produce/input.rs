//! Lines from a file or from standard input, numbered, read by a thread of its own.
//!
//! Invariant: a line longer than [`LINE_BYTES_MAX`] is read past, never held whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use tokio::sync::mpsc;

use crate::failure::Failure;

/// No topic takes a record as large as this.
const LINE_BYTES_MAX: usize = 128 << 20;
/// Lines that may wait to be taken.
const QUEUE_LENGTH: usize = 1024;
const READ_BUFFER_BYTES: usize = 256 << 10;

/// A line without its end, numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputLine {
    pub number: u64,
    pub bytes: Vec<u8>,
    /// With its end.
    pub length_bytes: u64,
    /// Then `bytes` is empty.
    pub is_too_long: bool,
}

/// The lines of an input, in order.
#[derive(Debug)]
pub struct Lines {
    receiver: mpsc::Receiver<io::Result<InputLine>>,
    /// None when the input is not a file.
    pub length_bytes: Option<u64>,
    name: String,
}

impl Lines {
    /// A file, or standard input.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::read(io::stdin(), None, "standard input".to_owned()));
        };
        let unreadable =
            |error: io::Error| Failure::failed(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        Ok(Self::read(file, Some(length), path.display().to_string()))
    }

    fn read(input: impl Read + Send + 'static, length_bytes: Option<u64>, name: String) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        // The thread ends with the input, or when nobody takes lines any more. It is not joined: it
        // may wait for standard input for ever.
        std::thread::spawn(move || {
            let mut reader = LineReader::new(BufReader::with_capacity(READ_BUFFER_BYTES, input));
            while let Some(line) = reader.next_line().transpose() {
                let is_last = line.is_err();
                if sender.blocking_send(line).is_err() || is_last {
                    return;
                }
            }
        });
        Self { receiver, length_bytes, name }
    }

    pub async fn next(&mut self) -> Option<Result<InputLine, Failure>> {
        let line = self.receiver.recv().await?;
        Some(line.map_err(|error| Failure::failed(format!("cannot read {}: {error}", self.name))))
    }
}

struct LineReader<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> LineReader<R> {
    fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    fn next_line(&mut self) -> io::Result<Option<InputLine>> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut length_bytes = read as u64;
        let is_too_long = read == LINE_BYTES_MAX && !bytes.ends_with(b"\n");
        if is_too_long {
            bytes = Vec::new();
            length_bytes += self.input.skip_until(b'\n')? as u64;
        }
        strip_end(&mut bytes);
        Ok(Some(InputLine { number: self.number, bytes, length_bytes, is_too_long }))
    }
}

fn strip_end(bytes: &mut Vec<u8>) {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_their_end_and_nothing_else() {
        let mut reader = LineReader::new(&b"a\nb\r\n\n\xff\r"[..]);
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line().expect("memory is readable") {
            lines.push((line.number, line.bytes, line.length_bytes));
        }
        let expected: Vec<(u64, Vec<u8>, u64)> = vec![
            (1, b"a".to_vec(), 2),
            (2, b"b".to_vec(), 3),
            (3, Vec::new(), 1),
            (4, b"\xff\r".to_vec(), 2),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_line_beyond_all_bounds_is_read_past() {
        let input = io::repeat(b'x').take(LINE_BYTES_MAX as u64 + 10).chain(&b"\nnext\n"[..]);
        let mut reader = LineReader::new(BufReader::new(input));
        let long = reader.next_line().expect("readable").expect("a line");
        assert!(long.is_too_long && long.bytes.is_empty());
        assert_eq!(long.length_bytes, LINE_BYTES_MAX as u64 + 11);
        let next = reader.next_line().expect("readable").expect("a line");
        assert_eq!((next.number, next.bytes.as_slice()), (2, b"next".as_slice()));
    }
}
