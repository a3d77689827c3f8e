//! Regular expressions that clients send, for whole names. What one may take is bounded. Pure.

use regex::{Regex, RegexBuilder};

/// Longest text of a regular expression, in bytes.
pub(crate) const PATTERN_LENGTH_MAX: usize = 1000;
/// Memory of a compiled expression, in bytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// Compiles an expression that matches a name as a whole.
///
/// # Errors
/// Why it is no expression, or too large.
pub(crate) fn whole_name(text: &str) -> Result<Regex, String> {
    if text.len() > PATTERN_LENGTH_MAX {
        return Err(format!("it has {} bytes, at most {PATTERN_LENGTH_MAX} are allowed", text.len()));
    }
    let whole = format!("^(?:{text})$");
    let compiled =
        RegexBuilder::new(&whole).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build();
    compiled.map_err(|error| error.to_string())
}
