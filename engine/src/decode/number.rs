//! Exact numbers out of JSON number text. Pure.
//!
//! Invariant: a number converts only if the result equals it exactly; the one exception is a
//! fraction in a double, which becomes the nearest double as every JSON reader does. No allocation
//! and no loop is sized by an exponent that the text names.

use datafusion::arrow::datatypes::i256;

/// Digits that a Decimal256 holds.
pub const NUMERIC_DIGITS_MAX: u32 = 76;
/// Fraction digits that a numeric column keeps at most; the other digits stay free for integers.
pub const NUMERIC_SCALE_MAX: u32 = 38;
/// Integers up to this size are exact in a double.
const EXACT_IN_DOUBLE_MAX: u64 = 1 << 53;

/// How large an integer literal is, which decides the type of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// An integer that a double holds exactly.
    Integer,
    /// An integer that fits 64 bits, but not a double.
    WideInteger,
    /// An integer beyond 64 bits.
    HugeInteger,
    /// A literal with a fraction or an exponent.
    Fraction,
}

/// A JSON number as sign, digits without leading or trailing zeros, and a power of ten.
struct Decimal<'a> {
    is_negative: bool,
    integer_digits: &'a str,
    fraction_digits: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn split(text: &'a str) -> Self {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, saturating_exponent(exponent)),
            None => (text, 0),
        };
        let (integer_digits, fraction_digits) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Self { is_negative, integer_digits, fraction_digits, exponent }
    }

    /// The digits, most significant first, leading zeros included.
    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.integer_digits.bytes().chain(self.fraction_digits.bytes()).map(|digit| digit - b'0')
    }

    fn digit_count(&self) -> usize {
        self.integer_digits.len() + self.fraction_digits.len()
    }

    /// Zeros at the end of the digits, which are no digits that a scale has to hold.
    fn trailing_zeros(&self) -> usize {
        let zeros = |digits: &str| digits.bytes().rev().take_while(|digit| *digit == b'0').count();
        let in_fraction = zeros(self.fraction_digits);
        if in_fraction < self.fraction_digits.len() {
            return in_fraction;
        }
        in_fraction + zeros(self.integer_digits)
    }

    fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == 0)
    }

    /// The power of ten of the last digit that is not a trailing zero.
    fn last_digit_power(&self) -> i64 {
        let fraction = i64::try_from(self.fraction_digits.len()).unwrap_or(i64::MAX);
        let zeros = i64::try_from(self.trailing_zeros()).unwrap_or(i64::MAX);
        self.exponent.saturating_sub(fraction).saturating_add(zeros)
    }
}

/// An exponent too long for 64 bits is as far out of reach as the largest one that fits.
fn saturating_exponent(text: &str) -> i64 {
    let is_negative = text.starts_with('-');
    text.trim_start_matches('+').parse().unwrap_or(if is_negative { i64::MIN / 4 } else { i64::MAX / 4 })
}

pub fn kind(text: &str) -> NumberKind {
    if text.contains(['.', 'e', 'E']) {
        return NumberKind::Fraction;
    }
    match text.parse::<i64>() {
        Ok(value) if value.unsigned_abs() <= EXACT_IN_DOUBLE_MAX => NumberKind::Integer,
        Ok(_) => NumberKind::WideInteger,
        Err(_) => NumberKind::HugeInteger,
    }
}

/// Fraction digits that `text` needs to be held exactly.
pub fn scale(text: &str) -> u32 {
    let decimal = Decimal::split(text);
    if decimal.is_zero() {
        return 0;
    }
    u32::try_from(decimal.last_digit_power().saturating_neg().max(0)).unwrap_or(u32::MAX)
}

