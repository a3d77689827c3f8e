//! Which slices, blocks and batches can hold rows that pass a filter, told from their bounds.
//!
//! Invariant: what is ruled out holds no row that passes; what is said to pass as a whole holds no
//! row that does not. A bound that is not known rules nothing out.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, TimestampMillisecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::expressions::NotExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprSimplifier, conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};

use super::columns::SystemColumn;
use super::run::Coverage;
use super::unit::{NO_TIMESTAMP, Unit};
use crate::format::{BatchHeader, TimestampType};

/// The bounds of a unit of records: a slice, a block or a batch. All are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitBounds {
    partition: i32,
    base_offset: i64,
    last_offset: i64,
    min_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    /// Records without a timestamp.
    null_timestamps: Option<u64>,
    /// Control records too: they count among the records without a timestamp.
    records: u64,
    min_append_time_ms: i64,
    max_append_time_ms: i64,
}

impl UnitBounds {
    pub(super) fn new(partition: i32, unit: &Unit) -> Self {
        Self {
            partition,
            base_offset: unit.offsets.start,
            last_offset: unit.offsets.end - 1,
            min_timestamp: unit.timestamps.map(|(min, _)| min),
            max_timestamp: unit.timestamps.map(|(_, max)| max),
            // Where there may be fewer than it is said, only none is sure.
            null_timestamps: Some(unit.null_timestamps).filter(|count| *count == 0 || !unit.has_gaps),
            records: unit.data_count + unit.control_count,
            min_append_time_ms: unit.append_times.0,
            max_append_time_ms: unit.append_times.1,
        }
    }

    /// The header of a batch has the greatest timestamp, not the least: that is the block's, unless
    /// the batch has one time for all its records.
    pub(super) fn of_batch(&self, header: &BatchHeader) -> Self {
        let max_timestamp = (header.max_timestamp != NO_TIMESTAMP).then_some(header.max_timestamp);
        let min_timestamp = match header.timestamp_type() {
            TimestampType::LogAppendTime => max_timestamp,
            TimestampType::CreateTime => self.min_timestamp,
        };
        Self {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            min_timestamp,
            max_timestamp: max_timestamp.or(self.max_timestamp),
            null_timestamps: self.null_timestamps.filter(|count| *count == 0),
            records: u64::from(header.record_count.unsigned_abs()),
            ..*self
        }
    }

    fn bound(&self, column: SystemColumn, end: End) -> Option<i64> {
        match (column, end) {
            (SystemColumn::Timestamp, End::Min) => self.min_timestamp,
            (SystemColumn::Timestamp, End::Max) => self.max_timestamp,
            (SystemColumn::Offset, End::Min) => Some(self.base_offset),
            (SystemColumn::Offset, End::Max) => Some(self.last_offset),
            (SystemColumn::AppendTimestamp, End::Min) => Some(self.min_append_time_ms),
            (SystemColumn::AppendTimestamp, End::Max) => Some(self.max_append_time_ms),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum End {
    Min,
    Max,
}

/// The bounds of many units, as the query engine asks for them.
struct Units<'a>(&'a [UnitBounds]);

impl Units<'_> {
    fn bounds(&self, column: &Column, end: End) -> Option<ArrayRef> {
        let column = indexed(&column.name)?;
        let bounds = self.0.iter().map(|unit| unit.bound(column, end));
        Some(match column {
            SystemColumn::Partition => {
                Arc::new(self.0.iter().map(|unit| unit.partition).collect::<Int32Array>())
            }
            SystemColumn::Offset => Arc::new(bounds.collect::<Int64Array>()),
            _ => Arc::new(bounds.collect::<TimestampMillisecondArray>().with_timezone("UTC")),
        })
    }
}

/// The column of that name, if the index knows its bounds.
fn indexed(name: &str) -> Option<SystemColumn> {
    SystemColumn::ALL.into_iter().find(|column| column.is_indexed() && column.name() == name)
}

impl PruningStatistics for Units<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, End::Min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, End::Max)
    }

    fn num_containers(&self) -> usize {
        self.0.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let column = indexed(&column.name)?;
        let counts = self.0.iter().map(|unit| match column {
            SystemColumn::Timestamp => unit.null_timestamps,
            _ => Some(0),
        });
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.0.iter().map(|unit| unit.records).collect::<UInt64Array>()))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Rules units out by filters over the columns of the table.
#[derive(Clone, Debug)]
pub(super) struct Pruner {
    /// `None` when the filters can rule nothing out.
    predicate: Option<Arc<PruningPredicate>>,
}

