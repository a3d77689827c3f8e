//! The PostgreSQL types that are in use: their object identifiers, names and catalog facts, and
//! which of them an Arrow field stands for.
//!
//! Invariant: the numbers are PostgreSQL's own (`src/include/catalog/pg_type.dat`), because drivers
//! have them built in.

use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

/// The key in a field's metadata whose value is a [`PgType::name`] that overrides the Arrow type.
pub const TYPE_METADATA_KEY: &str = "strandline.type";

/// A PostgreSQL type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PgType {
    Bool,
    Bytea,
    Char,
    Name,
    Int8,
    Int2,
    Int2Vector,
    Int4,
    Regproc,
    Text,
    Oid,
    OidVector,
    Json,
    Float4,
    Float8,
    Unknown,
    BpChar,
    Varchar,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Numeric,
    Regclass,
    Regtype,
    Uuid,
    Jsonb,
    Void,
    Record,
    BoolArray,
    ByteaArray,
    CharArray,
    NameArray,
    Int2Array,
    Int4Array,
    TextArray,
    VarcharArray,
    Int8Array,
    Float4Array,
    Float8Array,
    OidArray,
    TimestampArray,
    DateArray,
    TimeArray,
    TimestamptzArray,
    IntervalArray,
    NumericArray,
    UuidArray,
    JsonArray,
    JsonbArray,
}

/// What pg_type says about a type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeFacts {
    pub(crate) kind: PgType,
    pub(crate) oid: u32,
    /// `pg_type.typname`.
    pub(crate) name: &'static str,
    /// What `format_type` prints.
    pub(crate) display: &'static str,
    /// In bytes; -1 = of varying length.
    pub(crate) length: i16,
    pub(crate) category: char,
    pub(crate) element: Option<PgType>,
}

const fn scalar(
    kind: PgType,
    oid: u32,
    name: &'static str,
    display: &'static str,
    length: i16,
    category: char,
) -> TypeFacts {
    TypeFacts { kind, oid, name, display, length, category, element: None }
}

const fn array(
    kind: PgType,
    oid: u32,
    name: &'static str,
    display: &'static str,
    element: PgType,
) -> TypeFacts {
    TypeFacts { kind, oid, name, display, length: -1, category: 'A', element: Some(element) }
}

/// Every type, sorted by [`PgType`]: a test holds the order, so that a lookup is an index.
pub(crate) const TYPES: &[TypeFacts] = &[
    scalar(PgType::Bool, 16, "bool", "boolean", 1, 'B'),
    scalar(PgType::Bytea, 17, "bytea", "bytea", -1, 'U'),
    scalar(PgType::Char, 18, "char", "\"char\"", 1, 'Z'),
    scalar(PgType::Name, 19, "name", "name", 64, 'S'),
    scalar(PgType::Int8, 20, "int8", "bigint", 8, 'N'),
    scalar(PgType::Int2, 21, "int2", "smallint", 2, 'N'),
    array(PgType::Int2Vector, 22, "int2vector", "int2vector", PgType::Int2),
    scalar(PgType::Int4, 23, "int4", "integer", 4, 'N'),
    scalar(PgType::Regproc, 24, "regproc", "regproc", 4, 'N'),
    scalar(PgType::Text, 25, "text", "text", -1, 'S'),
    scalar(PgType::Oid, 26, "oid", "oid", 4, 'N'),
    array(PgType::OidVector, 30, "oidvector", "oidvector", PgType::Oid),
    scalar(PgType::Json, 114, "json", "json", -1, 'U'),
    scalar(PgType::Float4, 700, "float4", "real", 4, 'N'),
    scalar(PgType::Float8, 701, "float8", "double precision", 8, 'N'),
    scalar(PgType::Unknown, 705, "unknown", "unknown", -2, 'X'),
    scalar(PgType::BpChar, 1042, "bpchar", "character", -1, 'S'),
    scalar(PgType::Varchar, 1043, "varchar", "character varying", -1, 'S'),
    scalar(PgType::Date, 1082, "date", "date", 4, 'D'),
    scalar(PgType::Time, 1083, "time", "time without time zone", 8, 'D'),
    scalar(PgType::Timestamp, 1114, "timestamp", "timestamp without time zone", 8, 'D'),
    scalar(PgType::Timestamptz, 1184, "timestamptz", "timestamp with time zone", 8, 'D'),
    scalar(PgType::Interval, 1186, "interval", "interval", 16, 'T'),
    scalar(PgType::Numeric, 1700, "numeric", "numeric", -1, 'N'),
    scalar(PgType::Regclass, 2205, "regclass", "regclass", 4, 'N'),
    scalar(PgType::Regtype, 2206, "regtype", "regtype", 4, 'N'),
    scalar(PgType::Uuid, 2950, "uuid", "uuid", 16, 'U'),
    scalar(PgType::Jsonb, 3802, "jsonb", "jsonb", -1, 'U'),
    scalar(PgType::Void, 2278, "void", "void", 4, 'P'),
    scalar(PgType::Record, 2249, "record", "record", -1, 'P'),
    array(PgType::BoolArray, 1000, "_bool", "boolean[]", PgType::Bool),
    array(PgType::ByteaArray, 1001, "_bytea", "bytea[]", PgType::Bytea),
    array(PgType::CharArray, 1002, "_char", "\"char\"[]", PgType::Char),
    array(PgType::NameArray, 1003, "_name", "name[]", PgType::Name),
    array(PgType::Int2Array, 1005, "_int2", "smallint[]", PgType::Int2),
    array(PgType::Int4Array, 1007, "_int4", "integer[]", PgType::Int4),
    array(PgType::TextArray, 1009, "_text", "text[]", PgType::Text),
    array(PgType::VarcharArray, 1015, "_varchar", "character varying[]", PgType::Varchar),
    array(PgType::Int8Array, 1016, "_int8", "bigint[]", PgType::Int8),
    array(PgType::Float4Array, 1021, "_float4", "real[]", PgType::Float4),
    array(PgType::Float8Array, 1022, "_float8", "double precision[]", PgType::Float8),
    array(PgType::OidArray, 1028, "_oid", "oid[]", PgType::Oid),
    array(PgType::TimestampArray, 1115, "_timestamp", "timestamp without time zone[]", PgType::Timestamp),
    array(PgType::DateArray, 1182, "_date", "date[]", PgType::Date),
    array(PgType::TimeArray, 1183, "_time", "time without time zone[]", PgType::Time),
    array(PgType::TimestamptzArray, 1185, "_timestamptz", "timestamp with time zone[]", PgType::Timestamptz),
    array(PgType::IntervalArray, 1187, "_interval", "interval[]", PgType::Interval),
    array(PgType::NumericArray, 1231, "_numeric", "numeric[]", PgType::Numeric),
    array(PgType::UuidArray, 2951, "_uuid", "uuid[]", PgType::Uuid),
    array(PgType::JsonArray, 199, "_json", "json[]", PgType::Json),
    array(PgType::JsonbArray, 3807, "_jsonb", "jsonb[]", PgType::Jsonb),
];

