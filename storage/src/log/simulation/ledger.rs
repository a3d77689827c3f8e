//! What was promised of transactions, held against what a committed reader sees: of a transaction whose
//! commit was acked all is there, of one that nobody committed nothing, and of every other one all or
//! nothing, together with the offset that it commits.

use std::collections::BTreeMap;

use super::checker::Seen;
use super::transfers::LEDGER;
use crate::ids::TopicPartition;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nobody asked for its commit: it never happened.
    Open,
    /// Somebody did, and got no answer yet.
    Undecided,
    Committed,
}

#[derive(Debug)]
struct Transaction {
    records: BTreeMap<TopicPartition, Vec<u64>>,
    outcome: Outcome,
}

/// All transactions by their numbers.
#[derive(Debug)]
pub(super) struct Transactions {
    by_number: BTreeMap<u64, Transaction>,
    number_of: BTreeMap<u64, u64>,
    /// Whether one shard holds all: then what a transaction wrote becomes visible together.
    is_one_shard: bool,
}

impl Transactions {
    pub(super) fn new(is_one_shard: bool) -> Self {
        Self { by_number: BTreeMap::new(), number_of: BTreeMap::new(), is_one_shard }
    }

    pub(super) fn begun(&mut self, number: u64, records: &[(TopicPartition, Vec<u64>)]) {
        for record in records.iter().flat_map(|(_, ids)| ids) {
            self.number_of.insert(*record, number);
        }
        let transaction = Transaction { records: records.iter().cloned().collect(), outcome: Outcome::Open };
        self.by_number.insert(number, transaction);
    }

    pub(super) fn commit_requested(&mut self, number: u64) {
        self.set(number, Outcome::Undecided);
    }

    pub(super) fn committed(&mut self, number: u64) {
        self.set(number, Outcome::Committed);
    }

    fn set(&mut self, number: u64, outcome: Outcome) {
        self.by_number.get_mut(&number).expect("it was begun").outcome = outcome;
    }

    /// Transactions up to `promised` were acked before the snapshot was taken.
    pub(super) fn check(&self, promised: u64, seen: &Seen) -> Result<(), String> {
        if seen.partitions_of(LEDGER).next().is_none() {
            return Ok(());
        }
        self.check_visible(seen)?;
        for (number, transaction) in &self.by_number {
            let is_promised = transaction.outcome == Outcome::Committed && *number <= promised;
            self.check_whole(*number, transaction, is_promised, seen)?;
        }
        self.check_offset(promised, seen)
    }

    /// Nothing is visible that nobody committed.
    fn check_visible(&self, seen: &Seen) -> Result<(), String> {
        for (id, partition) in seen.partitions_of(LEDGER) {
            for record in &partition.committed {
                let number = self.number_of.get(record).ok_or("a record of no transaction")?;
                if self.by_number[number].outcome == Outcome::Open {
                    let partition = id.partition;
                    return Err(format!(
                        "partition {partition} shows a record of transaction {number}, which was not committed"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A transaction is visible as a whole, or not at all.
    fn check_whole(
        &self,
        number: u64,
        transaction: &Transaction,
        is_promised: bool,
        seen: &Seen,
    ) -> Result<(), String> {
        let mut any = false;
        let mut missing = None;
        for (id, ids) in &transaction.records {
            let Some(partition) = seen.partitions.get(id) else { continue };
            let visible = ids.iter().filter(|record| partition.committed.contains(record)).count();
            if visible != 0 && visible != ids.len() {
                return Err(format!(
                    "a part of transaction {number} is visible in partition {}",
                    id.partition
                ));
            }
            any |= visible != 0;
            if visible == 0 {
                missing = Some(id.partition);
            }
        }
        match missing {
            Some(partition) if is_promised => {
                Err(format!("transaction {number} was committed, and partition {partition} does not show it"))
            }
            Some(partition) if any && self.is_one_shard => {
                Err(format!("transaction {number} is visible, but not in partition {partition}"))
            }
            _ => Ok(()),
        }
    }

    /// The committed offset is the number of the last transaction that was committed.
    fn check_offset(&self, promised: u64, seen: &Seen) -> Result<(), String> {
        let committed = |(number, transaction): (&u64, &Transaction)| {
            (transaction.outcome == Outcome::Committed).then_some(*number)
        };
        let least = self.by_number.range(..=promised).filter_map(committed).max().unwrap_or(0);
        let offset = u64::try_from(seen.transfers.unwrap_or(0)).unwrap_or(u64::MAX);
        if offset < least {
            return Err(format!("the offset of transaction {least} was committed, the group is at {offset}"));
        }
        if offset == 0 {
            return Ok(());
        }
        let transaction =
            self.by_number.get(&offset).ok_or_else(|| format!("offset {offset} of no transaction"))?;
        if transaction.outcome == Outcome::Open {
            return Err(format!("the group has the offset of transaction {offset}, which was not committed"));
        }
        self.check_whole(offset, transaction, self.is_one_shard, seen)
    }
}
