//! Functions of times: between instants and wall clocks, cut to units and buckets, as text.
//!
//! Instants keep the precision that they come in, so that a time that only fits milliseconds never
//! has to fit nanoseconds.

use std::sync::Arc;

use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime, TimeDelta, Timelike, Utc};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, IntervalMonthDayNanoArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;

use super::scalar::{Column, Inputs, Scalar};
use super::{CEIL_MS, EXACT_MS, FLOOR_MS, HAS_INSTANT, SHIFT, TIMESTAMP, TIMESTAMPTZ, TIMEZONE};
use crate::error::SqlError;
use crate::time::literal::{self, Clock};
use crate::time::zone::Zone;

pub(super) fn functions() -> Vec<Scalar> {
    vec![
        Scalar::new(TIMEZONE, (2, 2), |types| Ok(other_side(&types[1])), timezone),
        whole_ms(CEIL_MS, Whole::Up),
        whole_ms(FLOOR_MS, Whole::Down),
        whole_ms(EXACT_MS, Whole::Exact),
        Scalar::new(TIMESTAMPTZ, (2, 2), |types| Ok(instant_type(unit_of(&types[0]))), to_instant),
        Scalar::new(
            TIMESTAMP,
            (2, 2),
            |types| Ok(DataType::Timestamp(unit_of(&types[0]), None)),
            to_wall_clock,
        ),
        Scalar::of_type(HAS_INSTANT, (2, 2), DataType::Boolean, has_instant),
        Scalar::new(SHIFT, (4, 4), |types| time_type(&types[0]), shift),
        Scalar::new("date_bin", (2, 3), |types| time_type(&types[1]), |inputs| bucket(inputs, EPOCH_ORIGIN)),
        Scalar::new(
            "time_bucket",
            (2, 3),
            |types| time_type(&types[1]),
            |inputs| bucket(inputs, MONDAY_ORIGIN),
        ),
    ]
}

pub(super) fn instant_type(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("UTC".into()))
}

/// The precision of a time, microseconds for what is no timestamp.
fn unit_of(data_type: &DataType) -> TimeUnit {
    match data_type {
        DataType::Timestamp(unit, _) => *unit,
        _ => TimeUnit::Microsecond,
    }
}

/// The type of a time, dates being timestamps at midnight.
pub(super) fn time_type(data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Timestamp(..) => Ok(data_type.clone()),
        DataType::Date32 | DataType::Date64 | DataType::Null => {
            Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        other => plan_err!("a time is needed, not {other}"),
    }
}

/// `timezone` turns an instant into a time on a wall clock and back.
fn other_side(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
        other => instant_type(unit_of(other)),
    }
}

/// An argument that holds times, as numbers of its unit.
pub(super) struct Times {
    pub(super) values: Column<Int64Array>,
    pub(super) unit: TimeUnit,
    pub(super) is_instant: bool,
}

impl Times {
    pub(super) fn of(inputs: &Inputs, index: usize) -> Result<Self> {
        let data_type = time_type(inputs.array(index)?.data_type())?;
        let DataType::Timestamp(unit, zone) = &data_type else {
            return exec_err!("a time is needed, not {data_type}");
        };
        let times = inputs.cast(index, &data_type)?;
        let values = inputs.with_array(index, cast(&times, &DataType::Int64)?)?;
        Ok(Self { values, unit: *unit, is_instant: zone.is_some() })
    }

    /// The time of a row, read as if it were UTC; `None` also for what no calendar holds.
    pub(super) fn get(&self, row: usize) -> Option<DateTime<Utc>> {
        self.values.get(row).and_then(|value| date_time(value, self.unit))
    }

    fn micros(&self, row: usize) -> Option<i128> {
        self.values.get(row).map(|value| i128::from(value) * 1_000_000 / i128::from(per_second(self.unit)))
    }
}

pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

pub(super) fn date_time(value: i64, unit: TimeUnit) -> Option<DateTime<Utc>> {
    match unit {
        TimeUnit::Second => DateTime::from_timestamp_secs(value),
        TimeUnit::Millisecond => DateTime::from_timestamp_millis(value),
        TimeUnit::Microsecond => DateTime::from_timestamp_micros(value),
        TimeUnit::Nanosecond => Some(DateTime::from_timestamp_nanos(value)),
    }
}

pub(super) fn number(time: DateTime<Utc>, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => Some(time.timestamp()),
        TimeUnit::Millisecond => Some(time.timestamp_millis()),
        TimeUnit::Microsecond => Some(time.timestamp_micros()),
        TimeUnit::Nanosecond => time.timestamp_nanos_opt(),
    }
}

/// An array of times from numbers of their unit.
pub(super) fn times(
    values: impl Iterator<Item = Result<Option<i64>>>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let numbers: ArrayRef = Arc::new(values.collect::<Result<Int64Array>>()?);
    Ok(cast(&numbers, data_type)?)
}

