//! The bytes of a connection, in the clear or encrypted; which of the two is decided while it starts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Both directions of one connection.
pub(crate) enum Transport<S> {
    Plain(S),
    Encrypted(Box<TlsStream<Replayed<S>>>),
    /// A handshake that did not come to its end has taken the socket with it.
    Broken,
}

/// A stream of which some bytes have been read before.
pub(crate) struct Replayed<S> {
    received: Bytes,
    io: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Transport<S> {
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Encrypted(_))
    }

    /// What client and server agreed to speak over the encrypted connection.
    pub(crate) fn alpn_protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Encrypted(stream) => stream.get_ref().1.alpn_protocol(),
            Self::Plain(_) | Self::Broken => None,
        }
    }

    /// Takes the handshake of a client, which begins with what was received already.
    pub(crate) async fn start_tls(&mut self, acceptor: &TlsAcceptor, received: Bytes) -> io::Result<()> {
        let Self::Plain(io) = std::mem::replace(self, Self::Broken) else { return Err(broken()) };
        let stream = acceptor.accept(Replayed { received, io }).await?;
        *self = Self::Encrypted(Box::new(stream));
        Ok(())
    }
}

fn broken() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Transport<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(context, buffer),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Broken => Poll::Ready(Err(broken())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Transport<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(context, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Broken => Poll::Ready(Err(broken())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(context),
            Self::Broken => Poll::Ready(Err(broken())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(context),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Broken => Poll::Ready(Err(broken())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Replayed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, buffer);
        }
        let length = self.received.len().min(buffer.remaining());
        buffer.put_slice(&self.received[..length]);
        self.received.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replayed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
