//! Checks the bytes of one block against its index entry: CRC, every batch's own CRC, every record.
//! Pure.

use bytes::Bytes;

use crate::format::{
    BatchHeader, BlockEntry, BlockFlags, Compression, DecompressionBudget, Records, TimestampType,
    split_batches, verify_block, verify_crc,
};

/// Checks a block as a whole.
///
/// # Errors
/// The first thing in which its bytes are not what the index says.
pub(in crate::log) fn check_block(
    entry: &BlockEntry,
    bytes: &Bytes,
    decompressed_bytes_max: usize,
) -> Result<(), String> {
    verify_block(entry, bytes).map_err(|error| error.to_string())?;
    let found = entry_of_batches(entry, bytes, decompressed_bytes_max)?;
    compare(entry, &found)
}

/// What the batches of a block say of themselves, in the form of an index entry. Topic, partition,
/// position and append time are taken from `like`.
///
/// # Errors
/// A batch that does not decode, or offsets that do not ascend.
pub(in crate::log) fn entry_of_batches(
    like: &BlockEntry,
    bytes: &Bytes,
    decompressed_bytes_max: usize,
) -> Result<BlockEntry, String> {
    let mut found: Option<BlockEntry> = None;
    for batch in split_batches(bytes.clone()) {
        let (header, batch) = batch.map_err(|error| error.to_string())?;
        let entry = entry_of_batch(like, &header, &batch, decompressed_bytes_max)
            .map_err(|reason| format!("batch at offset {}: {reason}", header.base_offset))?;
        match &mut found {
            Some(found) if entry.base_offset < found.next_offset => {
                return Err(format!(
                    "batch at offset {} does not follow {}",
                    entry.base_offset, found.next_offset
                ));
            }
            Some(found) => found.extend(&entry),
            None => found = Some(entry),
        }
    }
    let found = found.ok_or("it holds no batch")?;
    let length = u32::try_from(bytes.len()).map_err(|_| "it is longer than a block can be")?;
    Ok(BlockEntry { length, crc: crc32c::crc32c(bytes), ..found })
}

/// The index entry of one batch.
fn entry_of_batch(
    like: &BlockEntry,
    header: &BatchHeader,
    batch: &Bytes,
    decompressed_bytes_max: usize,
) -> Result<BlockEntry, String> {
    verify_crc(batch).map_err(|error| error.to_string())?;
    let mut budget = DecompressionBudget::new(decompressed_bytes_max);
    let records = Records::decode(batch, &mut budget).map_err(|error| error.to_string())?;
    let mut entry = BlockEntry {
        next_offset: header.next_offset(),
        position: like.position,
        append_time_ms: like.append_time_ms,
        leader_epoch: header.leader_epoch,
        flags: flags_of(header)?,
        ..BlockEntry::empty(like.topic_partition, header.base_offset)
    };
    for record in &records {
        let record = record.map_err(|error| error.to_string())?;
        match header.is_control() {
            true => entry.control_count += 1,
            false => entry.data_count += 1,
        }
        match record.timestamp {
            Some(timestamp) => note_timestamp(&mut entry, timestamp, record.offset),
            None => entry.null_timestamp_count += 1,
        }
    }
    if i64::from(entry.data_count) + i64::from(entry.control_count)
        < header.next_offset() - header.base_offset
    {
        entry.flags = entry.flags | BlockFlags::GAPS;
    }
    Ok(entry)
}

fn note_timestamp(entry: &mut BlockEntry, timestamp: i64, offset: i64) {
    let is_first = entry.offset_of_max_timestamp < 0;
    if is_first || timestamp > entry.max_timestamp {
        (entry.max_timestamp, entry.offset_of_max_timestamp) = (timestamp, offset);
    }
    entry.min_timestamp = if is_first { timestamp } else { entry.min_timestamp.min(timestamp) };
}

fn flags_of(header: &BatchHeader) -> Result<BlockFlags, String> {
    let compression = header.compression().map_err(|error| error.to_string())?;
    let parts = [
        (header.is_control(), BlockFlags::CONTROL),
        (header.is_transactional(), BlockFlags::TRANSACTIONAL),
        (compression != Compression::None, BlockFlags::COMPRESSED),
        (header.timestamp_type() == TimestampType::LogAppendTime, BlockFlags::LOG_APPEND_TIME),
    ];
    let set = parts.into_iter().filter(|(is_set, _)| *is_set);
    Ok(set.fold(BlockFlags::default(), |flags, (_, flag)| flags | flag))
}

