//! The newest offset of each key, as far as memory goes. Pure.
//!
//! Keys are kept as 128-bit hashes under a seed that nobody outside knows: two keys that clash would
//! lose a record, and cannot be chosen.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

#[derive(Debug)]
pub(super) struct KeyMap {
    seed: [u8; 16],
    newest: HashMap<[u8; 16], i64>,
    keys_max: usize,
}

impl KeyMap {
    pub(super) fn new(seed: [u8; 16], keys_max: usize) -> Self {
        Self { seed, newest: HashMap::new(), keys_max }
    }

    /// Notes a record; offsets ascend.
    pub(super) fn note(&mut self, key: &[u8], offset: i64) {
        self.newest.insert(self.hash(key), offset);
    }

    /// Whether no further batch should be noted.
    pub(super) fn is_full(&self) -> bool {
        self.newest.len() >= self.keys_max
    }

    /// Whether no newer record of the key was noted.
    pub(super) fn is_newest(&self, key: &[u8], offset: i64) -> bool {
        self.newest.get(&self.hash(key)).is_none_or(|newest| *newest <= offset)
    }

    fn hash(&self, key: &[u8]) -> [u8; 16] {
        let half = |number: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write(&self.seed);
            hasher.write_u8(number);
            hasher.write(key);
            hasher.finish().to_le_bytes()
        };
        let mut hash = [0; 16];
        hash[..8].copy_from_slice(&half(0));
        hash[8..].copy_from_slice(&half(1));
        hash
    }
}
