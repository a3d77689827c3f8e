//! The codecs of record batches, and the budget that bounds what they may produce.
//!
//! Invariant: output is never larger than what is left of the budget, and no allocation follows a
//! length that the input names without a bound that follows from the input's own size.

use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use zstd::zstd_safe;

use super::error::BatchError;

/// How the records of a batch are compressed, by Kafka's names and ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// # Errors
    /// An id above 4.
    pub fn from_id(id: u8) -> Result<Self, BatchError> {
        Self::ALL.get(usize::from(id)).copied().ok_or(BatchError::UnsupportedCompression(id))
    }

    /// The number in the attributes of a batch.
    pub fn id(self) -> u8 {
        self as u8
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is none of Kafka's codec names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compression \"{0}\" is not one of none, gzip, snappy, lz4, zstd")]
pub struct UnknownCompression(pub String);

impl FromStr for Compression {
    type Err = UnknownCompression;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|compression| compression.name() == name);
        known.ok_or_else(|| UnknownCompression(name.to_owned()))
    }
}

/// How many bytes decompression may still produce, over all the batches that it is passed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecompressionBudget {
    limit: usize,
    remaining: usize,
}

impl DecompressionBudget {
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit: limit_bytes, remaining: limit_bytes }
    }

    /// The bytes that are left.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    fn exceeded(&self) -> BatchError {
        BatchError::BudgetExceeded { limit: self.limit }
    }
}

/// Decompresses the records of a batch and takes what they need from the budget.
///
/// # Errors
/// Bytes that the codec refuses, and output beyond the budget.
pub(super) fn decompress(
    compression: Compression,
    input: &[u8],
    budget: &mut DecompressionBudget,
) -> Result<Vec<u8>, BatchError> {
    let output = match compression {
        Compression::None => read_within(compression, input, budget),
        Compression::Gzip => read_within(compression, MultiGzDecoder::new(input), budget),
        Compression::Snappy => decompress_snappy(input, budget),
        Compression::Lz4 => decompress_lz4(input, budget),
        Compression::Zstd => decompress_zstd(input, budget),
    }?;
    budget.remaining -= output.len();
    Ok(output)
}

fn refused(compression: Compression, reason: impl fmt::Display) -> BatchError {
    BatchError::Decompression { compression, reason: reason.to_string() }
}

/// Reads a decoder to its end, and never more than one byte past the budget.
fn read_within(
    compression: Compression,
    decoder: impl Read,
    budget: &DecompressionBudget,
) -> Result<Vec<u8>, BatchError> {
    let cap = u64::try_from(budget.remaining).unwrap_or(u64::MAX).saturating_add(1);
    let mut output = Vec::new();
    decoder.take(cap).read_to_end(&mut output).map_err(|error| refused(compression, error))?;
    if output.len() > budget.remaining {
        return Err(budget.exceeded());
    }
    Ok(output)
}

/// The magic of a current frame. Kafka refuses the legacy format, and so do we.
const LZ4_FRAME_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// One frame and nothing after it, as Kafka's clients write.
fn decompress_lz4(input: &[u8], budget: &DecompressionBudget) -> Result<Vec<u8>, BatchError> {
    if !input.starts_with(&LZ4_FRAME_MAGIC) {
        return Err(refused(Compression::Lz4, "no frame at the start"));
    }
    let mut rest = input;
    let output = read_within(Compression::Lz4, FrameDecoder::new(&mut rest), budget)?;
    if !rest.is_empty() {
        return Err(refused(Compression::Lz4, format_args!("{} bytes follow the frame", rest.len())));
    }
    Ok(output)
}

/// The magic of the framing that Java clients use; 8 bytes of versions follow, then chunks.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_LENGTH: usize = 16;

/// No element of the snappy format makes more bytes of one input byte than this (64 from 3).
const SNAPPY_MAX_EXPANSION: usize = 22;

fn decompress_snappy(input: &[u8], budget: &DecompressionBudget) -> Result<Vec<u8>, BatchError> {
    let mut output = Vec::new();
    if !input.starts_with(XERIAL_MAGIC) {
        append_snappy_chunk(&mut output, input, budget)?;
        return Ok(output);
    }
    let ends_early = || refused(Compression::Snappy, "ends inside a chunk");
    let mut rest = input.get(XERIAL_HEADER_LENGTH..).ok_or_else(ends_early)?;
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(ends_early)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| ends_early())?;
        let chunk = after.get(..length).ok_or_else(ends_early)?;
        append_snappy_chunk(&mut output, chunk, budget)?;
        rest = &after[length..];
    }
    Ok(output)
}