impl Pruner {
    /// A dynamic filter is taken as it is now.
    pub(super) fn new(filters: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Self {
        if filters.is_empty() {
            return Self { predicate: None };
        }
        let builder = PruningPredicateBuilder::new().with_file_schema(schema.clone());
        Self { predicate: builder.build(conjunction(filters.iter().cloned())) }
    }

    /// For each unit, whether it may hold a row that passes. A predicate that cannot be evaluated
    /// rules nothing out: the scan will meet the same error in the rows, if it is one.
    pub(super) fn keep(&self, units: &[UnitBounds]) -> Vec<bool> {
        let all = || vec![true; units.len()];
        match &self.predicate {
            Some(predicate) if !units.is_empty() => predicate.prune(&Units(units)).unwrap_or_else(|_| all()),
            _ => all(),
        }
    }

    pub(super) fn rules_nothing_out(&self) -> bool {
        self.predicate.is_none()
    }
}

/// Finds units whose rows pass all filters, so that nobody needs to look at them.
#[derive(Debug)]
struct Covering {
    /// One for each filter of which the bounds can say that it is never false: rules out what the
    /// negation of the filter cannot be true for.
    negations: Vec<Arc<PruningPredicate>>,
    /// There is one for every filter.
    is_complete: bool,
    on_timestamp: bool,
}

impl Covering {
    fn new(filters: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Self {
        let (mut negations, mut on_timestamp) = (Vec::new(), false);
        for filter in filters {
            if let Some(negation) = negation(filter, schema) {
                negations.push(negation);
                let timestamp = SystemColumn::Timestamp.index();
                on_timestamp |= collect_columns(filter).iter().any(|column| column.index() == timestamp);
            }
        }
        Self { is_complete: negations.len() == filters.len(), negations, on_timestamp }
    }

    /// For each unit, whether all its rows pass every filter.
    fn covers(&self, units: &[UnitBounds]) -> Vec<bool> {
        if self.is_complete { self.covers_by_bounds(units) } else { vec![false; units.len()] }
    }

    /// For each unit, whether all its rows pass the filters that bounds say something of: no part of
    /// it can be ruled out by these. A filter is null, not false, for a record without a timestamp,
    /// and so is its negation: such a unit is never covered.
    fn covers_by_bounds(&self, units: &[UnitBounds]) -> Vec<bool> {
        let mut covered: Vec<bool> =
            units.iter().map(|unit| !self.on_timestamp || unit.null_timestamps == Some(0)).collect();
        for negation in &self.negations {
            let Ok(kept) = negation.prune(&Units(units)) else {
                return vec![false; units.len()];
            };
            covered.iter_mut().zip(kept).for_each(|(covered, kept)| *covered &= !kept);
        }
        covered
    }
}

/// The predicate that rules out units for which the filter is never false. Only filters over
/// columns that are never null, apart from the timestamp, can have one.
fn negation(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Arc<PruningPredicate>> {
    let is_indexed = |index: usize| SystemColumn::from_index(index).is_some_and(SystemColumn::is_indexed);
    if !collect_columns(filter).iter().all(|column| is_indexed(column.index())) {
        return None;
    }
    let negated = Arc::new(NotExpr::new(filter.clone()));
    let negated = PhysicalExprSimplifier::new(schema).simplify(negated).ok()?;
    PruningPredicateBuilder::new().with_file_schema(schema.clone()).build(negated)
}

/// The judgement of the filters that a scan is planned with.
#[derive(Debug)]
pub(super) struct Judge {
    pruner: Pruner,
    covering: Covering,
}

impl Judge {
    pub(super) fn new(filters: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Self {
        Self { pruner: Pruner::new(filters, schema), covering: Covering::new(filters, schema) }
    }

    pub(super) fn pruner(&self) -> &Pruner {
        &self.pruner
    }

    /// For each unit, what is known of its rows, apart from whether they are visible; `None` when no
    /// row passes.
    pub(super) fn judge(&self, units: &[UnitBounds]) -> Vec<Option<Coverage>> {
        let (keep, covered) = (self.pruner.keep(units), self.covering.covers(units));
        let verdict = |(keep, covered): (bool, bool)| {
            keep.then_some(if covered { Coverage::Full } else { Coverage::Unknown })
        };
        keep.into_iter().zip(covered).map(verdict).collect()
    }

    /// For each unit, whether filters may rule out a part of it.
    pub(super) fn cuts(&self, units: &[UnitBounds]) -> Vec<bool> {
        if self.pruner.rules_nothing_out() {
            return vec![false; units.len()];
        }
        self.covering.covers_by_bounds(units).into_iter().map(|covered| !covered).collect()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, is_not_null, is_null};
    use datafusion::physical_expr::expressions::{col, lit};

    use super::*;
    use crate::table::columns::{ColumnFormat, TableLayout};

    fn schema() -> SchemaRef {
        TableLayout::new(ColumnFormat::Text, ColumnFormat::Text, None).schema
    }

    fn unit(timestamps: Option<(i64, i64)>, null_timestamps: u64) -> UnitBounds {
        UnitBounds {
            partition: 1,
            base_offset: 100,
            last_offset: 109,
            min_timestamp: timestamps.map(|(min, _)| min),
            max_timestamp: timestamps.map(|(_, max)| max),
            null_timestamps: Some(null_timestamps),
            records: 10,
            min_append_time_ms: 5,
            max_append_time_ms: 6,
        }
    }

    fn compare(column: &str, operator: Operator, value: ScalarValue) -> Arc<dyn PhysicalExpr> {
        let schema = schema();
        binary(col(column, &schema).unwrap(), operator, lit(value), &schema).unwrap()
    }

    fn timestamp(value: i64) -> ScalarValue {
        ScalarValue::TimestampMillisecond(Some(value), Some("UTC".into()))
    }

    fn keeps(filter: Arc<dyn PhysicalExpr>, unit: UnitBounds) -> bool {
        Pruner::new(&[filter], &schema()).keep(&[unit])[0]
    }

    fn covers(filter: Arc<dyn PhysicalExpr>, unit: UnitBounds) -> bool {
        Covering::new(&[filter], &schema()).covers(&[unit])[0]
    }

    #[test]
    fn timestamps_rule_out_and_cover_at_their_exact_bounds() {
        let at_least = |value| compare("ts", Operator::GtEq, timestamp(value));
        let unit = unit(Some((20, 30)), 0);
        assert!(keeps(at_least(30), unit));
        assert!(!keeps(at_least(31), unit));
        assert!(covers(at_least(20), unit));
        assert!(!covers(at_least(21), unit));
    }

    #[test]
    fn a_unit_with_missing_timestamps_is_kept_for_its_others_and_never_covered() {
        let at_least = |value| compare("ts", Operator::GtEq, timestamp(value));
        let some_missing = unit(Some((20, 30)), 3);
        assert!(keeps(at_least(25), some_missing));
        assert!(!keeps(at_least(31), some_missing));
        assert!(!covers(at_least(20), some_missing));
        let all_missing = unit(None, 10);
        assert!(!keeps(at_least(0), all_missing));
    }

    #[test]
    fn null_tests_use_the_null_counts() {
        let schema = schema();
        let ts = col("ts", &schema).unwrap();
        let (null, not_null) = (is_null(ts.clone()).unwrap(), is_not_null(ts).unwrap());
        assert!(!keeps(null.clone(), unit(Some((1, 2)), 0)));
        assert!(keeps(null, unit(Some((1, 2)), 1)));
        assert!(!keeps(not_null, unit(None, 10)));
    }

    #[test]
    fn partition_and_offset_rule_out_and_cover() {
        let partition = |value| compare("_partition", Operator::Eq, ScalarValue::Int32(Some(value)));
        assert!(covers(partition(1), unit(None, 10)));
        assert!(!keeps(partition(2), unit(None, 10)));
        let offset = |operator, value| compare("_offset", operator, ScalarValue::Int64(Some(value)));
        assert!(!keeps(offset(Operator::Gt, 109), unit(None, 10)));
        assert!(covers(offset(Operator::LtEq, 109), unit(None, 10)));
        assert!(!covers(offset(Operator::Lt, 109), unit(None, 10)));
    }

    #[test]
    fn filters_on_other_columns_rule_out_and_cover_nothing() {
        let key = compare("_key", Operator::Eq, ScalarValue::Utf8View(Some("a".into())));
        assert!(keeps(key.clone(), unit(None, 10)));
        assert!(!covers(key, unit(None, 10)));
    }

    #[test]
    fn a_unit_is_cut_only_by_filters_that_bounds_speak_of() {
        let at_least = |value| compare("ts", Operator::GtEq, timestamp(value));
        let key = || compare("_key", Operator::Eq, ScalarValue::Utf8View(Some("a".into())));
        let cuts = |filters: &[_]| Judge::new(filters, &schema()).cuts(&[unit(Some((20, 30)), 0)])[0];
        assert!(cuts(&[at_least(21)]) && cuts(&[key(), at_least(21)]));
        assert!(!cuts(&[at_least(20)]) && !cuts(&[key(), at_least(20)]));
        assert!(!cuts(&[key()]) && !cuts(&[]));
    }

    #[test]
    fn no_filter_covers_everything() {
        assert_eq!(Covering::new(&[], &schema()).covers(&[unit(None, 10)]), [true]);
    }
}
