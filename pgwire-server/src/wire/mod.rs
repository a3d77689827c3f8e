//! The protocol's messages: frames read within bounds, frontend messages decoded from them without
//! trusting an inner length, and a buffered writer for backend messages.
//!
//! Must not know: sessions, SQL, the engine.

pub(crate) mod cursor;
pub(crate) mod frame;
pub(crate) mod frontend;
pub(crate) mod output;
pub(crate) mod sasl;
pub(crate) mod startup_packet;
pub(crate) mod transport;
