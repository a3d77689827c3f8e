//! ApiVersions (key 18): which APIs and versions this gateway serves.
//!
//! # Behavior
//! - Answers with `api::TABLE`. No features are advertised: clients then use the first version of
//!   the transaction protocol and the classic group protocol.
//! - A client software name or version that is not made of letters, digits, `-` and `.` is
//!   INVALID_REQUEST (KIP-511).
//!
//! # Version notes
//! - The answer's header is version 0 in all versions, so that any client can read it.
//! - A version above ours is answered in the encoding of version 0 with UNSUPPORTED_VERSION and the
//!   versions of this API; the request is not decoded.

use bytes::Bytes;
use futures::future::ready;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};

use super::{Answer, Begin, RequestError, TABLE, answer_with, encode};
use crate::context::Context;
use crate::error_code::ErrorCode;

const CLIENT_SOFTWARE_SINCE: i16 = 3;

pub(super) fn begin(context: Context, body: Bytes) -> Begin {
    answer_with(context, body, |context, request| ready(answer(&context, &request)))
}

fn answer(context: &Context, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    let well_formed =
        is_software_text(&request.client_software_name) && is_software_text(&request.client_software_version);
    if context.version >= CLIENT_SOFTWARE_SINCE && !well_formed {
        return ApiVersionsResponse::default().with_error_code(context.code(ErrorCode::InvalidRequest));
    }
    ApiVersionsResponse::default().with_api_keys(TABLE.iter().map(advertised).collect())
}

/// The answer to a version that is not served.
pub(crate) fn unsupported_version_answer(context: &Context) -> Result<Answer, RequestError> {
    let own = TABLE.iter().find(|api| api.key == ApiKey::ApiVersions);
    let response = ApiVersionsResponse::default()
        .with_error_code(context.code(ErrorCode::UnsupportedVersion))
        .with_api_keys(own.map(advertised).into_iter().collect());
    encode(&response, 0)
}

fn advertised(api: &super::Api) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(api.key as i16)
        .with_min_version(api.advertised_min)
        .with_max_version(api.version_max)
}

/// Letters, digits, `-` and `.`, with a letter or digit at both ends.
fn is_software_text(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric)) && bytes.iter().all(|byte| inner(*byte))
}

#[cfg(test)]
mod tests {
    use super::is_software_text;

    #[test]
    fn software_names_have_no_odd_characters() {
        for text in ["a", "librdkafka", "apache-kafka-java", "2.15.0-RC1"] {
            assert!(is_software_text(text), "{text}");
        }
        for text in ["", "-a", "a.", "a b", "ä", "a/b"] {
            assert!(!is_software_text(text), "{text}");
        }
    }
}
