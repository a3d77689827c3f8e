//! What a client can say after startup, decoded from a frame.
//!
//! Pure. The pgwire crate has such a decoder too, but it trusts lengths inside the body and panics on
//! those that lie; a test holds this one against that crate's encoder.

use bytes::Bytes;

use super::cursor::{Cursor, MessageError};
use super::frame::Frame;
use crate::encode::Format;

/// A frontend message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frontend {
    Query(String),
    Parse(Parse),
    Bind(Bind),
    Describe(Target),
    Close(Target),
    /// At most `max_rows` rows; None = all.
    Execute {
        portal: String,
        max_rows: Option<u32>,
    },
    Flush,
    Sync,
    Terminate,
    /// COPY data, done or fail outside a COPY: ignored, as PostgreSQL does.
    Copy,
    /// A function call or a password: nothing here asks for them.
    Unexpected {
        what: &'static str,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parse {
    pub(crate) name: String,
    pub(crate) text: String,
    /// 0 = the server decides.
    pub(crate) parameter_types: Vec<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) parameter_formats: Vec<Format>,
    /// None = NULL.
    pub(crate) parameters: Vec<Option<Bytes>>,
    pub(crate) result_formats: Vec<Format>,
}

/// What Describe and Close are about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement(String),
    Portal(String),
}

impl Frontend {
    /// Whether an error in this message, or before it, is skipped over up to the next Sync.
    pub(crate) fn is_extended(tag: u8) -> bool {
        matches!(tag, b'P' | b'B' | b'D' | b'C' | b'E' | b'H')
    }

    pub(crate) fn decode(frame: Frame) -> Result<Self, MessageError> {
        let mut body = Cursor::new(frame.body);
        let message = match frame.tag {
            b'Q' => Self::Query(body.string()?),
            b'P' => Self::Parse(Parse::decode(&mut body)?),
            b'B' => Self::Bind(Bind::decode(&mut body)?),
            b'D' => Self::Describe(Target::decode(&mut body)?),
            b'C' => Self::Close(Target::decode(&mut body)?),
            b'E' => Self::Execute { portal: body.string()?, max_rows: max_rows(body.i32()?) },
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            b'd' | b'c' | b'f' => return Ok(Self::Copy),
            b'F' => return Ok(Self::Unexpected { what: "a function call" }),
            b'p' => return Ok(Self::Unexpected { what: "a password" }),
            tag => return Err(MessageError::UnknownType { tag }),
        };
        body.finish()?;
        Ok(message)
    }
}

/// Zero and, as in PostgreSQL, negative counts mean all rows.
fn max_rows(count: i32) -> Option<u32> {
    u32::try_from(count).ok().filter(|count| *count > 0)
}

impl Parse {
    fn decode(body: &mut Cursor) -> Result<Self, MessageError> {
        let (name, text) = (body.string()?, body.string()?);
        let count = body.count(4)?;
        let parameter_types = (0..count).map(|_| body.u32()).collect::<Result<_, _>>()?;
        Ok(Self { name, text, parameter_types })
    }
}

impl Bind {
    fn decode(body: &mut Cursor) -> Result<Self, MessageError> {
        let (portal, statement) = (body.string()?, body.string()?);
        let parameter_formats = formats(body)?;
        let count = body.count(4)?;
        let parameters = (0..count).map(|_| body.value()).collect::<Result<_, _>>()?;
        let result_formats = formats(body)?;
        Ok(Self { portal, statement, parameter_formats, parameters, result_formats })
    }
}

fn formats(body: &mut Cursor) -> Result<Vec<Format>, MessageError> {
    let count = body.count(2)?;
    (0..count)
        .map(|_| match body.i16()? {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            code => Err(MessageError::FormatCode { code }),
        })
        .collect()
}

