//! The cluster object: the id of a root and the format version that its objects may have. Put once,
//! never changed.

use std::fmt;

use bytes::Bytes;

use super::envelope::{Envelope, EnvelopeError};

const ENVELOPE: Envelope = Envelope { what: "cluster", magic: *b"STRDCLU\n", version: 1 };

/// The id that clients see for the whole life of a root: 16 bytes, shown as 22 characters of
/// base64url, as Kafka's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterId(pub [u8; 16]);

const BASE64URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in self.0.chunks(3) {
            let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
            for character in 0..=group.len() {
                let sextet = bits >> (18 - 6 * character) & 0x3f;
                write!(f, "{}", char::from(BASE64URL[sextet as usize]))?;
            }
        }
        Ok(())
    }
}

/// What a root says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub cluster_id: ClusterId,
    /// Readers of this root must know every format up to this version.
    pub format_version: u16,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ClusterMessage {
    #[prost(bytes = "vec", tag = "1")]
    cluster_id: Vec<u8>,
    #[prost(uint32, tag = "2")]
    format_version: u32,
}

/// The bytes of the cluster object.
pub fn encode_cluster(cluster: &Cluster) -> Bytes {
    ENVELOPE.encode(&ClusterMessage {
        cluster_id: cluster.cluster_id.0.to_vec(),
        format_version: u32::from(cluster.format_version),
    })
}

/// # Errors
/// Damage, or a root that needs a version that this build does not read.
pub fn decode_cluster(bytes: &[u8]) -> Result<Cluster, EnvelopeError> {
    let message: ClusterMessage = ENVELOPE.decode(bytes)?;
    ENVELOPE.check_version(message.format_version)?;
    let cluster_id = message.cluster_id.as_slice().try_into().map_err(|_| {
        ENVELOPE.malformed(format!("its cluster id has {} bytes, not 16", message.cluster_id.len()))
    })?;
    let format_version = message.format_version as u16;
    Ok(Cluster { cluster_id: ClusterId(cluster_id), format_version })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::FORMAT_VERSION;

    #[test]
    fn a_cluster_id_is_shown_as_22_characters_of_base64url() {
        assert_eq!(ClusterId([0; 16]).to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(ClusterId([0xff; 16]).to_string(), "_____________________w");
        let ascending = std::array::from_fn(|at| at as u8);
        assert_eq!(ClusterId(ascending).to_string(), "AAECAwQFBgcICQoLDA0ODw");
    }

    #[test]
    fn a_root_of_a_newer_format_is_refused_by_number() {
        let newer = Cluster { cluster_id: ClusterId([1; 16]), format_version: FORMAT_VERSION + 1 };
        let error = decode_cluster(&encode_cluster(&newer)).unwrap_err();
        let EnvelopeError::UnsupportedVersion { found, supported, .. } = error else { panic!("{error}") };
        assert_eq!((found, supported), (u32::from(FORMAT_VERSION) + 1, FORMAT_VERSION));
    }

    #[test]
    fn a_claim_is_not_taken_for_a_cluster() {
        let claim = crate::format::Claim {
            writer_epoch: 0,
            node: String::new(),
            address: String::new(),
            nonce: [0; 16],
        };
        let bytes = crate::format::encode_claim(&claim);
        assert_eq!(decode_cluster(&bytes), Err(EnvelopeError::BadMagic { what: "cluster" }));
    }

    proptest! {
        #[test]
        fn clusters_round_trip(id: [u8; 16]) {
            let cluster = Cluster { cluster_id: ClusterId(id), format_version: FORMAT_VERSION };
            prop_assert_eq!(decode_cluster(&encode_cluster(&cluster)), Ok(cluster));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode_cluster(&bytes);
        }
    }
}
