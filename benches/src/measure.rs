//! Time and rates. MB are 10^6 bytes.

use std::time::Duration;

use strandline_storage::seam::{Clock, SystemClock};

/// Runs from its making on.
#[derive(Debug, Default)]
pub struct Stopwatch {
    clock: SystemClock,
}

impl Stopwatch {
    pub fn elapsed(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// A measured rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub bytes: u64,
    pub elapsed: Duration,
}

impl Rate {
    pub fn megabytes_per_second(self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }
}

/// The middle one of the samples, the upper of two; zero without samples.
pub fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// The sample that this share of all samples does not exceed; zero without samples.
pub fn percentile(mut samples: Vec<Duration>, share: f64) -> Duration {
    samples.sort_unstable();
    let rank = (samples.len() as f64 * share).ceil() as usize;
    samples.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The middle one of the values, the upper of two; zero without values.
pub fn median_value(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The middle one of rates, in MB/s.
pub fn median_rate(rates: impl Iterator<Item = Rate>) -> f64 {
    median_value(rates.map(Rate::megabytes_per_second))
}

pub fn milliseconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e3)
}

pub fn microseconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e6)
}

/// Two decimals are more than a measurement is good for.
pub fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_unsorted_samples() {
        let samples = |seconds: &[u64]| seconds.iter().map(|s| Duration::from_secs(*s)).collect::<Vec<_>>();
        assert_eq!(median(samples(&[9, 1, 5])), Duration::from_secs(5));
        assert_eq!(median(samples(&[4, 1])), Duration::from_secs(4));
        assert_eq!(median(samples(&[])), Duration::ZERO);
    }

    #[test]
    fn a_percentile_is_a_sample() {
        let samples = || (1..=200).map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(percentile(samples(), 0.99), Duration::from_millis(198));
        assert_eq!(percentile(samples(), 1.0), Duration::from_millis(200));
        assert_eq!(percentile(Vec::new(), 0.5), Duration::ZERO);
    }

    #[test]
    fn rates_are_in_decimal_megabytes() {
        let rate = Rate { bytes: 3_000_000, elapsed: Duration::from_millis(1500) };
        assert_eq!(rounded(rate.megabytes_per_second()), 2.0);
        let slower = Rate { bytes: 1, ..rate };
        assert_eq!(median_rate([rate, slower, rate].into_iter()), rate.megabytes_per_second());
    }
}