/// Holds an entry against what the batches say. Where offsets may be missing, or markers are among
/// the records, the entry's times and counts only bound theirs.
fn compare(entry: &BlockEntry, found: &BlockEntry) -> Result<(), String> {
    let bounds_only = entry.flags.contains(BlockFlags::GAPS) || entry.flags.contains(BlockFlags::CONTROL);
    check(found.base_offset >= entry.base_offset, "base offset", entry.base_offset, found.base_offset)?;
    check(found.next_offset <= entry.next_offset, "next offset", entry.next_offset, found.next_offset)?;
    check(found.data_count == entry.data_count, "data count", entry.data_count, found.data_count)?;
    check(
        found.control_count <= entry.control_count,
        "control count",
        entry.control_count,
        found.control_count,
    )?;
    let has_times = found.max_timestamp >= 0;
    check(
        !has_times || found.min_timestamp >= entry.min_timestamp,
        "least timestamp",
        entry.min_timestamp,
        found.min_timestamp,
    )?;
    check(
        found.max_timestamp <= entry.max_timestamp,
        "greatest timestamp",
        entry.max_timestamp,
        found.max_timestamp,
    )?;
    if bounds_only {
        return Ok(());
    }
    let exact = [
        ("base offset", entry.base_offset, found.base_offset),
        ("next offset", entry.next_offset, found.next_offset),
        ("least timestamp", entry.min_timestamp, found.min_timestamp),
        ("greatest timestamp", entry.max_timestamp, found.max_timestamp),
        ("offset of the greatest timestamp", entry.offset_of_max_timestamp, found.offset_of_max_timestamp),
        (
            "null-timestamp count",
            i64::from(entry.null_timestamp_count),
            i64::from(found.null_timestamp_count),
        ),
    ];
    exact.into_iter().try_for_each(|(what, stated, counted)| check(stated == counted, what, stated, counted))
}

fn check<T: std::fmt::Display>(holds: bool, what: &str, stated: T, counted: T) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("its index entry says {what} {stated}, its batches {counted}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BatchBuilder, BatchOptions, set_base_offset};
    use crate::ids::{TopicId, TopicPartition};

    const BUDGET: usize = 1 << 20;

    fn batch(base_offset: i64, timestamps: &[i64]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for timestamp in timestamps {
            builder.append(Some(*timestamp), None, Some(b"value"), &[]).expect("a small record");
        }
        let mut bytes = builder.finish().to_vec();
        set_base_offset(&mut bytes, base_offset);
        bytes
    }

    fn like() -> BlockEntry {
        let id = TopicPartition::new(TopicId::from_bytes([1; 16]), 0);
        BlockEntry { append_time_ms: 9, ..BlockEntry::empty(id, 0) }
    }

    #[test]
    fn an_entry_made_of_the_batches_is_right_and_every_other_is_not() {
        let bytes = Bytes::from([batch(5, &[30, 10]), batch(7, &[30, 40, 20])].concat());
        let entry = entry_of_batches(&like(), &bytes, BUDGET).expect("the batches are whole");
        assert_eq!((entry.base_offset, entry.next_offset, entry.data_count), (5, 10, 5));
        assert_eq!((entry.min_timestamp, entry.max_timestamp, entry.offset_of_max_timestamp), (10, 40, 8));
        check_block(&entry, &bytes, BUDGET).expect("it is of these batches");
        let wrong = [
            BlockEntry { base_offset: 4, ..entry },
            BlockEntry { next_offset: 11, ..entry },
            BlockEntry { data_count: 4, ..entry },
            BlockEntry { null_timestamp_count: 1, ..entry },
            BlockEntry { min_timestamp: 9, ..entry },
            BlockEntry { max_timestamp: 41, ..entry },
            BlockEntry { offset_of_max_timestamp: 9, ..entry },
            BlockEntry { crc: entry.crc ^ 1, ..entry },
            BlockEntry { length: entry.length - 1, ..entry },
        ];
        for (index, wrong) in wrong.iter().enumerate() {
            check_block(wrong, &bytes, BUDGET).expect_err(&format!("entry {index}"));
        }
    }

    #[test]
    fn batches_out_of_order_or_with_a_flipped_bit_are_no_block() {
        let swapped = Bytes::from([batch(7, &[1]), batch(5, &[1])].concat());
        entry_of_batches(&like(), &swapped, BUDGET).expect_err("offsets do not ascend");
        let whole = batch(5, &[30, 10]);
        for bit in 21 * 8..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            entry_of_batches(&like(), &damaged.into(), BUDGET).expect_err("a bit is flipped");
        }
    }
}
