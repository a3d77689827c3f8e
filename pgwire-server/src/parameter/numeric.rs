//! numeric parameters: text with an optional exponent, and the binary form in base 10,000.

use datafusion::arrow::datatypes::i256;
use datafusion::scalar::ScalarValue;
use strandline_sql::PgType;

use super::ParameterError;

/// The most decimal digits of Arrow's 128-bit and 256-bit decimals.
const DECIMAL128_DIGITS: usize = 38;
const DECIMAL256_DIGITS: usize = 76;
const SIGN_NEGATIVE: u16 = 0x4000;
const SIGN_POSITIVE: u16 = 0x0000;
/// Decimal digits per digit of the binary form.
const GROUP: usize = 4;

pub(super) fn null() -> ScalarValue {
    ScalarValue::Decimal128(None, 38, 10)
}

/// Digits with a sign and a point, times a power of ten.
pub(super) fn parse(text: &str) -> Result<ScalarValue, ParameterError> {
    let invalid = || ParameterError::text(PgType::Numeric, text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid())?),
        None => (text, 0),
    };
    let (is_negative, mantissa) = match mantissa.as_bytes().first() {
        Some(b'-') => (true, &mantissa[1..]),
        Some(b'+') => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [integer, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    let out_of_range = || ParameterError::range(PgType::Numeric, text);
    let fraction_digits = i64::try_from(fraction.len()).map_err(|_| out_of_range())?;
    build(is_negative, &digits, fraction_digits - i64::from(exponent)).ok_or_else(out_of_range)
}

/// `digits * 10^-scale`, in the narrowest decimal that holds it; None when none does.
fn build(is_negative: bool, digits: &str, scale: i64) -> Option<ScalarValue> {
    let mut digits = digits.trim_start_matches('0').to_owned();
    if scale < 0 && !digits.is_empty() {
        let zeros = usize::try_from(-scale).ok().filter(|zeros| *zeros <= DECIMAL256_DIGITS)?;
        digits.push_str(&"0".repeat(zeros));
    }
    let scale = usize::try_from(scale.max(0)).ok()?;
    let precision = digits.len().max(scale).max(1);
    if precision > DECIMAL256_DIGITS {
        return None;
    }
    let sign = if is_negative { "-" } else { "" };
    let text = if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") };
    let scale = i8::try_from(scale).ok()?;
    if precision <= DECIMAL128_DIGITS {
        Some(ScalarValue::Decimal128(Some(text.parse().ok()?), 38, scale))
    } else {
        Some(ScalarValue::Decimal256(Some(i256::from_string(&text)?), 76, scale))
    }
}

/// The form of numeric_recv: counts, weight, sign, scale, then groups of four digits.
pub(super) fn decode(bytes: &[u8]) -> Result<ScalarValue, ParameterError> {
    let invalid = || ParameterError::binary(PgType::Numeric, bytes.len());
    let fields: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let [count, weight, sign, scale, groups @ ..] = &fields[..] else { return Err(invalid()) };
    let well_formed = bytes.len().is_multiple_of(2)
        && usize::from(*count) == groups.len()
        && matches!(*sign, SIGN_POSITIVE | SIGN_NEGATIVE)
        && groups.iter().all(|group| *group < 10_000);
    if !well_formed {
        return Err(invalid());
    }
    let digits: String = groups.iter().map(|group| format!("{group:04}")).collect();
    // The weight is a signed number: the power of 10,000 of the first group.
    let weight = i64::from(i16::from_be_bytes(weight.to_be_bytes()));
    let group = i64::try_from(GROUP).expect("a small constant");
    let digit_count = i64::try_from(digits.len()).map_err(|_| invalid())?;
    let natural_scale = digit_count - (weight + 1) * group;
    let (digits, scale) = rescale(digits, natural_scale, i64::from(*scale));
    build(*sign == SIGN_NEGATIVE, &digits, scale)
        .ok_or_else(|| ParameterError::range(PgType::Numeric, "a numeric in the binary format"))
}

/// Drops the zeros that fill the last group, or adds those that the display scale names.
fn rescale(mut digits: String, natural: i64, wanted: i64) -> (String, i64) {
    let mut scale = natural;
    while scale > wanted && digits.ends_with('0') {
        digits.pop();
        scale -= 1;
    }
    if digits.is_empty() {
        return (digits, wanted);
    }
    let missing = usize::try_from(wanted - scale).unwrap_or(0);
    if missing <= DECIMAL256_DIGITS {
        digits.push_str(&"0".repeat(missing));
        scale = scale.max(wanted);
    }
    (digits, scale)
}
