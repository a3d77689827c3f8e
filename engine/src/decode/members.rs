//! The members of a JSON object, one pass, nothing copied. Pure.
//!
//! Invariant: the whole value is checked before its members count: a value with an error anywhere
//! has no members. Reading is iterative, so no depth of nesting can exhaust the stack, and nesting
//! beyond `NESTING_DEPTH_MAX` is an error of that value.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// Arrays and objects inside each other; deeper values are refused, as most clients cannot read them.
pub const NESTING_DEPTH_MAX: usize = 512;

/// Why a value is no JSON object.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error("invalid UTF-8 at byte {position}")]
    InvalidUtf8 { position: usize },
    #[error("empty value, expected a JSON object")]
    Empty,
    #[error("expected a JSON object, found {found}")]
    NotAnObject { found: &'static str },
    #[error("invalid JSON at byte {position}: {reason}")]
    Invalid { position: usize, reason: String },
    #[error("nested deeper than {NESTING_DEPTH_MAX} levels")]
    TooDeep,
}

/// Calls `visit` with each member's name and the raw text of its value, in order, repeats included.
///
/// # Errors
/// When the value is not exactly one JSON object; `visit` may have seen some members by then.
pub fn for_each_member<'a>(
    value: &'a [u8],
    visit: &mut dyn FnMut(Cow<'a, str>, &'a str),
) -> Result<(), JsonError> {
    let text = std::str::from_utf8(value)
        .map_err(|error| JsonError::InvalidUtf8 { position: error.valid_up_to() })?;
    expect_object(text)?;
    let mut scanner = Scanner::new(text);
    scanner.expect(b'{')?;
    if !scanner.take(b'}') {
        loop {
            let name = scanner.string()?;
            scanner.expect(b':')?;
            visit(name, scanner.value()?);
            if scanner.take(b'}') {
                break;
            }
            scanner.expect(b',')?;
        }
    }
    scanner.expect_end()
}

/// Calls `visit` with the raw text of each element of one JSON array, in order.
///
/// # Errors
/// When the text is not exactly one JSON array; `visit` may have seen some elements by then.
pub fn for_each_element<'a>(text: &'a str, visit: &mut dyn FnMut(&'a str)) -> Result<(), JsonError> {
    let mut scanner = Scanner::new(text);
    scanner.expect(b'[')?;
    if !scanner.take(b']') {
        loop {
            visit(scanner.value()?);
            if scanner.take(b']') {
                break;
            }
            scanner.expect(b',')?;
        }
    }
    scanner.expect_end()
}

fn expect_object(text: &str) -> Result<(), JsonError> {
    let first = text.bytes().find(|byte| !is_space(*byte)).ok_or(JsonError::Empty)?;
    if first == b'{' {
        return Ok(());
    }
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Err(JsonError::NotAnObject { found: "text that is not JSON" });
    }
    let found = match first {
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        _ => "a number",
    };
    Err(JsonError::NotAnObject { found })
}

/// Walks over JSON text one value at a time.
struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest.iter().take_while(|byte| is_space(**byte)).count();
        self.text.as_bytes().get(self.position).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.position += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        match self.take(byte) {
            true => Ok(()),
            false => Err(self.invalid(format!("expected '{}'", char::from(byte)))),
        }
    }

    fn expect_end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.invalid("more than one value")),
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.invalid("expected a name"));
        }
        let raw = self.value()?;
        string_text(raw).ok_or_else(|| self.invalid("a name that is no text"))
    }

    /// The text of the next value, checked.
    fn value(&mut self) -> Result<&'a str, JsonError> {
        self.peek();
        let rest = &self.text[self.position..];
        match plain_length(rest.as_bytes()) {
            Some(length) => {
                self.position += length;
                Ok(&rest[..length])
            }
            None => self.any_value(rest),
        }
    }

    /// Skipping a value is iterative in serde_json, however deep it is.
    fn any_value(&mut self, rest: &'a str) -> Result<&'a str, JsonError> {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(self.invalid(reason(&error))),
            None => return Err(self.invalid("expected a value")),
        }
        let raw = &rest[..values.byte_offset()];
        if is_too_deep(raw) {
            return Err(JsonError::TooDeep);
        }
        self.position += raw.len();
        Ok(raw)
    }

    fn invalid(&self, reason: impl Into<String>) -> JsonError {
        JsonError::Invalid { position: self.position, reason: reason.into() }
    }
}

/// The length of a value that needs no closer look, which most are: a string without escapes, a
/// word, an integer. `None` for all others.
fn plain_length(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'"' => {
            let end = bytes[1..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))? + 1;
            (bytes[end] == b'"').then_some(end + 1)
        }
        b'n' => bytes.starts_with(b"null").then_some(4),
        b't' => bytes.starts_with(b"true").then_some(4),
        b'f' => bytes.starts_with(b"false").then_some(5),
        b'-' | b'1'..=b'9' => {
            let digits = bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let is_integer = matches!(bytes.get(1 + digits), Some(b',' | b'}' | b']'));
            (is_integer && (bytes[0] != b'-' || (digits > 0 && bytes[1] != b'0'))).then_some(1 + digits)
        }
        _ => None,
    }
}