/// The zones of an argument; the last one is kept, because it rarely changes between rows.
pub(super) struct Zones {
    names: Column<datafusion::arrow::array::StringArray>,
    last: Option<(String, Zone)>,
}

impl Zones {
    pub(super) fn of(inputs: &Inputs, index: usize) -> Result<Self> {
        Ok(Self { names: inputs.texts(index)?, last: None })
    }

    pub(super) fn get(&mut self, row: usize) -> Result<Option<Zone>> {
        let Some(name) = self.names.get(row) else { return Ok(None) };
        if let Some((last, zone)) = &self.last
            && last == name
        {
            return Ok(Some(*zone));
        }
        let Some(zone) = Zone::parse(name) else {
            return exec_err!("time zone \"{name}\" not recognized");
        };
        self.last = Some((name.to_owned(), zone));
        Ok(Some(zone))
    }
}

fn timezone(inputs: &Inputs) -> Result<ArrayRef> {
    let mut zones = Zones::of(inputs, 0)?;
    let source = Times::of(inputs, 1)?;
    let target = other_side(&time_type(inputs.array(1)?.data_type())?);
    let values = inputs.rows().map(|row| {
        let (Some(zone), Some(time)) = (zones.get(row)?, source.get(row)) else { return Ok(None) };
        let moved = if source.is_instant {
            zone.local(time).map(|local| local.and_utc())
        } else {
            zone.instant(time.naive_utc())
        };
        Ok(moved.and_then(|time| number(time, source.unit)))
    });
    times(values, &target)
}

/// How a time becomes a whole millisecond.
#[derive(Clone, Copy)]
enum Whole {
    Up,
    Down,
    /// Only when it is one; else the least number, which no record has as its time.
    Exact,
}

impl Whole {
    /// `finer` units make a millisecond.
    fn of(self, value: i64, finer: i64) -> i64 {
        match self {
            Self::Up => value.saturating_add(finer - 1).div_euclid(finer),
            Self::Down => value.div_euclid(finer),
            Self::Exact if value.rem_euclid(finer) == 0 => value.div_euclid(finer),
            Self::Exact => i64::MIN,
        }
    }
}