/// The number times 10^`scale`, if that is an integer of at most 76 digits.
pub fn to_numeric(text: &str, scale: u32) -> Option<i256> {
    let decimal = Decimal::split(text);
    if decimal.is_zero() {
        return Some(i256::ZERO);
    }
    let padding = decimal.last_digit_power().saturating_add(i64::from(scale));
    let padding = u32::try_from(padding).ok()?;
    let kept = decimal.digit_count() - decimal.trailing_zeros();
    let mut value = i256::ZERO;
    let mut digits_seen = 0u32;
    for digit in decimal.digits().take(kept) {
        if digits_seen > 0 || digit != 0 {
            digits_seen += 1;
        }
        if digits_seen > NUMERIC_DIGITS_MAX {
            return None;
        }
        value = push_digit(value, digit)?;
    }
    if digits_seen.saturating_add(padding) > NUMERIC_DIGITS_MAX {
        return None;
    }
    for _ in 0..padding {
        value = push_digit(value, 0)?;
    }
    Some(if decimal.is_negative { value.wrapping_neg() } else { value })
}

fn push_digit(value: i256, digit: u8) -> Option<i256> {
    value.checked_mul(i256::from_i128(10))?.checked_add(i256::from_i128(i128::from(digit)))
}

/// The number as a 64-bit integer, if it is one; `1.0` and `5e2` are.
pub fn to_bigint(text: &str) -> Option<i64> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    to_numeric(text, 0)?.to_i128().and_then(|value| i64::try_from(value).ok())
}

/// The nearest double. Integers must be exact, and neither overflow nor underflow is.
pub fn to_double(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    if !value.is_finite() || (value == 0.0 && !Decimal::split(text).is_zero()) {
        return None;
    }
    let is_exact = match kind(text) {
        NumberKind::Integer | NumberKind::Fraction => true,
        NumberKind::WideInteger | NumberKind::HugeInteger => is_exact_integer(value, text),
    };
    is_exact.then_some(value)
}

fn is_exact_integer(value: f64, text: &str) -> bool {
    let Ok(integer) = text.parse::<i128>() else { return false };
    // The cast saturates, so the largest double of an i128 must not pass for i128::MAX.
    value.abs() < 1e38 && value as i128 == integer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_up_to_sixty_four_bits() {
        for text in ["9007199254740993", "9223372036854775807", "-9223372036854775808", "0", "-0"] {
            let exact: i64 = text.parse().unwrap();
            assert_eq!(to_bigint(text), Some(exact), "{text}");
        }
        assert_eq!(to_bigint("18446744073709551615"), None);
        assert_eq!(to_bigint("1.0"), Some(1));
        assert_eq!(to_bigint("5e2"), Some(500));
        assert_eq!(to_bigint("1.5"), None);
        assert_eq!(to_bigint("1e400"), None);
    }

    #[test]
    fn numbers_beyond_sixty_four_bits_are_exact_numerics() {
        let expected = i256::from_i128(327_267_367_867_168_100_000);
        assert_eq!(to_numeric("327267367867168100000", 0), Some(expected));
        assert_eq!(to_numeric("-12.50", 2), Some(i256::from_i128(-1250)));
        assert_eq!(to_numeric("12.505", 2), None);
        assert_eq!(to_numeric("1.5e-3", 4), Some(i256::from_i128(15)));
        assert_eq!(to_numeric("0e999999999999999999999", 4), Some(i256::ZERO));
        assert_eq!(to_numeric("1e999999999999999999999", 4), None);
        assert_eq!(to_numeric(&"9".repeat(76), 0), i256::from_string(&"9".repeat(76)));
        assert_eq!(to_numeric(&"9".repeat(77), 0), None);
    }

    #[test]
    fn doubles_refuse_what_they_would_change() {
        assert_eq!(to_double("0.1"), Some(0.1));
        assert_eq!(to_double("1e400"), None);
        assert_eq!(to_double("1e-400"), None);
        assert_eq!(to_double("0e-400"), Some(0.0));
        assert_eq!(to_double("9007199254740993"), None);
        assert_eq!(to_double("9007199254740994"), Some(9_007_199_254_740_994.0));
    }

    #[test]
    fn scale_counts_the_digits_that_matter() {
        let cases = [("1.50", 1), ("1", 0), ("1.5e-3", 4), ("1.5e3", 0), ("0.000", 0), ("100e-2", 0)];
        for (text, expected) in cases {
            assert_eq!(scale(text), expected, "{text}");
        }
    }
}
