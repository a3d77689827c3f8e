//! Walks the shape of a request before it is decoded, and refuses what lies about its own size.
//!
//! The message codec reserves memory by the counts that it reads. A count is therefore only passed
//! on to it after every element that it announces was found in the bytes, and after all counts of
//! the request together were found to be within [`ELEMENTS_MAX`]. Pure.
//!
//! Invariant: `shape` describes every version that `api` serves; a test holds the shapes against
//! the codec in both directions.

pub(crate) mod shape;
#[cfg(test)]
mod tests;

use thiserror::Error;

use self::shape::{Element, Field, Kind};

/// Array elements and tagged fields of one request, all levels together. An element takes about
/// 100 bytes when decoded, whatever it takes on the wire.
pub(crate) const ELEMENTS_MAX: usize = 500_000;
/// The longest text, in bytes, in any encoding, as in Kafka.
const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Why a request was refused before it was decoded.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum MalformedRequest {
    #[error("request ends {missing} bytes early")]
    Truncated { missing: usize },
    #[error("count {count} is more than the {remaining} bytes that are left can hold")]
    CountTooLarge { count: usize, remaining: usize },
    #[error("request has more than {ELEMENTS_MAX} elements")]
    TooManyElements,
    #[error("length {length} is negative")]
    NegativeLength { length: i32 },
    #[error("text has {length} bytes, more than {STRING_BYTES_MAX}")]
    StringTooLong { length: usize },
    #[error("null where the protocol has no null")]
    UnexpectedNull,
    #[error("variable-length integer is longer than 32 bits")]
    VarintTooLong,
}

/// How strings, arrays and structs of one request version are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Fixed-width lengths, no tagged fields.
    Classic,
    /// Variable-width lengths, tagged fields at the end of every struct (KIP-482).
    Flexible,
}

/// Checks that `body` has the shape of `fields` at `version`, and gives its array elements and tagged fields.
/// Bytes after it are allowed, as Kafka's own broker does.
pub(crate) fn check(
    fields: &[Field],
    version: i16,
    encoding: Encoding,
    body: &[u8],
) -> Result<usize, MalformedRequest> {
    let mut walker = Walker::new(body, version, encoding);
    walker.walk_struct(fields)?;
    Ok(ELEMENTS_MAX - walker.elements_left)
}

/// Reads through bytes without keeping anything of them.
pub(crate) struct Walker<'a> {
    bytes: &'a [u8],
    version: i16,
    encoding: Encoding,
    elements_left: usize,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(bytes: &'a [u8], version: i16, encoding: Encoding) -> Self {
        Self { bytes, version, encoding, elements_left: ELEMENTS_MAX }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn walk_struct(&mut self, fields: &[Field]) -> Result<(), MalformedRequest> {
        let version = self.version;
        for field in fields.iter().filter(|field| (field.from..=field.to).contains(&version)) {
            self.walk_field(&field.kind)?;
        }
        match self.encoding {
            Encoding::Classic => Ok(()),
            Encoding::Flexible => self.walk_tagged_fields(),
        }
    }

    fn walk_field(&mut self, kind: &Kind) -> Result<(), MalformedRequest> {
        match kind {
            Kind::Bool => self.take(1).map(drop),
            Kind::Fixed(size) => self.take(*size).map(drop),
            Kind::String => self.string()?.map(drop).ok_or(MalformedRequest::UnexpectedNull),
            Kind::NullableString => self.string().map(drop),
            Kind::NullableBytes => self.take_counted_bytes().map(drop),
            Kind::Bytes => self.take_counted_bytes()?.ok_or(MalformedRequest::UnexpectedNull),
            Kind::Array(element) => self.walk_array(element)?.ok_or(MalformedRequest::UnexpectedNull),
            Kind::NullableArray(element) => self.walk_array(element).map(drop),
            Kind::NullableStruct(fields) => match self.array()? {
                [1] => self.walk_struct(fields),
                [_] => Ok(()),
            },
        }
    }

    fn walk_array(&mut self, element: &Element) -> Result<Option<()>, MalformedRequest> {
        let Some(count) = self.count_of_four_bytes()? else {
            return Ok(None);
        };
        // An element has at least one byte, so this bounds the loop by the bytes of the request.
        if count > self.remaining() {
            return Err(MalformedRequest::CountTooLarge { count, remaining: self.remaining() });
        }
        self.spend(count)?;
        for _ in 0..count {
            match element {
                Element::Scalar(kind) => self.walk_field(kind)?,
                Element::Struct(fields) => self.walk_struct(fields)?,
            }
        }
        Ok(Some(()))
    }

    /// Tagged fields are opaque here: no request version that is served has a known tagged field
    /// with an array in it.
    pub(crate) fn walk_tagged_fields(&mut self) -> Result<(), MalformedRequest> {
        let count = self.varint()?;
        if count > self.remaining() {
            return Err(MalformedRequest::CountTooLarge { count, remaining: self.remaining() });
        }
        self.spend(count)?;
        for _ in 0..count {
            self.varint()?;
            let size = self.varint()?;
            self.take(size)?;
        }
        Ok(())
    }

    fn spend(&mut self, elements: usize) -> Result<(), MalformedRequest> {
        let left = self.elements_left.checked_sub(elements).ok_or(MalformedRequest::TooManyElements)?;
        self.elements_left = left;
        Ok(())
    }

    /// A string of the request's encoding.
    fn string(&mut self) -> Result<Option<&'a [u8]>, MalformedRequest> {
        let length = match self.encoding {
            Encoding::Classic => return self.classic_string(),
            Encoding::Flexible => self.varint()?.checked_sub(1),
        };
        if let Some(length) = length.filter(|length| *length > STRING_BYTES_MAX) {
            return Err(MalformedRequest::StringTooLong { length });
        }
        length.map(|length| self.take(length)).transpose()
    }

    /// A string with a length of two bytes, whatever the request's encoding.
    pub(crate) fn classic_string(&mut self) -> Result<Option<&'a [u8]>, MalformedRequest> {
        match i16::from_be_bytes(self.array()?) {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length)
                    .map_err(|_| MalformedRequest::NegativeLength { length: i32::from(length) })?;
                self.take(length).map(Some)
            }
        }
    }

    fn take_counted_bytes(&mut self) -> Result<Option<()>, MalformedRequest> {
        let Some(length) = self.count_of_four_bytes()? else {
            return Ok(None);
        };
        self.take(length).map(|_| Some(()))
    }

    /// The length of bytes or of an array: four bytes, or a varint that is one higher. `None` = null.
    fn count_of_four_bytes(&mut self) -> Result<Option<usize>, MalformedRequest> {
        match self.encoding {
            Encoding::Flexible => Ok(self.varint()?.checked_sub(1)),
            Encoding::Classic => match i32::from_be_bytes(self.array()?) {
                -1 => Ok(None),
                length => {
                    usize::try_from(length).map(Some).map_err(|_| MalformedRequest::NegativeLength { length })
                }
            },
        }
    }

    fn varint(&mut self) -> Result<usize, MalformedRequest> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let value = u32::try_from(value).map_err(|_| MalformedRequest::VarintTooLong)?;
                return Ok(value as usize);
            }
        }
        Err(MalformedRequest::VarintTooLong)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedRequest> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take returns as many bytes as it was asked for"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], MalformedRequest> {
        match self.bytes.split_at_checked(length) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(MalformedRequest::Truncated { missing: length - self.bytes.len() }),
        }
    }
}
