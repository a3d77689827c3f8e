//! What the topic will take, known beforehand so that a line can be named before it is sent.

use crate::kafka_client::TopicSetting;
use crate::output::grouped;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicLimits {
    pub batch_bytes_max: usize,
    timestamp_before_ms: i64,
    timestamp_after_ms: i64,
}

impl TopicLimits {
    /// A setting that the server does not name does not limit.
    pub fn of(settings: &[TopicSetting]) -> Self {
        let number = |name: &str| {
            let setting = settings.iter().find(|setting| setting.name == name);
            setting.and_then(|setting| setting.value.parse().ok()).unwrap_or(i64::MAX)
        };
        let is_append_time = settings
            .iter()
            .any(|setting| setting.name == "message.timestamp.type" && setting.value == "LogAppendTime");
        let time = |name: &str| if is_append_time { i64::MAX } else { number(name) };
        Self {
            batch_bytes_max: usize::try_from(number("max.message.bytes")).unwrap_or(usize::MAX),
            timestamp_before_ms: time("message.timestamp.before.max.ms"),
            timestamp_after_ms: time("message.timestamp.after.max.ms"),
        }
    }

    pub fn check_timestamp(&self, timestamp: i64, now_ms: i64) -> Result<(), String> {
        let ahead_ms = timestamp.saturating_sub(now_ms);
        if ahead_ms > self.timestamp_after_ms {
            let max = self.timestamp_after_ms;
            return Err(format!(
                "its time is {ahead_ms} ms ahead of the clock; the topic's message.timestamp.after.max.ms is {max}"
            ));
        }
        if now_ms.saturating_sub(timestamp) > self.timestamp_before_ms {
            let (behind_ms, max) = (now_ms.saturating_sub(timestamp), self.timestamp_before_ms);
            return Err(format!(
                "its time is {behind_ms} ms behind the clock; the topic's message.timestamp.before.max.ms is {max}"
            ));
        }
        Ok(())
    }

    /// Only a batch of one record can be too large: others are closed before they are.
    pub fn check_batch(&self, size: usize) -> Result<(), String> {
        if size <= self.batch_bytes_max {
            return Ok(());
        }
        Err(format!(
            "its record needs a batch of {} bytes; the topic's max.message.bytes is {}",
            grouped(size as u64),
            grouped(self.batch_bytes_max as u64)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Vec<TopicSetting> {
        let setting = |(name, value): &(&str, &str)| TopicSetting {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            is_default: false,
        };
        pairs.iter().map(setting).collect()
    }

    #[test]
    fn a_time_beyond_the_bounds_is_refused_naming_the_setting() {
        let limits = TopicLimits::of(&settings(&[
            ("message.timestamp.after.max.ms", "1000"),
            ("message.timestamp.before.max.ms", "5000"),
        ]));
        assert_eq!(limits.check_timestamp(11_000, 10_000), Ok(()));
        assert_eq!(limits.check_timestamp(5_000, 10_000), Ok(()));
        assert!(
            limits
                .check_timestamp(11_001, 10_000)
                .is_err_and(|reason| reason.contains("after.max.ms is 1000"))
        );
        assert!(
            limits
                .check_timestamp(4_999, 10_000)
                .is_err_and(|reason| reason.contains("before.max.ms is 5000"))
        );
    }

    #[test]
    fn the_clients_time_does_not_matter_where_the_server_stamps() {
        let limits = TopicLimits::of(&settings(&[
            ("message.timestamp.after.max.ms", "1000"),
            ("message.timestamp.type", "LogAppendTime"),
        ]));
        assert_eq!(limits.check_timestamp(i64::MAX, 0), Ok(()));
    }

    #[test]
    fn a_batch_of_exactly_the_limit_fits() {
        let limits = TopicLimits::of(&settings(&[("max.message.bytes", "1048588")]));
        assert_eq!(limits.check_batch(1_048_588), Ok(()));
        assert!(limits.check_batch(1_048_589).is_err_and(|reason| reason.contains("1,048,588")));
        assert_eq!(TopicLimits::of(&[]).check_batch(usize::MAX >> 1), Ok(()));
    }
}
