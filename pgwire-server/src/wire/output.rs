//! Backend messages into a buffer, and the buffer into the socket.
//!
//! Invariants: no text with NUL reaches the wire, where it would end a string early; a flush that is
//! dropped half-way goes on where it stopped.

use bytes::{Bytes, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::data::{FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended};
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus,
};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::startup_packet::CancelKey;
use crate::encode::Format;
use crate::error::{PgError, Severity};
use crate::sqlstate::SqlState;
use crate::telemetry;

/// Rows are sent on when this much waits.
pub(crate) const FLUSH_BYTES: usize = 64 * 1024;
/// A buffer that one wide row has made larger is given back.
const KEPT_BYTES_MAX: usize = 1024 * 1024;
/// A client keeps reported settings in small buffers; PostgreSQL bounds names alike.
const STATUS_CHARACTERS_MAX: usize = 1_000;
/// The oids of tables and columns that nothing here has.
const NO_TABLE: i32 = 0;
const NO_COLUMN: i16 = 0;
const NO_MODIFIER: i32 = -1;

/// A column as RowDescription names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnHeader {
    pub(crate) name: String,
    pub(crate) type_oid: u32,
    pub(crate) type_size: i16,
    pub(crate) format: Format,
}

/// Messages on their way to one client.
#[derive(Debug)]
pub(crate) struct Output<W> {
    io: W,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    pub(crate) fn new(io: W) -> Self {
        Self { io, buffer: BytesMut::new() }
    }

    /// Where rows are written directly.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    pub(crate) fn is_due(&self) -> bool {
        self.buffer.len() >= FLUSH_BYTES
    }

    pub(crate) async fn flush(&mut self) -> std::io::Result<()> {
        while !self.buffer.is_empty() {
            if self.io.write_buf(&mut self.buffer).await? == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
        }
        self.io.flush().await?;
        if self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
        Ok(())
    }

    pub(crate) async fn close(&mut self) -> std::io::Result<()> {
        self.flush().await?;
        self.io.shutdown().await
    }

    fn put(&mut self, message: &impl Message) {
        let start = self.buffer.len();
        if let Err(error) = message.encode(&mut self.buffer) {
            // Every text is bounded where it is put in, so this is a fault of this crate.
            self.buffer.truncate(start);
            tracing::error!(%error, "a message could not be encoded");
        }
    }

    pub(crate) fn negotiate_protocol(&mut self, version: i32, unsupported: Vec<String>) {
        self.put(&NegotiateProtocolVersion::new(version, unsupported));
    }

    pub(crate) fn authentication_ok(&mut self) {
        self.put(&Authentication::Ok);
    }

    /// Asks for a proof by this mechanism.
    pub(crate) fn sasl(&mut self, mechanism: &str) {
        self.put(&Authentication::SASL(vec![mechanism.to_owned()]));
    }

    pub(crate) fn sasl_continue(&mut self, data: Bytes) {
        self.put(&Authentication::SASLContinue(data));
    }

    pub(crate) fn sasl_final(&mut self, data: Bytes) {
        self.put(&Authentication::SASLFinal(data));
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        let value: String = clean(value).chars().take(STATUS_CHARACTERS_MAX).collect();
        self.put(&ParameterStatus::new(clean(name), value));
    }

    pub(crate) fn backend_key(&mut self, key: &CancelKey) {
        self.put(&BackendKeyData::new(key.process_id, SecretKey::Bytes(key.secret.clone())));
    }

    pub(crate) fn ready_for_query(&mut self, status: TransactionStatus) {
        self.put(&ReadyForQuery::new(status));
    }

    pub(crate) fn row_description(&mut self, columns: &[ColumnHeader]) {
        let field = |column: &ColumnHeader| {
            FieldDescription::new(
                clean(&column.name),
                NO_TABLE,
                NO_COLUMN,
                column.type_oid,
                column.type_size,
                NO_MODIFIER,
                column.format.code(),
            )
        };
        self.put(&RowDescription::new(columns.iter().map(field).collect()));
    }

    pub(crate) fn parameter_description(&mut self, type_oids: Vec<u32>) {
        self.put(&ParameterDescription::new(type_oids));
    }

    pub(crate) fn no_data(&mut self) {
        self.put(&NoData::new());
    }

    pub(crate) fn parse_complete(&mut self) {
        self.put(&ParseComplete::new());
    }

    pub(crate) fn bind_complete(&mut self) {
        self.put(&BindComplete::new());
    }

    pub(crate) fn close_complete(&mut self) {
        self.put(&CloseComplete::new());
    }

    pub(crate) fn portal_suspended(&mut self) {
        self.put(&PortalSuspended::new());
    }

    pub(crate) fn command_complete(&mut self, tag: &str) {
        self.put(&CommandComplete::new(clean(tag)));
    }

    pub(crate) fn empty_query(&mut self) {
        self.put(&EmptyQueryResponse::new());
    }

    pub(crate) fn error(&mut self, error: &PgError, severity: Severity) {
        telemetry::error_sent(error.state);
        let mut response: ErrorResponse = error.response(severity);
        for (_, value) in &mut response.fields {
            *value = clean(value);
        }
        self.put(&response);
    }

    pub(crate) fn notice(&mut self, severity: &str, state: SqlState, message: &str) {
        let fields = [(b'S', severity), (b'V', severity), (b'C', state.code()), (b'M', message)];
        let fields = fields.into_iter().map(|(field, value)| (field, clean(value))).collect();
        self.put(&NoticeResponse::new(fields));
    }
}

fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
