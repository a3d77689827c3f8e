//! The first packet of a connection: a request for encryption, for a cancel, or for a session.
//!
//! Pure; the limits of the frame have been checked before.

use bytes::Bytes;

use super::cursor::{Cursor, MessageError};

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
const PROTOCOL_MAJOR: u32 = 3;

/// What a client can ask for first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartupPacket {
    Ssl,
    GssEncryption,
    Cancel(CancelKey),
    Session(StartupRequest),
    UnsupportedProtocol { major: u32, minor: u32 },
}

/// Names a session to cancel; the secret proves that the client owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CancelKey {
    pub(crate) process_id: i32,
    pub(crate) secret: Bytes,
}

/// The parameters of a session, in the order in which they came.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StartupRequest {
    pub(crate) minor_version: u32,
    pub(crate) parameters: Vec<(String, String)>,
}

impl StartupPacket {
    pub(crate) fn decode(body: Bytes) -> Result<Self, MessageError> {
        let mut body = Cursor::new(body);
        let code = body.u32()?;
        match code {
            SSL_REQUEST => Ok(Self::Ssl),
            GSSENC_REQUEST => Ok(Self::GssEncryption),
            CANCEL_REQUEST => cancel(body),
            _ if code >> 16 == PROTOCOL_MAJOR => session(body, code & 0xffff),
            _ => Ok(Self::UnsupportedProtocol { major: code >> 16, minor: code & 0xffff }),
        }
    }
}

fn cancel(mut body: Cursor) -> Result<StartupPacket, MessageError> {
    let process_id = body.i32()?;
    let secret = body.rest();
    Ok(StartupPacket::Cancel(CancelKey { process_id, secret }))
}

fn session(mut body: Cursor, minor_version: u32) -> Result<StartupPacket, MessageError> {
    let mut parameters = Vec::new();
    loop {
        let name = body.string()?;
        if name.is_empty() {
            break;
        }
        parameters.push((name, body.string()?));
    }
    body.finish()?;
    Ok(StartupPacket::Session(StartupRequest { minor_version, parameters }))
}

/// The settings in an `options` parameter: `-c name=value`, `-cname=value` and `--name=value`, where a
/// backslash keeps a space. Other words are given back as they are, for the message.
pub(crate) fn parse_options(options: &str) -> Result<Vec<(String, String)>, String> {
    let mut words = split_options(options).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(setting), _) => setting.to_owned(),
            (None, Some("")) => words.next().unwrap_or_default(),
            (None, Some(setting)) => setting.to_owned(),
            (None, None) => return Err(word),
        };
        let Some((name, value)) = setting.split_once('=') else { return Err(setting) };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn split_options(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next()),
            space if space.is_ascii_whitespace() => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(code: u32, rest: &[u8]) -> Result<StartupPacket, MessageError> {
        StartupPacket::decode([&code.to_be_bytes()[..], rest].concat().into())
    }

    #[test]
    fn each_first_packet_is_told_apart() {
        assert_eq!(decode(SSL_REQUEST, b""), Ok(StartupPacket::Ssl));
        assert_eq!(decode(GSSENC_REQUEST, b""), Ok(StartupPacket::GssEncryption));
        let key = CancelKey { process_id: 7, secret: Bytes::from_static(b"abcd") };
        assert_eq!(decode(CANCEL_REQUEST, b"\0\0\0\x07abcd"), Ok(StartupPacket::Cancel(key)));
        let unsupported = StartupPacket::UnsupportedProtocol { major: 2, minor: 0 };
        assert_eq!(decode(2 << 16, b""), Ok(unsupported));
        let parameters = vec![("user".to_owned(), "u".to_owned()), ("database".to_owned(), String::new())];
        let request = StartupRequest { minor_version: 2, parameters };
        assert_eq!(decode((3 << 16) + 2, b"user\0u\0database\0\0\0"), Ok(StartupPacket::Session(request)));
    }

    #[test]
    fn parameters_that_are_cut_short_are_an_error() {
        let whole = b"user\0u\0\0";
        for cut in 0..whole.len() {
            assert!(decode(3 << 16, &whole[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(3 << 16, b"user\0u\0\0x").is_err());
    }

    #[test]
    fn options_are_settings_in_any_of_three_forms() {
        let parsed =
            parse_options(r"-c statement_timeout=5s  -csearch_path=a\ b --extra-float-digits=2").unwrap();
        let expected = [("statement_timeout", "5s"), ("search_path", "a b"), ("extra_float_digits", "2")];
        assert_eq!(parsed, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(parse_options(""), Ok(Vec::new()));
        assert_eq!(parse_options("-x"), Err("-x".to_owned()));
        assert_eq!(parse_options("-c"), Err(String::new()));
    }
}
