//! What became of the lines, for the summary and the exit code.

use std::collections::BTreeMap;

use super::timestamp::ParsedTimestamp;
use crate::failure::Failure;
use crate::output::grouped;

/// Rejected lines are named one by one up to this number, then counted.
const NAMED_MAX: u64 = 100;

#[derive(Debug)]
pub struct Report {
    topic: String,
    records: u64,
    rejected: u64,
    empty: u64,
    /// First and last offset, by partition.
    offsets: BTreeMap<i32, (i64, i64)>,
    has_timestamp: bool,
}

impl Report {
    pub fn new(topic: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            records: 0,
            rejected: 0,
            empty: 0,
            offsets: BTreeMap::new(),
            has_timestamp: false,
        }
    }

    pub fn acknowledged(&mut self, partition: i32, base_offset: i64, records: u64) {
        self.records += records;
        let last = base_offset.saturating_add_unsigned(records).saturating_sub(1);
        let range = self.offsets.entry(partition).or_insert((base_offset, last));
        *range = (range.0.min(base_offset), range.1.max(last));
    }

    /// The note to show for the first time of the input, so that a wrong reading is seen at once.
    pub fn first_timestamp(&mut self, line: u64, timestamp: &ParsedTimestamp) -> Option<String> {
        if self.has_timestamp {
            return None;
        }
        self.has_timestamp = true;
        Some(format!("first time, line {line}: {}", timestamp.describe()))
    }

    /// The note to show for a rejected line, while there are not too many.
    pub fn rejected(&mut self, line: u64, reason: &str) -> Option<String> {
        self.rejected += 1;
        match self.rejected {
            ..=NAMED_MAX => Some(format!("line {line} rejected: {reason}")),
            rejected if rejected == NAMED_MAX + 1 => {
                Some("further rejected lines are only counted".to_owned())
            }
            _ => None,
        }
    }

    pub fn skipped_empty(&mut self) {
        self.empty += 1;
    }

    pub fn summary(&self) -> String {
        let mut text = format!("{} to topic \"{}\"\n", count(self.records, "record"), self.topic);
        for (partition, (first, last)) in &self.offsets {
            text.push_str(&format!("  partition {partition}: offsets {first} to {last}\n"));
        }
        if self.empty > 0 {
            text.push_str(&format!("{} skipped\n", count(self.empty, "empty line")));
        }
        if self.rejected > 0 {
            text.push_str(&format!("{} rejected\n", count(self.rejected, "line")));
        }
        text
    }

    pub fn outcome(&self) -> Result<(), Failure> {
        match self.rejected {
            0 => Ok(()),
            rejected => Err(Failure::failed(format!("{} rejected", count(rejected, "line")))),
        }
    }
}

fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_was_acknowledged_by_partition() {
        let mut report = Report::new("events");
        report.acknowledged(1, 100, 50);
        report.acknowledged(0, 0, 1);
        report.acknowledged(1, 150, 1);
        assert_eq!(
            report.summary(),
            "52 records to topic \"events\"\n  partition 0: offsets 0 to 0\n  partition 1: offsets 100 to 150\n"
        );
        assert!(report.outcome().is_ok());
    }

    #[test]
    fn many_rejected_lines_are_counted_but_not_all_named() {
        let mut report = Report::new("events");
        let notes: Vec<String> = (1..=150).filter_map(|line| report.rejected(line, "no")).collect();
        assert_eq!(notes.len(), 101);
        assert_eq!(notes[0], "line 1 rejected: no");
        assert!(report.summary().ends_with("150 lines rejected\n"));
        assert!(report.outcome().is_err());
    }
}
