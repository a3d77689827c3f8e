//! The fence: an object that a new writer puts where an older epoch's next commit would go, so that
//! this commit can never land.

use bytes::Bytes;

use super::{KIND_FENCE, Prefix, WalObjectError, array, check_header_crc, position_of, put_common};
use crate::ids::{ShardId, WalPosition};

/// Bytes of a fence, its CRC included.
pub const FENCE_LENGTH: usize = 60;

/// Ends the epoch of `position` just before its seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub shard: ShardId,
    /// The epoch that is closed, and the seq that its writer can no longer put.
    pub position: WalPosition,
    /// The epoch of the writer that put the fence.
    pub by_epoch: u64,
    /// The nonce of that writer's put.
    pub by_nonce: [u8; 16],
}

impl Fence {
    /// The CRC that ends the fence; an object that chains to it names it.
    pub fn header_crc(&self) -> u32 {
        let bytes = encode_fence(self);
        u32::from_le_bytes(array(&bytes, FENCE_LENGTH - 4))
    }
}

/// The bytes of a fence.
pub fn encode_fence(fence: &Fence) -> Bytes {
    let mut out = Vec::with_capacity(FENCE_LENGTH);
    put_common(&mut out, KIND_FENCE, fence.shard, fence.position, &fence.by_nonce);
    out.extend_from_slice(&fence.by_epoch.to_le_bytes());
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out.into()
}

pub(super) fn decode_fence(prefix: Prefix<'_>) -> Result<Fence, WalObjectError> {
    let bytes = prefix.front(FENCE_LENGTH)?;
    check_header_crc(bytes)?;
    let (blocks_end, object_length) = (FENCE_LENGTH as u64, prefix.object_length);
    if blocks_end != object_length {
        return Err(WalObjectError::LengthMismatch { blocks_end, object_length });
    }
    let (shard, position) = position_of(bytes);
    let by_epoch = u64::from_le_bytes(array(bytes, 48));
    Ok(Fence { shard, position, by_epoch, by_nonce: array(bytes, 32) })
}