impl Target {
    fn decode(body: &mut Cursor) -> Result<Self, MessageError> {
        match body.u8()? {
            b'S' => Ok(Self::Statement(body.string()?)),
            b'P' => Ok(Self::Portal(body.string()?)),
            found => Err(MessageError::Target { found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BytesMut};
    use pgwire::messages::{PgWireFrontendMessage, extendedquery, simplequery};

    use super::*;

    fn decode(tag: u8, body: &[u8]) -> Result<Frontend, MessageError> {
        Frontend::decode(Frame { tag, body: Bytes::copy_from_slice(body) })
    }

    fn encoded(message: &PgWireFrontendMessage) -> (u8, Vec<u8>) {
        let mut buffer = BytesMut::new();
        message.encode(&mut buffer).unwrap();
        let tag = buffer.get_u8();
        assert_eq!(usize::try_from(buffer.get_i32()).unwrap(), buffer.len() + 4);
        (tag, buffer.to_vec())
    }

    fn samples() -> Vec<(u8, Vec<u8>)> {
        let parse = extendedquery::Parse::new(Some("s1".into()), "select $1".into(), vec![20, 0]);
        let bind = extendedquery::Bind::new(
            Some("p1".into()),
            Some("s1".into()),
            vec![1, 0],
            vec![Some(Bytes::from_static(b"abc")), None],
            vec![1],
        );
        [
            PgWireFrontendMessage::Query(simplequery::Query::new("select 1".into())),
            PgWireFrontendMessage::Parse(parse),
            PgWireFrontendMessage::Bind(bind),
            PgWireFrontendMessage::Describe(extendedquery::Describe::new(b'S', Some("s1".into()))),
            PgWireFrontendMessage::Close(extendedquery::Close::new(b'P', None)),
            PgWireFrontendMessage::Execute(extendedquery::Execute::new(None, 50)),
            PgWireFrontendMessage::Sync(extendedquery::Sync::new()),
        ]
        .iter()
        .map(encoded)
        .collect()
    }

    #[test]
    fn messages_of_the_pgwire_encoder_are_read_back() {
        let read: Vec<Frontend> =
            samples().into_iter().map(|(tag, body)| decode(tag, &body).unwrap()).collect();
        let expected = [
            Frontend::Query("select 1".into()),
            Frontend::Parse(Parse {
                name: "s1".into(),
                text: "select $1".into(),
                parameter_types: vec![20, 0],
            }),
            Frontend::Bind(Bind {
                portal: "p1".into(),
                statement: "s1".into(),
                parameter_formats: vec![Format::Binary, Format::Text],
                parameters: vec![Some(Bytes::from_static(b"abc")), None],
                result_formats: vec![Format::Binary],
            }),
            Frontend::Describe(Target::Statement("s1".into())),
            Frontend::Close(Target::Portal(String::new())),
            Frontend::Execute { portal: String::new(), max_rows: Some(50) },
            Frontend::Sync,
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_body_cut_short_or_with_a_byte_too_many_is_an_error() {
        for (tag, body) in samples() {
            for cut in 0..body.len() {
                assert!(decode(tag, &body[..cut]).is_err(), "{} cut at {cut}", char::from(tag));
            }
            let longer = [&body[..], &[0]].concat();
            assert!(matches!(decode(tag, &longer), Err(MessageError::Trailing { left: 1 })));
        }
    }

    #[test]
    fn any_changed_byte_is_read_or_refused_without_a_panic() {
        for (tag, body) in samples() {
            for at in 0..body.len() {
                for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                    let mut changed = body.clone();
                    changed[at] = value;
                    if let Err(error) = decode(tag, &changed) {
                        assert!(!error.to_string().is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn counts_larger_than_their_bytes_are_refused() {
        let lying = [&b"\0\0"[..], &[0, 0], &[0xff, 0xff], &[0; 8]].concat();
        assert_eq!(decode(b'B', &lying), Err(MessageError::Short { wanted: 262_140, left: 8 }));
        let negative = [&b"\0\0"[..], &[0, 0], &[0, 1], &[0xff, 0xff, 0xff, 0xfe], &[0, 0]].concat();
        assert_eq!(decode(b'B', &negative), Err(MessageError::NegativeLength { length: -2 }));
    }

    #[test]
    fn max_rows_of_zero_or_less_means_all() {
        let execute = |count: i32| decode(b'E', &[&b"\0"[..], &count.to_be_bytes()].concat()).unwrap();
        let expected = |max_rows| Frontend::Execute { portal: String::new(), max_rows };
        assert_eq!(execute(0), expected(None));
        assert_eq!(execute(-5), expected(None));
        assert_eq!(execute(i32::MAX), expected(Some(2_147_483_647)));
    }

    #[test]
    fn text_that_is_not_utf8_does_not_end_the_connection() {
        let error = decode(b'Q', b"select '\xff'\0").unwrap_err();
        assert_eq!(error, MessageError::InvalidUtf8 { position: 8 });
        assert!(!error.is_framing());
        assert!(decode(b'Q', b"select 1").unwrap_err().is_framing());
    }
}
