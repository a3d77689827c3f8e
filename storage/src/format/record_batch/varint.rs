//! Zigzag varints of the record format, and a reader that checks every step against its bytes.
//!
//! Invariant: a reader never goes past its end, and a value that does not fit its type is refused.

/// Why a value could not be read; the caller adds which record it was in.
pub(super) type Problem = &'static str;

/// Reads forward through bytes that nothing is known about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    pub(super) fn byte(&mut self) -> Result<u8, Problem> {
        let byte = *self.bytes.get(self.position).ok_or("ends inside a field")?;
        self.position += 1;
        Ok(byte)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        if length > self.remaining() {
            return Err("a length goes past the end");
        }
        let start = self.position;
        self.position += length;
        Ok(&self.bytes[start..self.position])
    }

    /// An unsigned base-128 number of at most `bits` bits.
    fn unsigned(&mut self, bits: u32) -> Result<u64, Problem> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift >= bits || (bits - shift < 7 && part >> (bits - shift) != 0) {
                return Err("a varint is too long");
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    pub(super) fn varint(&mut self) -> Result<i32, Problem> {
        let raw = u32::try_from(self.unsigned(32)?).map_err(|_| "a varint is too long")?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    pub(super) fn varlong(&mut self) -> Result<i64, Problem> {
        let raw = self.unsigned(64)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A varint length and that many bytes; -1 is null, which is not the same as empty.
    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, Problem> {
        match self.varint()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| "a length is negative")?;
                self.take(length).map(Some)
            }
        }
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_varlong(out, i64::from(value));
}

pub(super) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// The bytes that [`put_varlong`] (and [`put_varint`]) write for `value`.
pub(super) fn varint_length(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)) as u64;
    let bits = (u64::BITS - raw.leading_zeros()).max(1) as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_have_the_bytes_of_the_protocol() {
        for (value, expected) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, expected, "{value}");
        }
    }

    #[test]
    fn a_varint_of_more_bits_than_its_type_is_refused() {
        let too_wide = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert!(Reader::new(&too_wide, 0).varint().is_err());
        assert!(Reader::new(&too_wide, 0).varlong().is_ok());
        assert!(Reader::new(&[0xff; 11], 0).varlong().is_err());
        assert!(Reader::new(&[0x80; 3], 0).varint().is_err());
    }

    #[test]
    fn null_and_empty_are_told_apart_and_other_negative_lengths_refused() {
        assert_eq!(Reader::new(&[1], 0).nullable_bytes(), Ok(None));
        assert_eq!(Reader::new(&[0], 0).nullable_bytes(), Ok(Some(&[][..])));
        assert!(Reader::new(&[3], 0).nullable_bytes().is_err());
        assert!(Reader::new(&[4, 9], 0).nullable_bytes().is_err());
    }

    proptest! {
        #[test]
        fn varints_round_trip(value: i32) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_length(i64::from(value)));
            let mut reader = Reader::new(&out, 0);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn varlongs_round_trip(value: i64) {
            let mut out = Vec::new();
            put_varlong(&mut out, value);
            prop_assert_eq!(out.len(), varint_length(value));
            let mut reader = Reader::new(&out, 0);
            prop_assert_eq!(reader.varlong(), Ok(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..16), start in 0_usize..20) {
            let _ = Reader::new(&bytes, start).varint();
            let _ = Reader::new(&bytes, start).varlong();
            let _ = Reader::new(&bytes, start).nullable_bytes();
        }
    }
}
