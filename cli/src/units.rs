//! Values as people write them: sizes (`64MiB`), durations (`7d`) and addresses (`127.0.0.1:9092`).
//!
//! Each type parses from text, prints as text that parses to the same value, and goes through
//! serde as that text, so that flags, environment and TOML agree.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A value that could not be read, with what would have been right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{value}\" is not {expected}")]
pub struct UnitError {
    value: String,
    expected: &'static str,
}

fn unit_error(value: &str, expected: &'static str) -> UnitError {
    UnitError { value: value.to_owned(), expected }
}

/// A number of bytes: `1048576`, `64KiB`, `64MiB`, `2GiB`, or decimal `64kB`, `64MB`, `2GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const SIZE_EXPECTED: &str = "a size such as 64MiB, 512KiB or 1048576";
const SIZE_UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

impl ByteSize {
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }

    /// As a length in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text);
        let factor = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let number: Option<u64> = number.parse().ok();
        number
            .zip(factor)
            .and_then(|(number, factor)| number.checked_mul(factor))
            .map(Self)
            .ok_or_else(|| unit_error(text, SIZE_EXPECTED))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = &SIZE_UNITS[..3];
        match binary.iter().find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor)) {
            Some((name, factor)) => write!(formatter, "{}{name}", self.0 / factor),
            None => write!(formatter, "{}", self.0),
        }
    }
}

/// A duration of one unit: `250ms`, `3s`, `10m`, `12h`, `7d`, or `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

const DURATION_EXPECTED: &str = "a duration such as 250ms, 3s, 10m, 12h or 7d";
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl HumanDuration {
    pub const fn seconds(count: u64) -> Self {
        Self(Duration::from_secs(count))
    }

    /// In whole milliseconds.
    pub fn as_millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

impl FromStr for HumanDuration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let (number, unit) = split_number(text);
        let factor = DURATION_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let number: Option<u64> = number.parse().ok();
        number
            .zip(factor)
            .and_then(|(number, factor)| number.checked_mul(factor))
            .map(|milliseconds| Self(Duration::from_millis(milliseconds)))
            .ok_or_else(|| unit_error(text, DURATION_EXPECTED))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if milliseconds == 0 {
            return formatter.write_str("0");
        }
        let unit = DURATION_UNITS.iter().find(|(_, factor)| milliseconds.is_multiple_of(*factor));
        let (name, factor) = unit.unwrap_or(&("ms", 1));
        write!(formatter, "{}{name}", milliseconds / factor)
    }
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Where something listens or is reached: `127.0.0.1:9092`, `localhost:9092`, `[::1]:9092`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, IPv6 without its brackets.
    pub host: String,
    pub port: u16,
}

const ADDRESS_EXPECTED: &str = "an address such as 127.0.0.1:9092";

impl HostPort {
    pub fn loopback(port: u16) -> Self {
        Self { host: Ipv4Addr::LOCALHOST.to_string(), port }
    }

    pub fn with_port(&self, port: u16) -> Self {
        Self { host: self.host.clone(), port }
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }
}

impl FromStr for HostPort {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (host, port) = text.rsplit_once(':').ok_or_else(|| unit_error(text, ADDRESS_EXPECTED))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_bare_ipv6 = bare.is_none() && host.contains(':');
        match port.parse() {
            Ok(port) if !host.is_empty() && !is_bare_ipv6 => {
                Ok(Self { host: bare.unwrap_or(host).to_owned(), port })
            }
            _ => Err(unit_error(text, ADDRESS_EXPECTED)),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// A value in a file may be a number where its text would be digits only.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(u64),
}

fn deserialize_text<'de, D: Deserializer<'de>, T: FromStr<Err = UnitError>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = match TextOrNumber::deserialize(deserializer)? {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    };
    text.parse().map_err(de::Error::custom)
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer)
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer)
    }
}

impl Serialize for HostPort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_in_both_unit_families_and_print_back() {
        for (text, bytes) in
            [("0", 0), ("1048576", 1 << 20), ("64MiB", 64 << 20), ("1kB", 1000), ("3 GiB", 3 << 30)]
        {
            let size: ByteSize = text.parse().expect(text);
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(size.to_string().parse(), Ok(size), "{text}");
        }
        for text in ["", "MiB", "64 mib", "1.5MiB", "-1", "99999999999GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_parse_and_print_in_the_largest_whole_unit() {
        for (text, milliseconds, printed) in [
            ("0", 0, "0"),
            ("250ms", 250, "250ms"),
            ("60s", 60_000, "1m"),
            ("7d", 604_800_000, "7d"),
            ("36h", 129_600_000, "36h"),
        ] {
            let duration: HumanDuration = text.parse().expect(text);
            assert_eq!(duration.as_millis(), milliseconds, "{text}");
            assert_eq!(duration.to_string(), printed, "{text}");
        }
        for text in ["", "10", "10 minutes", "d", "-1s", "99999999999999999999d"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_keep_ipv6_apart_from_the_port() {
        for (text, host, port) in
            [("127.0.0.1:9092", "127.0.0.1", 9092), ("[::1]:1", "::1", 1), ("localhost:0", "localhost", 0)]
        {
            let address: HostPort = text.parse().expect(text);
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "9092", "::1:9092", "host:", "host:70000", ":9092"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_count_as_loopback() {
        for (text, is_loopback) in [
            ("127.0.0.1:1", true),
            ("127.1.2.3:1", true),
            ("[::1]:1", true),
            ("localhost:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("box:1", false),
        ] {
            let address: HostPort = text.parse().expect(text);
            assert_eq!(address.is_loopback(), is_loopback, "{text}");
        }
    }
}
