//! The topics that a member of a classic group says it consumes, in the metadata of the protocol
//! type "consumer". Pure.
//!
//! Invariant: metadata is opaque to the groups themselves. It is looked into only to tell whether a
//! topic's offsets are in use, and what does not decode counts as a use of every topic.

use std::collections::BTreeSet;

use bytes::Buf;

/// The protocol type whose metadata is looked into.
pub(crate) const CONSUMER: &str = "consumer";

/// Topics that members use. `None` stands for every topic.
pub(crate) struct UsedTopics<'a>(Option<BTreeSet<&'a [u8]>>);

impl<'a> UsedTopics<'a> {
    /// Looks through the metadata of all members once, however many topics are asked about then.
    pub(crate) fn of(metadata: impl Iterator<Item = &'a [u8]>) -> Self {
        let names: Option<Vec<_>> = metadata.map(names).collect();
        Self(names.map(|names| names.into_iter().flatten().collect()))
    }

    pub(crate) fn contains(&self, topic: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(topic.as_bytes()))
    }
}

/// The topics that metadata names: version i16, count i32, and that many strings with lengths i16
/// (Kafka's `ConsumerProtocolSubscription`). `None` if it does not decode. What follows the names is of no interest.
fn names(mut metadata: &[u8]) -> Option<Vec<&[u8]>> {
    metadata.try_get_i16().ok()?;
    let count = metadata.try_get_i32().ok()?;
    let mut names = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(metadata.try_get_i16().ok()?).ok()?;
        let (name, rest) = metadata.split_at_checked(length)?;
        names.push(name);
        metadata = rest;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn subscribes_to(metadata: &[u8], topic: &str) -> bool {
        UsedTopics::of([metadata].into_iter()).contains(topic)
    }

    #[test]
    fn the_topics_of_a_subscription_are_found() {
        let metadata = b"\x00\x03\x00\x00\x00\x02\x00\x01a\x00\x02bc\xff\xff\xff\xff";
        assert!(subscribes_to(metadata, "a") && subscribes_to(metadata, "bc"));
        assert!(!subscribes_to(metadata, "b"));
        assert!(!subscribes_to(b"\x00\x00\x00\x00\x00\x00", "a"));
    }

    #[test]
    fn what_does_not_decode_may_be_any_topic() {
        assert!(subscribes_to(b"", "a"));
        assert!(subscribes_to(b"\x00\x00\x7f\xff\xff\xff\x00\x01x", "a"));
        assert!(subscribes_to(b"\x00\x00\x00\x00\x00\x01\xff\xff", "a"));
    }

    #[test]
    fn the_topics_of_all_members_are_used() {
        let (a, b) = (&b"\x00\x00\x00\x00\x00\x01\x00\x01a"[..], &b"\x00\x00\x00\x00\x00\x01\x00\x01b"[..]);
        let used = UsedTopics::of([a, b].into_iter());
        assert!(used.contains("a") && used.contains("b") && !used.contains("c"));
        assert!(UsedTopics::of([a, b""].into_iter()).contains("c"));
        assert!(!UsedTopics::of(std::iter::empty()).contains("a"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_through(metadata in proptest::collection::vec(any::<u8>(), 0..40)) {
            subscribes_to(&metadata, "a");
        }
    }
}
