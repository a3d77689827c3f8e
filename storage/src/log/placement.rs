//! Which shard a partition, a group or a transactional id goes to. Pure.
//!
//! Partitions are placed when they are made, and their events say where. A group or a transactional
//! id stays in the shard that knows it; a new one goes where its name hashes to, so that all
//! requests about it meet before the first of them is durable.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ids::{ShardId, TopicId};

/// Spreads new partitions of a topic over shards, one after the other, from one that the topic's id
/// decides. Empty, which stands for shard 0, in a log of one shard.
pub(super) fn spread(topic_id: TopicId, partitions: Range<i32>, shards: u32) -> Vec<ShardId> {
    if shards <= 1 {
        return Vec::new();
    }
    let first = crc32c::crc32c(topic_id.as_bytes()) % shards;
    let shard = |partition: i32| ShardId((first + partition.unsigned_abs() % shards) % shards);
    partitions.map(shard).collect()
}

/// What of a request goes to one shard, each part with its place in the request.
#[derive(Debug)]
pub(super) struct ShardPart<T> {
    pub(super) places: Vec<usize>,
    pub(super) items: Vec<T>,
}

/// Sorts the parts of a request, each with its place, by their shards.
pub(super) fn by_shard<T>(
    parts: impl IntoIterator<Item = (usize, T)>,
    shard_of: impl Fn(&T) -> ShardId,
) -> BTreeMap<ShardId, ShardPart<T>> {
    let mut sorted = BTreeMap::new();
    for (place, item) in parts {
        let new = || ShardPart { places: Vec::new(), items: Vec::new() };
        let part: &mut ShardPart<T> = sorted.entry(shard_of(&item)).or_insert_with(new);
        part.places.push(place);
        part.items.push(item);
    }
    sorted
}

/// The shard of a group or a transactional id: the one that knows the name, or else the one that it
/// hashes to.
pub(super) fn place_of(name: &str, shards: usize, knows: impl Fn(usize) -> bool) -> usize {
    let hashed = crc32c::crc32c(name.as_bytes()) as usize % shards;
    let mut places = [hashed].into_iter().chain(0..shards);
    places.find(|place| knows(*place)).unwrap_or(hashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_spread_evenly_and_go_on_where_the_earlier_ones_ended() {
        let id = TopicId::from_bytes([7; 16]);
        let all = spread(id, 0..8, 4);
        for shard in 0..4 {
            assert_eq!(all.iter().filter(|placed| **placed == ShardId(shard)).count(), 2);
        }
        assert_eq!(spread(id, 3..8, 4), all[3..]);
        assert_eq!(spread(id, 0..8, 1), []);
    }

    #[test]
    fn each_part_of_a_request_keeps_its_place() {
        let sorted = by_shard("abcab".chars().enumerate(), |item| ShardId(u32::from(*item == 'b')));
        let parts: Vec<_> =
            sorted.into_iter().map(|(shard, part)| (shard.0, part.places, part.items)).collect();
        assert_eq!(parts, [(0, vec![0, 2, 3], vec!['a', 'c', 'a']), (1, vec![1, 4], vec!['b', 'b'])]);
    }

    #[test]
    fn a_name_stays_where_it_is_known() {
        let hashed = place_of("group", 4, |_| false);
        let other = (hashed + 1) % 4;
        assert_eq!(place_of("group", 4, |shard| shard == other), other);
        assert_eq!(place_of("group", 4, |_| true), hashed);
        assert_eq!(place_of("group", 1, |_| false), 0);
    }
}
