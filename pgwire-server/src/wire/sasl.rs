//! What a client sends while it authenticates, decoded from the body of a message of type `p`. Pure.

use bytes::Bytes;

use super::cursor::{Cursor, MessageError};

/// The first of them: the mechanism that the client chose, and its first words in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SaslInitialResponse {
    pub(crate) mechanism: String,
    pub(crate) data: Bytes,
}

impl SaslInitialResponse {
    pub(crate) fn decode(body: Bytes) -> Result<Self, MessageError> {
        let mut body = Cursor::new(body);
        let mechanism = body.string()?;
        // Without a first word the length is -1, and there is nothing here that could be answered.
        let length = body.i32()?;
        let length = usize::try_from(length).map_err(|_| MessageError::NegativeLength { length })?;
        let data = body.take(length)?;
        body.finish()?;
        Ok(Self { mechanism, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_response_is_read_and_any_other_bytes_are_refused() {
        let whole = b"SCRAM-SHA-256\0\0\0\0\x03n,,";
        let decode = |bytes: &[u8]| SaslInitialResponse::decode(Bytes::copy_from_slice(bytes));
        let (mechanism, data) = ("SCRAM-SHA-256".to_owned(), Bytes::from_static(b"n,,"));
        assert_eq!(decode(whole), Ok(SaslInitialResponse { mechanism, data }));
        for cut in 0..whole.len() {
            assert!(decode(&whole[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(b"SCRAM-SHA-256\0\xff\xff\xff\xff").is_err());
        assert!(decode(b"SCRAM-SHA-256\0\x7f\xff\xff\xffn,,").is_err());
        assert!(decode(&[&whole[..], b"x"].concat()).is_err());
    }
}
