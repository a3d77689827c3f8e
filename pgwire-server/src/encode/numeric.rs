//! numeric: exact text, and the binary form in base 10,000 (PostgreSQL, numeric_send).

use bytes::{BufMut, BytesMut};
use datafusion::arrow::datatypes::i256;

/// The decimal digits of a number without its sign, and where the point stands.
#[derive(Debug)]
pub(crate) struct Digits {
    negative: bool,
    /// At least one digit, at least as many as the scale.
    digits: String,
    scale: usize,
}

const SIGN_POSITIVE: u16 = 0x0000;
const SIGN_NEGATIVE: u16 = 0x4000;
/// Decimal digits per digit of the binary form.
const GROUP: usize = 4;

impl Digits {
    /// The number `unscaled * 10^-scale`.
    pub(crate) fn new(unscaled: i256, scale: i8) -> Self {
        let text = match unscaled.to_i128() {
            Some(small) => small.to_string(),
            None => unscaled.to_string(),
        };
        let negative = text.starts_with('-');
        let mut digits = text.trim_start_matches('-').to_owned();
        if scale < 0 && digits != "0" {
            digits.extend(std::iter::repeat_n('0', usize::from(scale.unsigned_abs())));
        }
        let scale = usize::try_from(scale).unwrap_or(0);
        if digits.len() < scale {
            digits.insert_str(0, &"0".repeat(scale - digits.len()));
        }
        Self { negative, digits, scale }
    }

    fn parts(&self) -> (&str, &str) {
        self.digits.split_at(self.digits.len() - self.scale)
    }

    pub(crate) fn write_text(&self, out: &mut BytesMut) {
        let (integer, fraction) = self.parts();
        if self.negative {
            out.put_u8(b'-');
        }
        out.put_slice(if integer.is_empty() { b"0" } else { integer.as_bytes() });
        if !fraction.is_empty() {
            out.put_u8(b'.');
            out.put_slice(fraction.as_bytes());
        }
    }

    pub(crate) fn write_binary(&self, out: &mut BytesMut) {
        let (integer, fraction) = self.parts();
        let mut groups = groups_of_integer(integer);
        let mut weight = groups.len();
        groups.extend(groups_of_fraction(fraction));
        let leading = groups.iter().take_while(|group| **group == 0).count();
        let significant = groups.iter().rposition(|group| *group != 0).map_or(0, |last| last + 1);
        let groups = groups.get(leading..significant).unwrap_or_default();
        if groups.is_empty() {
            weight = leading + 1;
        }
        // At most 76 + 127 decimal digits come in, so every count here is below 100.
        out.put_u16(u16::try_from(groups.len()).expect("a decimal has few digits"));
        out.put_i16(small(weight) - small(leading) - 1);
        out.put_u16(if self.negative { SIGN_NEGATIVE } else { SIGN_POSITIVE });
        out.put_u16(u16::try_from(self.scale).expect("a scale is below 128"));
        for group in groups {
            out.put_u16(*group);
        }
    }
}

fn small(count: usize) -> i16 {
    i16::try_from(count).expect("a decimal has few digits")
}

fn groups_of_integer(integer: &str) -> Vec<u16> {
    let first = integer.len() % GROUP;
    let (head, rest) = integer.split_at(first);
    let head = (!head.is_empty()).then(|| group_value(head));
    head.into_iter().chain(chunks(rest).map(group_value)).collect()
}

fn groups_of_fraction(fraction: &str) -> Vec<u16> {
    chunks(fraction).map(|chunk| group_value(&format!("{chunk:0<width$}", width = GROUP))).collect()
}

fn chunks(digits: &str) -> impl Iterator<Item = &str> {
    (0..digits.len()).step_by(GROUP).map(|at| &digits[at..digits.len().min(at + GROUP)])
}

fn group_value(digits: &str) -> u16 {
    digits.bytes().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'))
}
