//! One step into JSON text: the raw text of a member or of an element. Pure.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::decode::members::{for_each_element, for_each_member, string_text};

/// A member's name, or an element's place; negative places count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Member(&'a str),
    Element(i64),
}

/// The raw text that the step leads to.
pub(super) fn step<'a>(json: &'a str, step: Step<'_>) -> Option<&'a str> {
    match step {
        Step::Member(wanted) => member(json, wanted),
        Step::Element(place) => element(json, place),
    }
}

/// A step of a path such as `{a,0,b}`: digits mean an element where there is an array.
pub(super) fn path_step<'a>(json: &'a str, text: &str) -> Option<&'a str> {
    match json.trim_start().starts_with('[') {
        true => element(json, text.parse().ok()?),
        false => member(json, text),
    }
}

/// What `->>` shows: a string's content, NULL for null, any other value as it was written.
pub(super) fn as_text(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes().first()? {
        b'"' => string_text(raw),
        b'n' => None,
        _ => Some(Cow::Borrowed(raw)),
    }
}

/// What `json_typeof` answers; `None` for text that is not JSON.
pub(super) fn type_name(json: &str) -> Option<&'static str> {
    let json = json.trim_start_matches([' ', '\t', '\n', '\r']);
    let name = match json.as_bytes().first()? {
        b'{' => return for_each_member(json.as_bytes(), &mut |_, _| ()).ok().map(|()| "object"),
        b'[' => return count_elements(json).map(|_| "array"),
        b'"' => "string",
        b't' | b'f' => "boolean",
        b'n' => "null",
        _ => "number",
    };
    serde_json::from_str::<IgnoredAny>(json).ok().map(|_| name)
}

fn member<'a>(json: &'a str, wanted: &str) -> Option<&'a str> {
    let mut found = None;
    for_each_member(json.as_bytes(), &mut |name, raw| {
        if name == wanted {
            found = Some(raw);
        }
    })
    .ok()?;
    found
}

fn element(json: &str, place: i64) -> Option<&str> {
    let mut count = 0;
    let mut found = None;
    let place = match usize::try_from(place) {
        Ok(place) => place,
        Err(_) => count_elements(json)?.checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?,
    };
    for_each_element(json, &mut |raw| {
        if count == place {
            found = Some(raw);
        }
        count += 1;
    })
    .ok()?;
    found
}

/// The elements of an array; `None` for anything else.
pub(super) fn count_elements(json: &str) -> Option<usize> {
    let mut count = 0;
    for_each_element(json, &mut |_| count += 1).ok()?;
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_elements_are_found() {
        let json = r#"{"hg.nginx.org": {"1xx" : [1, {"a":null}]}, "a":1, "a":"two"}"#;
        let inner = step(json, Step::Member("hg.nginx.org")).unwrap();
        assert_eq!(inner, r#"{"1xx" : [1, {"a":null}]}"#);
        let list = step(inner, Step::Member("1xx")).unwrap();
        assert_eq!(step(list, Step::Element(0)), Some("1"));
        assert_eq!(step(list, Step::Element(-1)), Some(r#"{"a":null}"#));
        assert_eq!(step(list, Step::Element(-3)), None);
        assert_eq!(step(list, Step::Element(i64::MIN)), None);
        assert_eq!(step(json, Step::Member("a")), Some(r#""two""#));
        assert_eq!(step(json, Step::Element(0)), None);
        assert_eq!(path_step(list, "1"), Some(r#"{"a":null}"#));
    }

    #[test]
    fn values_have_the_type_names_of_postgres() {
        let cases = [
            (r#" {"a":1} "#, Some("object")),
            ("[1]", Some("array")),
            (r#""x""#, Some("string")),
            ("-1.5e3", Some("number")),
            ("false", Some("boolean")),
            ("null", Some("null")),
            ("nul", None),
            ("[1", None),
            ("1 2", None),
            ("", None),
        ];
        for (json, expected) in cases {
            assert_eq!(type_name(json), expected, "{json}");
        }
    }

    #[test]
    fn text_is_without_quotes_and_null_is_null() {
        assert_eq!(as_text(r#""a\"b""#).as_deref(), Some("a\"b"));
        assert_eq!(as_text("null"), None);
        assert_eq!(as_text("1.50").as_deref(), Some("1.50"));
    }

    #[test]
    fn what_is_not_json_has_no_parts() {
        for json in ["", "x", "[1", r#"{"a":1"#, "[1] 2", &"[".repeat(100_000)] {
            assert_eq!(step(json, Step::Member("a")), None);
            assert_eq!(step(json, Step::Element(0)), None);
        }
    }
}
