//! A seeded simulation of the whole log: commits, opens, compaction, merges, checkpoints, deletion,
//! sweeps and retention go on all the time on a store that fails, under crashes, pauses and owners that
//! do not know yet that they are overtaken. One seed decides everything.
//!
//! The checker knows what a client may rely on: an acked record is at its offset, once; no offset is
//! given to two records; what a reader saw stays until its log start passes it; a held snapshot does
//! not change; a time lookup finds what a plain search finds; a retry of an idempotent producer changes
//! nothing; nothing counts as damaged that nobody damaged.
//! Rules that are known to lose records can be broken on purpose, and the checker must catch each.

mod checker;
mod failpoints;
mod groups;
mod ledger;
mod memory;
mod operations;
mod reads;
mod records;
mod run;
mod settings;
mod sim_store;
mod totals;
mod transfers;

#[cfg(test)]
mod tests;

use super::error::OpenError;
use super::keys::trailing_number;
use super::open::Closed;
use super::settings::LogSettings;
use super::walk::Walker;
use crate::ids::WalPosition;

/// A rule of the protocol that is broken on purpose.
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
    /// A missing object that is proven to have been durable is fenced over.
    FenceOverMissing,
    /// The walk of an open never begins again. An owner that asks before it deletes protects the open
    /// too, so here, and in the next two, it deletes checkpoints and the WAL below them unasked.
    NeverBeginAgain,
    /// It begins again only if the newest checkpoint is beyond the first fence.
    CompareWithFirstFence,
    /// It begins again only if the newest checkpoint is beyond the last fence.
    CompareWithLastFence,
    /// A reader trusts the position that it began from.
    ReaderNeverBeginsAgain,
    /// Objects are deleted although somebody reads a state that refers to them.
    CollectHeld,
    /// The WAL is deleted beyond the oldest checkpoint.
    CollectAboveCheckpoint,
    /// An owner deletes without asking whether it was overtaken.
    CollectUnowned,
    /// Segments are installed without a look at what is there by then.
    InstallUnchecked,
    /// A sweep lists after it has loaded what is referred to.
    SweepListsLast,
}

impl WrongRule {
    /// Whether an owner deletes what its newest checkpoint covers without asking whether it was overtaken.
    pub(super) fn forgets_to_ask(self) -> bool {
        matches!(self, Self::NeverBeginAgain | Self::CompareWithFirstFence | Self::CompareWithLastFence)
    }
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

/// Whether an open begins again: under the right rule, if the newest checkpoint is another one.
pub(super) async fn is_overtaken(
    walker: &Walker,
    settings: &LogSettings,
    right: bool,
    closed: &Result<Closed, OpenError>,
) -> Result<bool, OpenError> {
    let fences = closed.as_ref().map(|(closed, _)| closed.as_slice()).unwrap_or_default();
    let fence = match settings.wrong_rule {
        Some(WrongRule::NeverBeginAgain) => None,
        Some(WrongRule::CompareWithFirstFence) => fences.first(),
        Some(WrongRule::CompareWithLastFence) => fences.last(),
        _ => return Ok(right),
    };
    let newest = walker.checkpoints().await?.last().copied();
    let fence = fence.map(|end| WalPosition { writer_epoch: end.writer_epoch, seq: end.end_seq });
    Ok(right && fence.is_some_and(|fence| newest > Some(fence)))
}

/// The same for an open for reading.
pub(super) fn is_reader_overtaken(settings: &LogSettings, right: bool) -> bool {
    right && !settings.breaks(WrongRule::ReaderNeverBeginsAgain)
}
