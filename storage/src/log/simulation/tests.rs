//! Many seeds under the right rules, and each wrong rule caught by some seed.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::WrongRule;
use super::run::{Place, run_seed};
use super::totals::{EXPECTED_LOCAL, Totals};

/// Of one run in CI.
const SEEDS: u64 = 2000;
/// Of one seed on the average.
const OPERATIONS_MIN: u64 = 300;
const LOCAL_SEEDS: u64 = 200;
/// Of a long run, by hand.
const LONG_SEEDS: Range<u64> = 100_000..130_000;
/// A wrong rule must be caught by one of these.
const WRONG_SEEDS: Range<u64> = 0..3000;
const THREADS: usize = 2;

/// Runs seeds on some threads until one breaks a promise; gives the totals, or the seed and the promise.
fn run_seeds(
    place: Place,
    seeds: Range<u64>,
    wrong_rule: Option<WrongRule>,
) -> Result<Totals, (u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let outcome = Mutex::new(Ok(Totals::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let run = run_seed(place, seed, wrong_rule);
            let mut outcome = outcome.lock().expect("no holder of the lock panics");
            match (run, &mut *outcome) {
                (Ok(run), Ok(totals)) => totals.add(&run),
                (Err(violation), Ok(_)) => *outcome = Err((seed, violation)),
                (_, Err(_)) => {}
            }
            if outcome.is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    outcome.into_inner().expect("no holder of the lock panics")
}

fn nothing_is_lost(place: Place, seeds: Range<u64>) -> Totals {
    let totals = match run_seeds(place, seeds.clone(), None) {
        Ok(totals) => totals,
        Err((seed, violation)) => panic!("seed {seed}: {violation}"),
    };
    println!("{} seeds: {totals:#?}", seeds.end - seeds.start);
    totals
}

#[test]
fn the_rules_lose_nothing_under_any_seed() {
    let totals = nothing_is_lost(Place::Remote, 0..SEEDS);
    assert_eq!(totals.missing(), [""; 0], "it never happened");
    let operations = totals.of("operations") / SEEDS;
    assert!(operations >= OPERATIONS_MIN, "{operations} operations a seed");
}

#[test]
#[ignore = "takes about an hour"]
fn the_rules_lose_nothing_under_many_more_seeds() {
    nothing_is_lost(Place::Remote, LONG_SEEDS);
    nothing_is_lost(Place::Local, LONG_SEEDS);
}

#[test]
fn the_rules_lose_nothing_on_a_disk_that_loses_what_was_not_synced() {
    let totals = nothing_is_lost(Place::Local, 0..LOCAL_SEEDS);
    assert_eq!(totals.missing_of(&EXPECTED_LOCAL), [""; 0], "it never happened");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 77, 123] {
        for place in [Place::Remote, Place::Local] {
            assert_eq!(run_seed(place, seed, None), run_seed(place, seed, None), "seed {seed}");
        }
    }
}

fn is_caught(rule: WrongRule) {
    match run_seeds(Place::Remote, WRONG_SEEDS, Some(rule)) {
        Ok(_) => panic!("{rule:?} is not caught"),
        Err((seed, violation)) => println!("{rule:?} is caught by seed {seed}: {violation}"),
    }
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

#[test]
fn a_fence_over_a_missing_object_is_caught() {
    is_caught(WrongRule::FenceOverMissing);
}

#[test]
fn a_walk_that_never_begins_again_is_caught() {
    is_caught(WrongRule::NeverBeginAgain);
}

#[test]
fn comparing_the_checkpoint_with_the_first_fence_is_caught() {
    is_caught(WrongRule::CompareWithFirstFence);
}

#[test]
fn comparing_the_checkpoint_with_the_last_fence_is_caught() {
    is_caught(WrongRule::CompareWithLastFence);
}

#[test]
fn a_reader_that_trusts_its_position_is_caught() {
    is_caught(WrongRule::ReaderNeverBeginsAgain);
}

#[test]
fn deleting_what_is_read_is_caught() {
    is_caught(WrongRule::CollectHeld);
}

#[test]
fn deleting_the_wal_above_the_oldest_checkpoint_is_caught() {
    is_caught(WrongRule::CollectAboveCheckpoint);
}

#[test]
fn deleting_after_being_overtaken_is_caught() {
    is_caught(WrongRule::CollectUnowned);
}

#[test]
fn an_install_without_a_look_at_its_inputs_is_caught() {
    is_caught(WrongRule::InstallUnchecked);
}

#[test]
fn a_sweep_that_lists_after_loading_is_caught() {
    is_caught(WrongRule::SweepListsLast);
}
