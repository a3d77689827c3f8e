//! A seeded simulation of commit and open on a store that fails: lost requests, lost responses, late
//! applies, conflicts, crashes, two claimants. One seed decides everything.
//!
//! The checker knows what a client may rely on: an acked record is at its offset, once; no offset is
//! given to two records; what a reader saw stays; a retry of an idempotent producer changes nothing.
//! Rules that are known to lose records can be switched on, and the checker must catch each.

mod checker;
mod run;

use super::error::OpenError;
use super::keys::trailing_number;
use super::walk::Walker;
use crate::ids::WalPosition;

/// A rule of the protocol that is broken on purpose (the variants of the exhaustive model of the
/// fencing protocol that need no checkpoints).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongRule {
    /// The fence is deleted after the new owner has opened.
    DeleteFence,
    /// The fence goes after the last listed object, and what is before the first gap is recovered.
    FenceAfterListing,
    /// The same, and all that is listed is recovered.
    FenceAfterListingRecoverAll,
    /// What landed between the listing and the fence is not read again.
    SkipWhatLandedMeanwhile,
    /// Each put is acked on its own, not over the contiguous prefix.
    AckEach,
}

/// Where the fence goes: under the right rule, to the first absent place.
pub(super) async fn fence_place(
    walker: &mut Walker,
    rule: Option<WrongRule>,
    place: WalPosition,
) -> Result<WalPosition, OpenError> {
    let recovers_all = match rule {
        Some(WrongRule::FenceAfterListing) => false,
        Some(WrongRule::FenceAfterListingRecoverAll) => true,
        _ => return Ok(place),
    };
    let listed = walker.list(&walker.keys.wal_epoch(place.writer_epoch)).await?;
    let last = listed.iter().filter_map(|key| trailing_number(key)).max().map_or(0, |last| last + 1);
    let end = WalPosition { seq: last.max(place.seq), ..place };
    if recovers_all {
        for seq in place.seq..end.seq {
            walker.replay_if_there(WalPosition { seq, ..place }).await?;
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::WrongRule;
    use super::run::{Totals, run_seed};

    const SEEDS: u64 = 500;

    #[test]
    fn the_rules_lose_nothing_under_any_seed() {
        let mut totals = Totals::default();
        for seed in 0..SEEDS {
            match run_seed(seed, None) {
                Ok(run) => totals.add(&run),
                Err(violation) => panic!("seed {seed}: {violation}"),
            }
        }
        println!("{SEEDS} seeds: {totals:?}");
        assert!(totals.every_kind_happened(), "{totals:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        for seed in [3, 77, 123] {
            assert_eq!(run_seed(seed, None), run_seed(seed, None), "seed {seed}");
        }
    }

    fn is_caught(rule: WrongRule) {
        let caught =
            (0..20 * SEEDS).find_map(|seed| run_seed(seed, Some(rule)).err().map(|what| (seed, what)));
        let (seed, violation) = caught.unwrap_or_else(|| panic!("{rule:?} is not caught"));
        println!("{rule:?} is caught by seed {seed}: {violation}");
    }

    #[test]
    fn deleting_the_fence_is_caught() {
        is_caught(WrongRule::DeleteFence);
    }

    #[test]
    fn a_fence_after_the_listing_is_caught() {
        is_caught(WrongRule::FenceAfterListing);
    }

    #[test]
    fn a_fence_after_the_listing_that_recovers_all_is_caught() {
        is_caught(WrongRule::FenceAfterListingRecoverAll);
    }

    #[test]
    fn skipping_what_landed_meanwhile_is_caught() {
        is_caught(WrongRule::SkipWhatLandedMeanwhile);
    }

    #[test]
    fn acking_out_of_the_prefix_is_caught() {
        is_caught(WrongRule::AckEach);
    }
}
