//! What the failures of the `object_store` crate mean for the log.
//!
//! The crate keeps the status of a response, and the error code that the server gave with it, in the
//! text of its errors only, so they are read from there.

use std::error::Error as _;

use object_store::Error;
use object_store::client::HttpError;

use crate::object::StoreError;

/// As much of a server's words as fits a message.
const REASON_BYTES_MAX: usize = 300;

/// Codes that say that no more bytes are taken, whatever their status.
const NO_SPACE_CODES: [&str; 4] =
    ["QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "InsufficientCapacity"];
/// Codes that say that the bucket is not there, with status 404 like an object that is not there.
const NO_BUCKET_CODES: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];
/// Codes of status 400 that are about who asks. Some end without anybody's help on this side.
const CREDENTIAL_CODES: [&str; 6] = [
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "InvalidAccessKeyId",
    "AuthorizationHeaderMalformed",
    "AuthenticationFailed",
];
/// Codes of status 400 for bytes that did not arrive as they were sent.
const BROKEN_TRANSFER_CODES: [&str; 5] =
    ["RequestTimeout", "IncompleteBody", "BadDigest", "Md5Mismatch", "XAmzContentSHA256Mismatch"];

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer<'a> {
    status: u16,
    /// The server's own name for the failure; empty if it gave none.
    code: &'a str,
    message: &'a str,
}

impl<'a> Answer<'a> {
    /// Finds the answer in the text of an error.
    fn find(text: &'a str) -> Option<Self> {
        let (_, rest) = text.split_once("status code: ")?;
        let status = rest.get(..3)?.parse().ok()?;
        let body = rest.split_once(": ").map_or("", |(_, body)| body);
        Some(Self {
            status,
            code: element(body, "Code").unwrap_or_default(),
            message: element(body, "Message").unwrap_or(body),
        })
    }

    fn reason(&self) -> String {
        let words = if self.message.is_empty() { "the server gave no reason" } else { self.message };
        match self.code {
            "" => format!("status {}: {}", self.status, shortened(words)),
            code => format!("status {} {code}: {}", self.status, shortened(words)),
        }
    }

    fn failure(&self, key: String) -> StoreError {
        let (code, reason) = (self.code, self.reason());
        match self.status {
            507 => StoreError::NoSpace { key, reason },
            _ if NO_SPACE_CODES.contains(&code) => StoreError::NoSpace { key, reason },
            401 | 403 => StoreError::Denied { key, reason },
            404 if NO_BUCKET_CODES.contains(&code)
                || self.message.contains("specified bucket does not exist") =>
            {
                StoreError::Invalid { key, reason: "the bucket does not exist".to_owned() }
            }
            404 => StoreError::NotFound { key },
            409 | 412 => StoreError::AlreadyExists { key },
            408 | 429 => StoreError::Unavailable { key, reason },
            400 if CREDENTIAL_CODES.contains(&code) => StoreError::Denied { key, reason },
            400 if BROKEN_TRANSFER_CODES.contains(&code) => StoreError::Unavailable { key, reason },
            // It does not know the request, and will not learn it.
            501 => StoreError::Invalid { key, reason },
            400..=499 => StoreError::Invalid { key, reason },
            _ => StoreError::Unavailable { key, reason },
        }
    }
}

/// The text of an XML element that occurs once.
fn element<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// One line of bounded length.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().find(|(at, _)| *at >= REASON_BYTES_MAX) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

pub(super) fn store_error(key: &str, error: Error) -> StoreError {
    let key = key.to_owned();
    let text = error.to_string();
    if let Some(answer) = Answer::find(&text) {
        return answer.failure(key);
    }
    let reason = shortened(&text);
    match error {
        // Some stores answer a failed put-if-absent as a failed precondition.
        Error::AlreadyExists { .. } | Error::Precondition { .. } => StoreError::AlreadyExists { key },
        Error::NotFound { .. } => StoreError::NotFound { key },
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StoreError::Denied { key, reason },
        Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. } => StoreError::Invalid { key, reason },
        _ if text.contains("redirect without LOCATION") => {
            let reason = "the bucket is in another region; set the region to that of the bucket".to_owned();
            StoreError::Invalid { key, reason }
        }
        _ => {
            let causes = causes(&error);
            let reason = if causes.is_empty() { reason } else { format!("{reason}: {}", shortened(&causes)) };
            StoreError::Unavailable { key, reason }
        }
    }
}

