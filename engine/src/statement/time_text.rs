//! Times in the text of parameters.

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::compute::kernels::cast_utils::string_to_datetime;
use strandline_sql::SessionInfo;

use crate::error::{EngineError, ErrorKind};

/// Microseconds since the epoch of a time that a parameter gives as text; without a zone it is in the
/// session's.
///
/// # Errors
/// When the text is no time.
pub(crate) fn parse_time(text: &str, session: &SessionInfo) -> Result<i64, EngineError> {
    let invalid = || {
        let message = format!("invalid input syntax for type timestamp with time zone: \"{text}\"");
        EngineError::new(ErrorKind::InvalidDatetime, message)
    };
    let zone: Tz = session.time_zone.parse().map_err(|_| invalid())?;
    let time = string_to_datetime(&zone, text.trim()).map_err(|_| invalid())?;
    Ok(time.timestamp_micros())
}
