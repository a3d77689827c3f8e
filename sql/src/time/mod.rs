//! Times, time zones and intervals as people write them, read the way PostgreSQL reads them.
//!
//! Pure: what `'now'` means comes in as a number.

pub(crate) mod interval;
pub(crate) mod literal;
pub(crate) mod zone;
