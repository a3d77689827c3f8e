//! ApiVersions (key 18): which APIs and versions this gateway serves.
//!
//! # Behavior
//! - Answers with `api::TABLE`, and with the features of a Kafka 4.1 that tools look at. The feature
//!   `transaction.version` is not among them: clients then use the first version of the transaction
//!   protocol. `group.version` is, as soon as its APIs are in the table.
//! - A client software name or version that is not made of letters, digits, `-` and `.` is
//!   INVALID_REQUEST (KIP-511).
//!
//! # Version notes
//! - 3: features. One whose lowest level is 0 is given as 1 before 4, because clients of that version
//!   refuse 0.
//! - The answer's header is version 0 in all versions, so that any client can read it.
//! - A version above ours is answered in the encoding of version 0 with UNSUPPORTED_VERSION and the
//!   versions of this API; the request is not decoded.

use bytes::Bytes;
use futures::future::ready;
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;

use super::{Answer, Begin, RequestError, TABLE, answer_with, encode, find};
use crate::context::Context;
use crate::error_code::ErrorCode;

const CLIENT_SOFTWARE_SINCE: i16 = 3;
const LEVEL_0_SINCE: i16 = 4;
/// Features never change while a gateway runs.
const FEATURES_EPOCH: i64 = 0;

/// A feature, which is always at its highest level.
struct Feature {
    name: &'static str,
    level_min: i16,
    level_max: i16,
    /// It is there when this API is.
    api: ApiKey,
}

/// With the levels of Apache Kafka 4.1.
const FEATURES: [Feature; 2] = [
    Feature { name: "group.version", level_min: 0, level_max: 1, api: ApiKey::ConsumerGroupHeartbeat },
    Feature { name: "metadata.version", level_min: 7, level_max: 27, api: ApiKey::Metadata },
];

pub(super) fn begin(context: Context, body: Bytes) -> Begin {
    answer_with(context, body, |context, request| ready(answer(&context, &request)))
}

fn answer(context: &Context, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    let well_formed =
        is_software_text(&request.client_software_name) && is_software_text(&request.client_software_version);
    if context.version >= CLIENT_SOFTWARE_SINCE && !well_formed {
        return ApiVersionsResponse::default().with_error_code(context.code(ErrorCode::InvalidRequest));
    }
    let features = || FEATURES.iter().filter(|feature| find(feature.api as i16).is_some());
    ApiVersionsResponse::default()
        .with_api_keys(TABLE.iter().map(advertised).collect())
        .with_supported_features(features().map(|feature| supported(feature, context.version)).collect())
        .with_finalized_features_epoch(FEATURES_EPOCH)
        .with_finalized_features(features().map(finalized).collect())
}

fn supported(feature: &Feature, version: i16) -> SupportedFeatureKey {
    let lowest = if version < LEVEL_0_SINCE { 1 } else { 0 };
    SupportedFeatureKey::default()
        .with_name(StrBytes::from_static_str(feature.name))
        .with_min_version(feature.level_min.max(lowest))
        .with_max_version(feature.level_max)
}

fn finalized(feature: &Feature) -> FinalizedFeatureKey {
    FinalizedFeatureKey::default()
        .with_name(StrBytes::from_static_str(feature.name))
        .with_min_version_level(feature.level_max)
        .with_max_version_level(feature.level_max)
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
