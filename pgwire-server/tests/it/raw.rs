//! A client that says exactly what a test wants, right or wrong.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::bounded;

pub struct Raw {
    stream: TcpStream,
}

/// A backend message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// A field of an ErrorResponse or NoticeResponse.
    pub fn field(&self, code: u8) -> String {
        let fields = self.body.split(|byte| *byte == 0);
        let field = fields.filter(|field| !field.is_empty()).find(|field| field[0] == code);
        field.map_or_else(String::new, |field| String::from_utf8_lossy(&field[1..]).into_owned())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end_matches('\0').to_owned()
    }
}

/// A message with its length.
pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

pub fn query(sql: &str) -> Vec<u8> {
    frame(b'Q', format!("{sql}\0").as_bytes())
}

/// Without types for its parameters.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    frame(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// All in text.
pub fn bind(portal: &str, statement: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend(u16::try_from(parameters.len()).unwrap().to_be_bytes());
    for parameter in parameters {
        match parameter {
            Some(text) => {
                body.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                body.extend(text.as_bytes());
            }
            None => body.extend((-1i32).to_be_bytes()),
        }
    }
    body.extend([0, 0]);
    frame(b'B', &body)
}

/// `kind` is S for a statement, P for a portal.
pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[&[kind][..], name.as_bytes(), b"\0"].concat())
}

pub fn close(kind: u8, name: &str) -> Vec<u8> {
    frame(b'C', &[&[kind][..], name.as_bytes(), b"\0"].concat())
}

pub fn execute(portal: &str, max_rows: i32) -> Vec<u8> {
    frame(b'E', &[portal.as_bytes(), b"\0", &max_rows.to_be_bytes()].concat())
}

pub fn sync() -> Vec<u8> {
    frame(b'S', b"")
}

pub fn flush() -> Vec<u8> {
    frame(b'H', b"")
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        Self { stream: bounded(TcpStream::connect(address)).await.unwrap() }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        bounded(self.stream.write_all(bytes)).await.unwrap();
    }

    /// A first packet: its length and what follows.
    pub async fn packet(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len() + 4).unwrap();
        self.send(&[&length.to_be_bytes()[..], body].concat()).await;
    }

    pub async fn startup(&mut self, parameters: &[(&str, &str)]) {
        let mut body = vec![0, 3, 0, 0];
        for (name, value) in parameters {
            body.extend(format!("{name}\0{value}\0").as_bytes());
        }
        body.push(0);
        self.packet(&body).await;
    }

    pub async fn byte(&mut self) -> u8 {
        bounded(self.stream.read_u8()).await.unwrap()
    }

    pub async fn message(&mut self) -> Message {
        self.next().await.expect("a message, not the end of the connection")
    }

    /// None at the end of the connection.
    pub async fn next(&mut self) -> Option<Message> {
        let tag = bounded(self.stream.read_u8()).await.ok()?;
        let length = bounded(self.stream.read_u32()).await.unwrap();
        let mut body = vec![0; length as usize - 4];
        bounded(self.stream.read_exact(&mut body)).await.unwrap();
        Some(Message { tag, body })
    }

    /// All messages up to one with this tag.
    pub async fn until(&mut self, tag: u8) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.message().await;
            messages.push(message.clone());
            if message.tag == tag {
                return messages;
            }
        }
    }

    /// The tags of all messages up to one with this tag.
    pub async fn tags_until(&mut self, tag: u8) -> String {
        self.until(tag).await.iter().map(|message| char::from(message.tag)).collect()
    }

    /// All messages up to the end of the connection.
    pub async fn until_closed(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }
}
