//! Time zones: IANA names and offsets, and the way between an instant and the time on a wall clock.

use chrono::{DateTime, FixedOffset, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};

/// A time zone by name or by its distance from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    Named(Tz),
    Fixed(FixedOffset),
}

/// The offset that PostgreSQL allows at most, in seconds.
const OFFSET_SECONDS_MAX: i32 = 16 * 3600 - 1;

impl Zone {
    pub(crate) const UTC: Self = Self::Named(Tz::UTC);

    /// A zone by its name (without regard to case) or as an offset: `+05:30`, `-7`, `Z`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("z") || text.eq_ignore_ascii_case("utc") {
            return Some(Self::UTC);
        }
        if text.starts_with(['+', '-']) || text.starts_with(|first: char| first.is_ascii_digit()) {
            return parse_offset(text).map(Self::Fixed);
        }
        TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(text)).copied().map(Self::Named)
    }

    pub(crate) fn is_utc(self) -> bool {
        match self {
            Self::Named(zone) => {
                matches!(zone.name(), "UTC" | "Etc/UTC" | "Etc/UCT" | "UCT" | "Zulu" | "Etc/Zulu")
            }
            Self::Fixed(offset) => offset.local_minus_utc() == 0,
        }
    }

    /// How PostgreSQL prints the zone in SHOW.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Named(zone) => zone.name().to_owned(),
            Self::Fixed(offset) => offset.to_string(),
        }
    }

    /// The offset from UTC at an instant.
    pub(crate) fn offset_at(self, instant: DateTime<Utc>) -> FixedOffset {
        match self {
            Self::Named(zone) => zone.offset_from_utc_datetime(&instant.naive_utc()).fix(),
            Self::Fixed(offset) => offset,
        }
    }

    /// What a wall clock in this zone shows at an instant.
    pub(crate) fn local(self, instant: DateTime<Utc>) -> Option<NaiveDateTime> {
        let offset = self.offset_at(instant);
        instant.naive_utc().checked_add_offset(offset)
    }

    /// The instant at which a wall clock in this zone shows a time. A time that exists twice is the
    /// later one, a time that is skipped is read with the offset before the gap, as in PostgreSQL.
    pub(crate) fn instant(self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        let zone = match self {
            Self::Fixed(offset) => return local.checked_sub_offset(offset).map(|utc| utc.and_utc()),
            Self::Named(zone) => zone,
        };
        match zone.from_local_datetime(&local) {
            LocalResult::Single(instant) | LocalResult::Ambiguous(_, instant) => {
                Some(instant.with_timezone(&Utc))
            }
            LocalResult::None => {
                let before = local.checked_sub_signed(TimeDelta::hours(24))?;
                let offset = zone.offset_from_local_datetime(&before).earliest()?.fix();
                local.checked_sub_offset(offset).map(|utc| utc.and_utc())
            }
        }
    }
}

/// `+05:30`, `-0530`, `+5`, `5.5` (hours, as `SET TIME ZONE 5.5` has them).
fn parse_offset(text: &str) -> Option<FixedOffset> {
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let seconds = if let Some((hours, fraction)) = digits.split_once('.') {
        let fraction: f64 = format!("0.{fraction}").parse().ok()?;
        // Below an hour, so that the conversion cannot lose anything.
        number(hours)? * 3600 + (fraction * 3600.0).round() as i32
    } else if digits.contains(':') {
        let mut parts = digits.split(':');
        let mut seconds = number(parts.next()?)? * 3600;
        seconds += parts.next().map_or(Some(0), minutes)? * 60;
        seconds += parts.next().map_or(Some(0), minutes)?;
        if parts.next().is_some() {
            return None;
        }
        seconds
    } else {
        match digits.len() {
            1 | 2 => number(digits)? * 3600,
            3 | 4 => number(&digits[..digits.len() - 2])? * 3600 + minutes(&digits[digits.len() - 2..])? * 60,
            _ => return None,
        }
    };
    if seconds > OFFSET_SECONDS_MAX {
        return None;
    }
    FixedOffset::east_opt(if negative { -seconds } else { seconds })
}

fn number(text: &str) -> Option<i32> {
    let plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn minutes(text: &str) -> Option<i32> {
    number(text).filter(|minutes| *minutes < 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> NaiveDateTime {
        text.parse().expect("a test's own time")
    }

    #[test]
    fn zones_are_read_by_name_and_by_offset() {
        for (text, name) in [
            ("utc", "UTC"),
            ("asia/kolkata", "Asia/Kolkata"),
            ("+05:30", "+05:30"),
            ("-7", "-07:00"),
            ("+0530", "+05:30"),
            ("5.5", "+05:30"),
        ] {
            assert_eq!(Zone::parse(text).map(Zone::name).as_deref(), Some(name), "{text}");
        }
        for text in ["", "+", "Mars/Olympus", "+99", "+05:75", "+1:2:3:4", "++5", "é"] {
            assert_eq!(Zone::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_repeated_hour_is_the_later_one_and_a_skipped_one_moves_forward() {
        let denver = Zone::parse("America/Denver").unwrap();
        let repeated = denver.instant(local("2024-11-03T01:30:00")).unwrap();
        assert_eq!(repeated.to_rfc3339(), "2024-11-03T08:30:00+00:00");
        let skipped = denver.instant(local("2024-03-10T02:30:00")).unwrap();
        assert_eq!(skipped.to_rfc3339(), "2024-03-10T09:30:00+00:00");
        assert_eq!(denver.local(skipped), Some(local("2024-03-10T03:30:00")));
    }
}