fn whole_ms(name: &'static str, whole: Whole) -> Scalar {
    let data_type = instant_type(TimeUnit::Millisecond);
    Scalar::of_type(name, (2, 2), data_type.clone(), move |inputs| {
        let source = inputs.array(0)?.data_type();
        let instants = if matches!(source, DataType::Timestamp(_, Some(_)) | DataType::Null) {
            Times::of(inputs, 0)?
        } else {
            // Texts and times on a wall clock are read in the zone, as a cast would.
            let instants = to_instant(inputs)?;
            let unit = unit_of(instants.data_type());
            let values = inputs.with_array(0, cast(&instants, &DataType::Int64)?)?;
            Times { values, unit, is_instant: true }
        };
        let finer = (per_second(instants.unit) / 1000).max(1);
        let coarser = (1000 / per_second(instants.unit)).max(1);
        let value = |value: i64| whole.of(value, finer).saturating_mul(coarser);
        times(inputs.rows().map(|row| Ok(instants.values.get(row).map(value))), &data_type)
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Texts read as times in the zone of their row, in microseconds.
fn parsed_texts(
    inputs: &Inputs,
    mut zones: Zones,
    parse: fn(&str, Clock) -> std::result::Result<i64, SqlError>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let texts = inputs.texts(0)?;
    let values = inputs.rows().map(|row| {
        let (Some(text), Some(zone)) = (texts.get(row), zones.get(row)?) else { return Ok(None) };
        parse(text, Clock { now_us: None, zone }).map(Some).map_err(|error| exec_datafusion_err!("{error}"))
    });
    times(values, data_type)
}

/// A cast to timestamptz.
fn to_instant(inputs: &Inputs) -> Result<ArrayRef> {
    let mut zones = Zones::of(inputs, 1)?;
    let data_type = inputs.array(0)?.data_type().clone();
    if is_text(&data_type) {
        return parsed_texts(inputs, zones, literal::instant_us, &instant_type(TimeUnit::Microsecond));
    }
    let source = Times::of(inputs, 0)?;
    let values = inputs.rows().map(|row| {
        if source.is_instant {
            return Ok(source.values.get(row));
        }
        let (Some(zone), Some(local)) = (zones.get(row)?, source.get(row)) else { return Ok(None) };
        Ok(zone.instant(local.naive_utc()).and_then(|instant| number(instant, source.unit)))
    });
    times(values, &instant_type(source.unit))
}

/// A cast to timestamp.
fn to_wall_clock(inputs: &Inputs) -> Result<ArrayRef> {
    let mut zones = Zones::of(inputs, 1)?;
    let data_type = inputs.array(0)?.data_type().clone();
    if is_text(&data_type) {
        return parsed_texts(
            inputs,
            zones,
            literal::local_us,
            &DataType::Timestamp(TimeUnit::Microsecond, None),
        );
    }
    let source = Times::of(inputs, 0)?;
    let values = inputs.rows().map(|row| {
        if !source.is_instant {
            return Ok(source.values.get(row));
        }
        let (Some(zone), Some(instant)) = (zones.get(row)?, source.get(row)) else { return Ok(None) };
        Ok(zone.local(instant).and_then(|local| number(local.and_utc(), source.unit)))
    });
    times(values, &DataType::Timestamp(source.unit, None))
}

/// Whether an array has an instant; both are compared in the finer precision of theirs.
fn has_instant(inputs: &Inputs) -> Result<ArrayRef> {
    let lists = inputs.array(0)?;
    let DataType::List(_) = lists.data_type() else {
        return exec_err!("an array of times is needed, not {}", lists.data_type());
    };
    let lists = lists.as_list::<i32>();
    let source = Times::of(inputs, 1)?;
    let mut last: Option<(usize, Elements)> = None;
    let found = inputs.rows().map(|row| {
        let index = inputs.row_of(0, row);
        let Some(value) = source.values.get(row) else { return Ok(None) };
        if !lists.is_valid(index) {
            return Ok(None);
        }
        if last.as_ref().is_none_or(|(known, _)| *known != index) {
            last = Some((index, Elements::of(&lists.value(index))?));
        }
        let value = nanos(value, source.unit);
        Ok(last.as_ref().and_then(|(_, elements)| elements.have(value)))
    });
    Ok(Arc::new(found.collect::<Result<BooleanArray>>()?))
}

/// The instants of an array, in nanoseconds.
struct Elements {
    instants: Vec<i128>,
    have_null: bool,
}

impl Elements {
    fn of(elements: &ArrayRef) -> Result<Self> {
        let DataType::Timestamp(unit, _) = elements.data_type() else {
            return exec_err!("an array of times is needed, not of {}", elements.data_type());
        };
        let values = cast(elements, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        let instants = values.iter().flatten().map(|value| nanos(value, *unit)).collect();
        Ok(Self { instants, have_null: values.null_count() > 0 })
    }

    /// Where one element is NULL, it cannot be known that none is the value.
    fn have(&self, value: i128) -> Option<bool> {
        let found = self.instants.contains(&value);
        (found || !self.have_null).then_some(found)
    }
}

fn nanos(value: i64, unit: TimeUnit) -> i128 {
    i128::from(value) * i128::from(1_000_000_000 / per_second(unit))
}

/// The difference of two times as PostgreSQL has it: whole days apart from the rest.
fn days_and_time(nanos: i64) -> IntervalMonthDayNano {
    const DAY_NS: i64 = 86_400_000_000_000;
    let days = i32::try_from(nanos / DAY_NS).expect("64 bits of nanoseconds are some 100,000 days");
    IntervalMonthDayNano::new(0, days, nanos % DAY_NS)
}

/// An instant plus or minus an interval: months and days are counted on the clock of a zone.
fn shift(inputs: &Inputs) -> Result<ArrayRef> {
    let source = Times::of(inputs, 0)?;
    let intervals = intervals(inputs, 1)?;
    let mut zones = Zones::of(inputs, 2)?;
    let signs = inputs.integers(3)?;
    let data_type = time_type(inputs.array(0)?.data_type())?;
    let values = inputs.rows().map(|row| {
        let (Some(time), Some(interval)) = (source.get(row), intervals.native(row)) else { return Ok(None) };
        let (Some(zone), Some(sign)) = (zones.get(row)?, signs.get(row)) else { return Ok(None) };
        match shifted(time, interval, zone, sign).and_then(|time| number(time, source.unit)) {
            Some(value) => Ok(Some(value)),
            None => exec_err!("timestamp out of range"),
        }
    });
    times(values, &data_type)
}

fn shifted(
    time: DateTime<Utc>,
    interval: IntervalMonthDayNano,
    zone: Zone,
    sign: i64,
) -> Option<DateTime<Utc>> {
    let (months, days) = (i64::from(interval.months) * sign, i64::from(interval.days) * sign);
    let mut time = time;
    if months != 0 || days != 0 {
        let local = zone.local(time)?;
        let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
        let local =
            if months < 0 { local.checked_sub_months(count)? } else { local.checked_add_months(count)? };
        time = zone.instant(local.checked_add_signed(TimeDelta::try_days(days)?)?)?;
    }
    time.checked_add_signed(TimeDelta::nanoseconds(interval.nanoseconds.checked_mul(sign)?))
}

/// An argument that holds intervals or durations.
pub(super) fn intervals(inputs: &Inputs, index: usize) -> Result<Column<IntervalMonthDayNanoArray>> {
    let target = DataType::Interval(IntervalUnit::MonthDayNano);
    if let DataType::Duration(_) = inputs.array(index)?.data_type() {
        let nanos = inputs.cast(index, &DataType::Duration(TimeUnit::Nanosecond))?;
        let nanos = cast(&nanos, &DataType::Int64)?;
        let parts = nanos.as_primitive::<Int64Type>().iter().map(|nanos| nanos.map(days_and_time));
        return inputs.with_array(index, Arc::new(parts.collect::<IntervalMonthDayNanoArray>()));
    }
    inputs.column(index, &target)
}

/// Where buckets begin to be counted: of days and less, and of months.
#[derive(Clone, Copy)]
struct Origin {
    micros: i64,
    /// Months since the year 0.
    months: i64,
}

const EPOCH_ORIGIN: Origin = Origin { micros: 0, months: 1970 * 12 };
/// Monday, 3 January 2000, so that weeks begin on Mondays.
const MONDAY_ORIGIN: Origin = Origin { micros: 946_857_600_000_000, months: 2000 * 12 };

/// `date_bin` and `time_bucket`: the beginning of the bucket that a time lies in.
fn bucket(inputs: &Inputs, origin: Origin) -> Result<ArrayRef> {
    let widths = intervals(inputs, 0)?;
    let source = Times::of(inputs, 1)?;
    let data_type = time_type(inputs.array(1)?.data_type())?;
    let origins = if inputs.count() > 2 { Some(Times::of(inputs, 2)?) } else { None };
    let values = inputs.rows().map(|row| {
        let (Some(width), Some(_)) = (widths.native(row), source.values.get(row)) else { return Ok(None) };
        let from = match &origins {
            None => None,
            Some(origins) => match origins.micros(row) {
                None => return Ok(None),
                from => from,
            },
        };
        if width.months != 0 {
            return month_bucket(&source, row, width, from, origin);
        }
        let width_us = i128::from(width.days) * 86_400_000_000 + i128::from(width.nanoseconds) / 1000;
        if width_us <= 0 {
            return exec_err!("the width of a bucket must be greater than zero");
        }
        let Some(micros) = source.micros(row) else { return Ok(None) };
        let from = from.unwrap_or(i128::from(origin.micros));
        let begin = (micros - from).div_euclid(width_us) * width_us + from;
        let value = begin * i128::from(per_second(source.unit)) / 1_000_000;
        Ok(i64::try_from(value).ok())
    });
    times(values, &data_type)
}

fn month_bucket(
    source: &Times,
    row: usize,
    width: IntervalMonthDayNano,
    from: Option<i128>,
    origin: Origin,
) -> Result<Option<i64>> {
    if width.days != 0 || width.nanoseconds != 0 || width.months < 0 {
        return exec_err!("a bucket of months cannot have days or a time");
    }
    if from.is_some() {
        return exec_err!("a bucket of months cannot have an origin");
    }
    let Some(time) = source.get(row) else { return Ok(None) };
    let months = i64::from(time.year()) * 12 + i64::from(time.month0()) - origin.months;
    let begin = months.div_euclid(i64::from(width.months)) * i64::from(width.months) + origin.months;
    let year = i32::try_from(begin.div_euclid(12)).ok();
    let first = year.and_then(|year| NaiveDate::from_ymd_opt(year, 1, 1));
    let day = first.and_then(|first| first.checked_add_months(Months::new(begin.rem_euclid(12) as u32)));
    Ok(day.and_then(|day| number(day.and_time(NaiveTime::MIN).and_utc(), source.unit)))
}

/// A time as PostgreSQL prints it: the fraction without trailing zeros, the offset as short as it is.
pub(super) fn shown(time: DateTime<Utc>, zone: Option<Zone>) -> Option<String> {
    let local = match zone {
        Some(zone) => zone.local(time)?,
        None => time.naive_utc(),
    };
    let (year, era) = match local.year() {
        year @ 1.. => (year, ""),
        before => (1 - before, " BC"),
    };
    let mut text = format!("{year:04}-{}", local.format("%m-%d %H:%M:%S"));
    let micros = (local.nanosecond() + 500) / 1000;
    if micros > 0 && micros < 1_000_000 {
        text.push_str(format!(".{micros:06}").trim_end_matches('0'));
    }
    if let Some(zone) = zone {
        text.push_str(&offset(zone.offset_at(time).local_minus_utc()));
    }
    text.push_str(era);
    Some(text)
}

fn offset(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = TimeDelta::seconds(i64::from(seconds.abs()));
    let (hours, minutes, rest) =
        (seconds.num_hours(), seconds.num_minutes() % 60, seconds.num_seconds() % 60);
    match (minutes, rest) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
}