impl PgType {
    pub(crate) fn facts(self) -> &'static TypeFacts {
        &TYPES[self as usize]
    }

    /// The object identifier.
    pub fn oid(self) -> u32 {
        self.facts().oid
    }

    /// The name in `pg_type`: `timestamptz`.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The name that people read: `timestamp with time zone`.
    pub fn display_name(self) -> &'static str {
        self.facts().display
    }

    /// The size in bytes, -1 when values differ in length.
    pub fn size(self) -> i16 {
        self.facts().length
    }

    /// The type of an array's elements.
    pub fn element(self) -> Option<Self> {
        self.facts().element
    }

    /// The array of this type.
    pub fn array(self) -> Option<Self> {
        TYPES
            .iter()
            .find(|facts| facts.element == Some(self) && facts.name.starts_with('_'))
            .map(|facts| facts.kind)
    }

    /// The type with this identifier.
    pub fn from_oid(oid: u32) -> Option<Self> {
        TYPES.iter().find(|facts| facts.oid == oid).map(|facts| facts.kind)
    }

    /// The type with this name: `int8`, `bigint`, `timestamp with time zone`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.trim();
        TYPES
            .iter()
            .find(|facts| facts.name.eq_ignore_ascii_case(name) || facts.display.eq_ignore_ascii_case(name))
            .map(|facts| facts.kind)
            .or_else(|| match name.to_ascii_lowercase().as_str() {
                "int" => Some(Self::Int4),
                "decimal" => Some(Self::Numeric),
                "float" => Some(Self::Float8),
                other => other.strip_suffix("[]").and_then(Self::from_name).and_then(Self::array),
            })
    }

    /// Every type that exists here.
    pub fn all() -> impl Iterator<Item = Self> {
        TYPES.iter().map(|facts| facts.kind)
    }

    /// What a field is in PostgreSQL: its [`TYPE_METADATA_KEY`] when it has one, else its Arrow type.
    pub fn of_field(field: &Field) -> Self {
        field
            .metadata()
            .get(TYPE_METADATA_KEY)
            .and_then(|name| Self::from_name(name))
            .unwrap_or_else(|| Self::of_arrow(field.data_type()))
    }

    /// What an Arrow type is in PostgreSQL; text when there is nothing closer.
    pub fn of_arrow(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => Self::Int2,
            DataType::Int32 | DataType::UInt16 => Self::Int4,
            // A count or a row number is a bigint in PostgreSQL, whatever its sign is here.
            DataType::Int64 | DataType::UInt64 => Self::Int8,
            // The catalogs alone have it, and an aggregate drops the metadata that would say so.
            DataType::UInt32 => Self::Oid,
            DataType::Float16 | DataType::Float32 => Self::Float4,
            DataType::Float64 => Self::Float8,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Self::Numeric,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytea,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::Timestamptz,
            DataType::Interval(
                IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano,
            )
            | DataType::Duration(
                TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            ) => Self::Interval,
            DataType::Dictionary(_, values) => Self::of_arrow(values),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _) => Self::of_field(field).array().unwrap_or(Self::TextArray),
            DataType::Struct(_) => Self::Record,
            _ => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_in_the_order_of_the_types() {
        for (index, facts) in TYPES.iter().enumerate() {
            assert_eq!(facts.kind as usize, index, "{}", facts.name);
            assert_eq!(PgType::from_oid(facts.oid), Some(facts.kind));
            assert_eq!(PgType::from_name(facts.name), Some(facts.kind));
            assert_eq!(PgType::from_name(facts.display), Some(facts.kind));
        }
    }

    #[test]
    fn metadata_overrides_the_arrow_type() {
        let plain = Field::new("c", DataType::Utf8View, true);
        assert_eq!(PgType::of_field(&plain), PgType::Text);
        let json = plain.with_metadata([(TYPE_METADATA_KEY.to_owned(), "json".to_owned())].into());
        assert_eq!(PgType::of_field(&json), PgType::Json);
    }

    #[test]
    fn arrays_name_their_elements() {
        assert_eq!(PgType::Int4.array(), Some(PgType::Int4Array));
        assert_eq!(PgType::Int4Array.element(), Some(PgType::Int4));
        assert_eq!(PgType::from_name("timestamptz[]"), Some(PgType::TimestamptzArray));
        let list = DataType::new_list(DataType::Int64, true);
        assert_eq!(PgType::of_arrow(&list), PgType::Int8Array);
    }
}