/// The error's text without its own position, which counts from the start of the value.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Whether valid JSON text nests deeper than is allowed.
pub fn is_too_deep(raw: &str) -> bool {
    // Every level costs two bytes.
    if raw.len() <= 2 * NESTING_DEPTH_MAX {
        return false;
    }
    let mut depth = 0usize;
    let mut in_string = false;
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_string => {
                bytes.next();
            }
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > NESTING_DEPTH_MAX {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The text of a JSON string literal, borrowed unless it holds escapes; `None` when its escapes are
/// no text (a lone surrogate).
pub fn string_text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(value: &str) -> Result<Vec<(String, String)>, JsonError> {
        let mut members = Vec::new();
        for_each_member(value.as_bytes(), &mut |name, raw| {
            members.push((name.into_owned(), raw.to_owned()));
        })?;
        Ok(members)
    }

    #[test]
    fn what_is_no_object_is_called_by_its_name() {
        let cases = [
            ("not json at all", "text that is not JSON"),
            ("[1", "text that is not JSON"),
            ("[1]", "an array"),
            ("null", "null"),
            (" true", "a boolean"),
            ("-1", "a number"),
            (r#""x""#, "a string"),
        ];
        for (value, found) in cases {
            let error = for_each_member(value.as_bytes(), &mut |_, _| ()).unwrap_err();
            assert_eq!(error.to_string(), format!("expected a JSON object, found {found}"), "{value}");
        }
    }

    #[test]
    fn members_keep_their_text_as_written() {
        let found = members(r#" {"a": 1.50, "b\n":{"x" : [1, 2]},"a":null} "#).unwrap();
        let expected = [("a", "1.50"), ("b\n", r#"{"x" : [1, 2]}"#), ("a", "null")];
        assert_eq!(found, expected.map(|(name, raw)| (name.to_owned(), raw.to_owned())));
    }

    #[test]
    fn what_is_not_one_object_is_an_error() {
        let invalid = [
            "",
            "  ",
            "{}{}",
            "{} x",
            "[1]",
            "3",
            "null",
            r#"{"a":"#,
            r#"{"a":01}"#,
            "{'a':1}",
            r#"{"a":-}"#,
            r#"{"a":-01}"#,
            r#"{"a":1.}"#,
            r#"{"a":1e}"#,
            r#"{"a":nul}"#,
            r#"{"a":nulll}"#,
            r#"{"a":truefalse}"#,
            "{\"a\":\"\n\"}",
            r#"{"a":"\x"}"#,
            r#"{"a":"x}"#,
            r#"{"a":1,}"#,
            r#"{"a":1 2}"#,
            r#"{,}"#,
            r#"{1:2}"#,
            r#"{"a":"b""c":1}"#,
            r#"{"a":[1,]}"#,
        ];
        for value in invalid {
            assert!(members(value).is_err(), "{value}");
        }
        assert!(matches!(
            for_each_member(b"{\"a\":\"\xff\"}", &mut |_, _| {}),
            Err(JsonError::InvalidUtf8 { position: 6 })
        ));
    }

    #[test]
    fn what_is_an_object_is_what_a_whole_parse_accepts() {
        let sample = r#"{"a":-10,"b" : "x\ny","c":[true,{"d":0.5e+1}],"e":null,"f":false}"#;
        let is_object = |text: &str| serde_json::from_str::<serde_json::Map<_, _>>(text).is_ok();
        for end in 0..=sample.len() {
            let prefix = &sample[..end];
            assert_eq!(members(prefix).is_ok(), is_object(prefix), "{prefix}");
        }
        for place in 0..sample.len() {
            for byte in [" ", "\"", "\\", "0", "7", "-", ".", "e", "{", "}", "[", "]", ",", ":", "n", "t"] {
                let changed = format!("{}{byte}{}", &sample[..place], &sample[place + 1..]);
                assert_eq!(members(&changed).is_ok(), is_object(&changed), "{changed}");
                let longer = format!("{}{byte}{}", &sample[..place], &sample[place..]);
                assert_eq!(members(&longer).is_ok(), is_object(&longer), "{longer}");
            }
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_crash() {
        let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(members(&deep(NESTING_DEPTH_MAX)).is_ok());
        assert!(members(&deep(NESTING_DEPTH_MAX + 1)).is_err());
        assert!(members(&deep(100_000)).is_err());
        assert!(members(&"[".repeat(100_000)).is_err());
        assert!(members(&"{\"a\":".repeat(100_000)).is_err());
        let long_string = format!("{{\"a\":\"{}\\\"\"}}", "[".repeat(5_000));
        assert!(members(&long_string).is_ok());
    }
}