fn append_snappy_chunk(
    output: &mut Vec<u8>,
    chunk: &[u8],
    budget: &DecompressionBudget,
) -> Result<(), BatchError> {
    let length = snap::raw::decompress_len(chunk).map_err(|error| refused(Compression::Snappy, error))?;
    if length > chunk.len().saturating_mul(SNAPPY_MAX_EXPANSION) {
        return Err(refused(Compression::Snappy, format_args!("{} bytes cannot hold {length}", chunk.len())));
    }
    let start = output.len();
    if length > budget.remaining - start {
        return Err(budget.exceeded());
    }
    output.resize(start + length, 0);
    snap::raw::Decoder::new()
        .decompress(chunk, &mut output[start..])
        .map_err(|error| refused(Compression::Snappy, error))?;
    Ok(())
}

/// How much larger than its input the first output buffer for zstd may be; a frame that names its
/// size is given that size up to here, anything larger grows by [`ZSTD_GROWTH`].
const ZSTD_FIRST_EXPANSION: usize = 64;
const ZSTD_FIRST_MIN_BYTES: usize = 4096;
const ZSTD_GUESSED_EXPANSION: usize = 8;
const ZSTD_GROWTH: usize = 4;

/// Decodes in one pass into a buffer that grows until it is large enough. A streaming decoder would
/// allocate the window that the frame names, up to 128 MiB.
fn decompress_zstd(input: &[u8], budget: &DecompressionBudget) -> Result<Vec<u8>, BatchError> {
    let refuse = |code| refused(Compression::Zstd, zstd_safe::get_error_name(code));
    let mut decoder = zstd_safe::DCtx::create();
    let mut capacity = zstd_first_capacity(input, budget.remaining);
    loop {
        let mut output = Vec::with_capacity(capacity);
        match decoder.decompress(&mut output, input) {
            Ok(_) if output.len() > budget.remaining => return Err(budget.exceeded()),
            Ok(_) => return Ok(output),
            Err(code) if code != ZSTD_OUTPUT_TOO_SMALL => return Err(refuse(code)),
            Err(_) if capacity >= budget.remaining => return Err(budget.exceeded()),
            Err(_) => capacity = capacity.saturating_mul(ZSTD_GROWTH).min(budget.remaining),
        }
    }
}

/// What the decoder answers when the output does not fit its buffer: the negated error number.
const ZSTD_OUTPUT_TOO_SMALL: usize =
    (zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();

fn zstd_first_capacity(input: &[u8], remaining: usize) -> usize {
    let named = zstd_safe::get_frame_content_size(input).ok().flatten();
    let most = input.len().saturating_mul(ZSTD_FIRST_EXPANSION).max(ZSTD_FIRST_MIN_BYTES);
    let guessed = input.len().saturating_mul(ZSTD_GUESSED_EXPANSION).max(ZSTD_FIRST_MIN_BYTES);
    let wanted = named.map_or(guessed, |size| usize::try_from(size).unwrap_or(usize::MAX));
    // A first frame may be empty, or name less than all frames together: the buffer has to grow from something.
    wanted.max(ZSTD_FIRST_MIN_BYTES).min(most).min(remaining)
}

/// Compresses the records of a batch at the codec's default level.
pub(super) fn compress(compression: Compression, input: Vec<u8>) -> Vec<u8> {
    match compression {
        Compression::None => input,
        compression => compress_at(compression, None, &input),
    }
}

/// Compresses the records of a batch. Snappy is written raw, which every client reads. A level is for
/// gzip and zstd alone; `None` is the codec's default.
pub(super) fn compress_at(compression: Compression, level: Option<i32>, input: &[u8]) -> Vec<u8> {
    const IN_MEMORY: &str = "writing to memory does not fail";
    match compression {
        Compression::None => input.to_vec(),
        Compression::Gzip => {
            let level = level.and_then(|level| u32::try_from(level).ok());
            let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(input).expect(IN_MEMORY);
            encoder.finish().expect(IN_MEMORY)
        }
        Compression::Snappy => {
            snap::raw::Encoder::new().compress_vec(input).expect("records are below snappy's 4 GiB")
        }
        Compression::Lz4 => {
            // Kafka's reader wants independent blocks.
            let frame = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
            let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
            encoder.write_all(input).expect(IN_MEMORY);
            encoder.finish().expect(IN_MEMORY)
        }
        Compression::Zstd => {
            let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
            zstd::bulk::compress(input, level).expect(IN_MEMORY)
        }
    }
}
