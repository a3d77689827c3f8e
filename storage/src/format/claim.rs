//! The claim of a writer on a new epoch of a shard. Put once, never deleted.

use bytes::Bytes;

use super::envelope::{Envelope, EnvelopeError};

const ENVELOPE: Envelope = Envelope { what: "claim", magic: *b"STRDCLM\n", version: 1 };

/// Who claimed an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub writer_epoch: u64,
    /// A name for people; empty when there is none.
    pub node: String,
    /// Where the writer listens; empty when it does not.
    pub address: String,
    /// Tells the writer's own put from another one's.
    pub nonce: [u8; 16],
}

#[derive(Clone, PartialEq, prost::Message)]
struct ClaimMessage {
    #[prost(uint64, tag = "1")]
    writer_epoch: u64,
    #[prost(string, tag = "2")]
    node: String,
    #[prost(string, tag = "3")]
    address: String,
    #[prost(bytes = "vec", tag = "4")]
    nonce: Vec<u8>,
}

/// The bytes of a claim.
pub fn encode_claim(claim: &Claim) -> Bytes {
    ENVELOPE.encode(&ClaimMessage {
        writer_epoch: claim.writer_epoch,
        node: claim.node.clone(),
        address: claim.address.clone(),
        nonce: claim.nonce.to_vec(),
    })
}

/// # Errors
/// Damage, or a version that this build does not read.
pub fn decode_claim(bytes: &[u8]) -> Result<Claim, EnvelopeError> {
    let message: ClaimMessage = ENVELOPE.decode(bytes)?;
    let nonce =
        message.nonce.as_slice().try_into().map_err(|_| {
            ENVELOPE.malformed(format!("its nonce has {} bytes, not 16", message.nonce.len()))
        })?;
    Ok(Claim { writer_epoch: message.writer_epoch, node: message.node, address: message.address, nonce })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::FORMAT_VERSION;

    fn claim() -> Claim {
        Claim { writer_epoch: 7, node: "a".into(), address: "127.0.0.1:9092".into(), nonce: [9; 16] }
    }

    #[test]
    fn a_newer_version_is_refused_by_number() {
        let mut bytes = encode_claim(&claim()).to_vec();
        bytes[8] = FORMAT_VERSION as u8 + 1;
        let error = decode_claim(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "claim object of format version {} needs a newer strandline: this one reads versions up to {FORMAT_VERSION}",
                FORMAT_VERSION + 1
            )
        );
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let bytes = encode_claim(&claim());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_claim(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode_claim(&bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn a_nonce_of_another_length_is_refused() {
        let message = ClaimMessage { nonce: vec![1; 15], ..ClaimMessage::default() };
        assert!(matches!(decode_claim(&ENVELOPE.encode(&message)), Err(EnvelopeError::Malformed { .. })));
    }

    proptest! {
        #[test]
        fn claims_round_trip(writer_epoch: u64, node: String, address: String, nonce: [u8; 16]) {
            let claim = Claim { writer_epoch, node, address, nonce };
            prop_assert_eq!(decode_claim(&encode_claim(&claim)), Ok(claim));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode_claim(&payload);
            // Behind a front and a CRC that fit, the message itself is arbitrary.
            let mut bytes = b"STRDCLM\n\x01\x00".to_vec();
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&payload);
            let crc = crc32c::crc32c(&bytes);
            bytes.extend_from_slice(&crc.to_le_bytes());
            let _ = decode_claim(&bytes);
        }
    }
}
