//! Which partition a record goes to.
//!
//! A key always goes to the partition that the Java client's default partitioner would choose, so
//! that records of one key stay together whoever produces them. Records without a key fill one
//! partition's batch, then the next one's.

/// Chooses partitions of one topic.
#[derive(Debug)]
pub struct Partitioner {
    partitions: i32,
    fixed: Option<i32>,
    keyless: i32,
}

impl Partitioner {
    /// `partitions` is at least 1; `fixed` sends every record to one of them.
    pub fn new(partitions: i32, fixed: Option<i32>) -> Self {
        assert!(partitions > 0, "a topic has at least one partition");
        Self { partitions, fixed, keyless: 0 }
    }

    pub fn partition(&self, key: Option<&[u8]>) -> i32 {
        match (self.fixed, key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => (murmur2(key) & i32::MAX) % self.partitions,
            (None, None) => self.keyless,
        }
    }

    /// A batch was closed: the next records without a key go to the next partition.
    pub fn batch_closed(&mut self) {
        self.keyless = (self.keyless + 1) % self.partitions;
    }
}

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const ROTATION: u32 = 24;

/// MurmurHash2, 32 bits, with the seed that Kafka's clients agreed on.
fn murmur2(data: &[u8]) -> i32 {
    let length = u32::try_from(data.len()).expect("a key is far shorter than 4 GiB");
    let mut hash = SEED ^ length;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_le_bytes(word.try_into().expect("a chunk has four bytes"));
        let mixed = word.wrapping_mul(MULTIPLIER);
        let mixed = (mixed ^ (mixed >> ROTATION)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| (tail << 8) | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> 15)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that Kafka's own clients hold their implementations against.
    #[test]
    fn hashes_are_those_of_kafka_clients() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
        }
    }

    #[test]
    fn a_key_keeps_its_partition_and_keyless_batches_take_turns() {
        let mut partitioner = Partitioner::new(3, None);
        let keyed = partitioner.partition(Some(b"foobar"));
        let keyless: Vec<i32> = (0..4)
            .map(|_| {
                let partition = partitioner.partition(None);
                partitioner.batch_closed();
                partition
            })
            .collect();
        assert_eq!(keyless, [0, 1, 2, 0]);
        assert_eq!(partitioner.partition(Some(b"foobar")), keyed);
    }

    #[test]
    fn a_fixed_partition_takes_every_record() {
        let partitioner = Partitioner::new(3, Some(2));
        assert_eq!(partitioner.partition(Some(b"foobar")), 2);
        assert_eq!(partitioner.partition(None), 2);
    }
}
