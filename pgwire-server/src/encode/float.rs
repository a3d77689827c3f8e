//! float4 and float8 as text, as PostgreSQL prints them for each `extra_float_digits`.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};

/// Significant digits of each type that `extra_float_digits` is added to, and from which decimal
/// exponent on the shortest form is printed with an exponent (float.h's DBL_DIG and FLT_DIG).
const FLOAT8_DIGITS: i32 = 15;
const FLOAT4_DIGITS: i32 = 6;

pub(crate) fn write_float8(value: f64, extra_digits: i32, out: &mut BytesMut) {
    if let Some(name) = special(value) {
        return out.put_slice(name);
    }
    if extra_digits > 0 {
        return write_shortest(&format!("{value:e}"), FLOAT8_DIGITS, out);
    }
    let precision = precision(FLOAT8_DIGITS + extra_digits);
    write_rounded(&format!("{value:.*e}", precision - 1), precision, out);
}

pub(crate) fn write_float4(value: f32, extra_digits: i32, out: &mut BytesMut) {
    if let Some(name) = special(f64::from(value)) {
        return out.put_slice(name);
    }
    if extra_digits > 0 {
        return write_shortest(&format!("{value:e}"), FLOAT4_DIGITS, out);
    }
    let precision = precision(FLOAT4_DIGITS + extra_digits);
    write_rounded(&format!("{value:.*e}", precision - 1), precision, out);
}

fn precision(digits: i32) -> usize {
    usize::try_from(digits).unwrap_or(0).max(1)
}

fn special(value: f64) -> Option<&'static [u8]> {
    if value.is_nan() {
        Some(b"NaN")
    } else if value == f64::INFINITY {
        Some(b"Infinity")
    } else if value == f64::NEG_INFINITY {
        Some(b"-Infinity")
    } else {
        None
    }
}

/// Rounded digits lose their trailing zeros and go to exponents from `precision` on, as C's %g.
fn write_rounded(scientific: &str, precision: usize, out: &mut BytesMut) {
    let limit = i32::try_from(precision).expect("a precision is at most 15");
    write_digits(scientific, limit, out);
}

fn write_shortest(scientific: &str, exponent_from: i32, out: &mut BytesMut) {
    write_digits(scientific, exponent_from, out);
}

/// Lays out `d.ddde±x` (Rust's form) as PostgreSQL does: plain digits for exponents in
/// `-4..exponent_from`, else with a signed exponent of at least two digits.
fn write_digits(scientific: &str, exponent_from: i32, out: &mut BytesMut) {
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust prints an exponent for {:e}");
    let exponent: i32 = exponent.parse().expect("Rust prints a decimal exponent");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    out.put_slice(sign.as_bytes());
    if (-4..exponent_from).contains(&exponent) {
        write_plain(digits, exponent, out);
    } else {
        write_with_exponent(digits, exponent, out);
    }
}

fn write_plain(digits: &str, exponent: i32, out: &mut BytesMut) {
    if exponent < 0 {
        out.put_slice(b"0.");
        out.put_bytes(b'0', usize::try_from(-exponent - 1).expect("exponent is at least -4"));
        return out.put_slice(digits.as_bytes());
    }
    let integer_digits = usize::try_from(exponent + 1).expect("exponent is not negative");
    if digits.len() <= integer_digits {
        out.put_slice(digits.as_bytes());
        return out.put_bytes(b'0', integer_digits - digits.len());
    }
    let (integer, fraction) = digits.split_at(integer_digits);
    out.put_slice(integer.as_bytes());
    out.put_u8(b'.');
    out.put_slice(fraction.as_bytes());
}

fn write_with_exponent(digits: &str, exponent: i32, out: &mut BytesMut) {
    let (first, rest) = digits.split_at(1);
    out.put_slice(first.as_bytes());
    if !rest.is_empty() {
        out.put_u8(b'.');
        out.put_slice(rest.as_bytes());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "e{sign}{:02}", exponent.unsigned_abs()).expect("a buffer takes any text");
}
