//! Damaged requests: the corpus in other orders, with bytes changed, cut, doubled and put in, whatever the damage.
//! One seed decides all of a run, so that a failure comes again.
//!
//!     STRANDLINE_ABUSE_SEEDS=1000 cargo test -p strandline-kafka-gateway --test abuse damaged

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use strandline_storage::seam::{Rng, SeededRng};

use crate::corpus::{correlation_id, files, served};
use crate::panics::NoPanics;
use crate::target::{Target, Way, split_frames};

/// Seeds of a run, unless the environment says how many.
const SEEDS: u64 = 6;
const SEEDS_VARIABLE: &str = "STRANDLINE_ABUSE_SEEDS";
/// Clients of one seed, one after the other.
const CLIENTS: usize = 100;
/// Memory that a run may reserve, resident or not, beyond what it began with: far less than a length on the wire can
/// say.
const RESERVED_BYTES_MAX: u64 = 1 << 30;
/// Numbers at which code goes wrong.
const NUMBERS: [i64; 12] =
    [0, 1, -1, 2, 0x7f, 0x80, 0x7fff, 0xffff, 0x7fff_ffff, i32::MIN as i64, i64::MAX, i64::MIN];

struct Random(SeededRng);

impl Random {
    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn below(&self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).expect("it is below a usize")
    }

    fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Of any API, as likely as any other.
    fn frame<'a>(&self, corpus: &'a Corpus) -> &'a Bytes {
        let frames: &Vec<_> = self.pick(corpus);
        self.pick(frames)
    }

    /// A part of so many bytes, at most 64 long.
    fn part(&self, length: usize) -> Range<usize> {
        let start = self.below(length + 1);
        start..start + self.below((length - start).min(64) + 1)
    }

    /// Damages a frame in one way.
    fn damage(&self, frame: &mut Vec<u8>, corpus: &Corpus) {
        let at = self.below(frame.len() + 1);
        match self.below(8) {
            0 => frame.truncate(at),
            1 => frame.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << self.below(8)),
            2 => frame.iter_mut().skip(at).take(1).for_each(|byte| *byte = self.number() as u8),
            3 => {
                let number = self.pick(&NUMBERS).to_be_bytes();
                let width = *self.pick(&[1, 2, 4, 8]);
                frame.iter_mut().skip(at).zip(&number[8 - width..]).for_each(|(byte, new)| *byte = *new);
            }
            4 => drop(frame.drain(self.part(frame.len()))),
            5 => {
                let doubled = frame[self.part(frame.len())].repeat(self.below(20));
                drop(frame.splice(at..at, doubled));
            }
            6 => {
                let other = self.frame(corpus);
                drop(frame.splice(at.., other[self.below(other.len())..].iter().copied()));
            }
            _ => {
                let put_in: Vec<_> = (0..self.below(9)).map(|_| self.number() as u8).collect();
                drop(frame.splice(at..at, put_in));
            }
        }
    }

    /// What a client sends: some frames of the corpus, which know their numbers, most of them damaged.
    fn input(&self, corpus: &Corpus) -> (Vec<u8>, Sent) {
        let way = if self.one_in(20) {
            Way::LoggedIn
        } else {
            *self.pick(&[Way::Open, Way::Open, Way::Open, Way::Open, Way::Stranger])
        };
        let mut input =
            vec![Way::ALL.iter().position(|one| *one == way).expect("there are no other ways") as u8];
        let mut sent = Sent::new();
        for number in 0..=self.below(6) as i32 {
            let mut frame = self.frame(corpus).to_vec();
            frame[4..8].copy_from_slice(&number.to_be_bytes());
            if self.one_in(2) {
                (0..=self.below(3)).for_each(|_| self.damage(&mut frame, corpus));
            }
            if let Some(key) =
                frame.first_chunk().filter(|_| frame.get(4..8) == Some(&number.to_be_bytes()[..]))
            {
                sent.insert(number, i16::from_be_bytes(*key));
            }
            let length = if self.one_in(20) { self.number() as u32 } else { frame.len() as u32 };
            input.extend(length.to_be_bytes());
            input.extend(frame);
        }
        (input, sent)
    }
}

/// The API keys of requests, by their correlation ids.
type Sent = BTreeMap<i32, i16>;

/// The frames of each file, without lengths.
type Corpus = [Vec<Bytes>];

fn corpus() -> Vec<Vec<Bytes>> {
    files().into_values().map(|file| split_frames(Bytes::from(file).slice(1..)).0).collect()
}

/// Runs the clients of a seed; gives the keys of the APIs that answered.
async fn run_seed(seed: u64, corpus: &Corpus, panics: &NoPanics) -> BTreeSet<i16> {
    let random = Random(SeededRng::new(seed));
    let target = Target::start().await;
    let mut answering = BTreeSet::new();
    for client in 0..CLIENTS {
        let (input, sent) = random.input(corpus);
        let answers = target.run(&input).await;
        panics.check(&format!("seed {seed}, client {client}, which sent {}", hex(&input)));
        let ids = answers.into_iter().filter(|answer| answer.len() >= 4).map(correlation_id);
        answering.extend(ids.filter_map(|id| sent.get(&id)));
    }
    target.stop().await;
    panics.check(&format!("seed {seed}, at its end"));
    answering
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The most address space that the process has had.
fn reserved_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system tells of the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("it has its size");
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("the size is a number");
    kibibytes * 1024
}

fn seeds() -> u64 {
    let seeds = std::env::var(SEEDS_VARIABLE).ok();
    seeds.map_or(SEEDS, |seeds| seeds.parse().expect("STRANDLINE_ABUSE_SEEDS is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_requests_harm_nobody() {
    let panics = NoPanics::from_now_on();
    let corpus = corpus();
    let target = Target::start().await;
    let served: BTreeSet<_> = served(&target).await.into_iter().map(|api| api.key as i16).collect();
    target.stop().await;
    let reserved = reserved_bytes();
    let mut answering = BTreeSet::new();
    for seed in 0..seeds() {
        answering.extend(run_seed(seed, &corpus, &panics).await);
    }
    let silent: Vec<_> = served.difference(&answering).collect();
    assert!(silent.is_empty(), "these APIs were not reached: {silent:?}");
    let more = reserved_bytes() - reserved;
    assert!(more < RESERVED_BYTES_MAX, "{more} bytes more were reserved");
}