/// [`store_error`] of a put. It asks for no object, so what is not found is where it was sent.
pub(super) fn put_error(key: &str, error: Error) -> StoreError {
    match store_error(key, error) {
        StoreError::NotFound { key } => {
            let reason = "the store has no such bucket, or the endpoint is not that of the store";
            StoreError::Invalid { key, reason: reason.to_owned() }
        }
        other => other,
    }
}

/// The causes of a connection that failed, which its own text leaves out.
fn causes(error: &Error) -> String {
    let mut causes = Vec::new();
    let mut next = http_error(error).and_then(|error| error.source());
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.join(": ")
}

fn http_error(error: &Error) -> Option<&HttpError> {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref::<HttpError>() {
            return Some(found);
        }
        next = cause.source();
    }
    None
}

/// True if a read may have failed because its range has no byte of the object.
pub(super) fn may_be_range(error: &Error) -> bool {
    match (error, Answer::find(&error.to_string())) {
        (_, Some(answer)) => answer.status == 416,
        (Error::Generic { .. }, None) => http_error(error).is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::StoreErrorKind;

    fn failure(status_line: &str, body: &str) -> StoreError {
        let text = format!(
            "Error performing PUT http://127.0.0.1:1/b/key in 2.5ms - Server returned non-2xx status code: {status_line}: {body}"
        );
        store_error("key", Error::Generic { store: "S3", source: text.into() })
    }

    fn xml(code: &str) -> String {
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>so it is</Message></Error>")
    }

    #[test]
    fn failures_are_told_apart_by_status_and_code() {
        use StoreErrorKind::{AlreadyExists, Denied, Invalid, NoSpace, NotFound, Unavailable};
        for (status_line, code, kind) in [
            ("403 Forbidden", "AccessDenied", Denied),
            ("403 Forbidden", "SignatureDoesNotMatch", Denied),
            ("401 Unauthorized", "", Denied),
            ("400 Bad Request", "ExpiredToken", Denied),
            ("400 Bad Request", "RequestTimeout", Unavailable),
            ("400 Bad Request", "InvalidArgument", Invalid),
            ("403 Forbidden", "QuotaExceeded", NoSpace),
            ("507 Insufficient Storage", "XMinioStorageFull", NoSpace),
            ("507 Insufficient Storage", "", NoSpace),
            ("404 Not Found", "NoSuchKey", NotFound),
            ("404 Not Found", "NoSuchBucket", Invalid),
            ("404 Not Found", "ContainerNotFound", Invalid),
            ("409 Conflict", "ConditionalRequestConflict", AlreadyExists),
            ("412 Precondition Failed", "PreconditionFailed", AlreadyExists),
            ("408 Request Timeout", "", Unavailable),
            ("429 Too Many Requests", "SlowDown", Unavailable),
            ("500 Internal Server Error", "InternalError", Unavailable),
            ("501 Not Implemented", "NotImplemented", Invalid),
            ("503 Service Unavailable", "SlowDown", Unavailable),
        ] {
            assert_eq!(failure(status_line, &xml(code)).kind(), kind, "{status_line} {code}");
        }
        assert_eq!(failure("503 Service Unavailable", "").kind(), Unavailable);
    }

    #[test]
    fn a_put_that_is_not_found_went_to_the_wrong_place() {
        let text = "Server returned non-2xx status code: 404 Not Found: ";
        let error = put_error("key", Error::Generic { store: "GCS", source: text.into() });
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        assert!(error.to_string().contains("endpoint"), "{error}");
    }

    #[test]
    fn a_reason_is_one_short_line_of_the_server_s_words() {
        let denied = failure("403 Forbidden", &xml("AccessDenied")).to_string();
        assert_eq!(denied, "access to object key is denied: status 403 AccessDenied: so it is");
        let long = failure("500 Internal Server Error", &"ü\n".repeat(10_000)).to_string();
        assert!(long.len() < 2 * REASON_BYTES_MAX && !long.contains('\n'), "{long}");
    }

    #[test]
    fn only_a_refused_range_is_asked_again() {
        let refused = |status: &str| {
            let text = format!("Server returned non-2xx status code: {status}: ");
            may_be_range(&Error::Generic { store: "S3", source: text.into() })
        };
        assert!(refused("416 Range Not Satisfiable"));
        assert!(!refused("503 Service Unavailable"));
        assert!(!may_be_range(&Error::NotFound { path: "a".to_owned(), source: "no".into() }));
    }
}
