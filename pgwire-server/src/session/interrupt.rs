//! What may stop a statement from outside: a cancel request, the end of the server, the client's leaving.

use tokio::io::AsyncRead;
use tokio_util::sync::CancellationToken;

use crate::error::{Ended, Failure, PgError};
use crate::wire::frame::FrameReader;

/// The two signals of one session.
#[derive(Debug)]
pub(crate) struct Interrupts {
    statement: CancellationToken,
    server: CancellationToken,
}

impl Interrupts {
    pub(crate) fn new(server: CancellationToken) -> Self {
        Self { statement: CancellationToken::new(), server }
    }

    /// From here on `cancel` stops what [`Self::watch`] runs.
    pub(crate) fn statement_begins(&mut self, cancel: CancellationToken) {
        self.statement = cancel;
    }

    pub(crate) async fn server_stops(&self) {
        self.server.cancelled().await;
    }

    /// Runs `work` until it is done or one of the three stops it; then it is dropped.
    pub(crate) async fn watch<R: AsyncRead + Unpin, T>(
        &self,
        reader: &mut FrameReader<R>,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            // The signals come first: a stream that always has a next batch must not outrun them.
            biased;
            () = self.statement.cancelled() => Err(PgError::canceled().into()),
            () = self.server.cancelled() => Err(Ended::Fatal(PgError::shutting_down()).into()),
            value = work => Ok(value),
            () = reader.closed() => Err(Ended::ClientGone.into()),
        }
    }
}
