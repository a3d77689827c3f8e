//! Each type in both formats against the bytes that PostgreSQL 15 sends for the same value.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::*;
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int32Type, IntervalMonthDayNano, i256};
use datafusion::arrow::record_batch::RecordBatch;
use strandline_sql::PgType;

use super::*;

fn style(zone: &str) -> TextStyle {
    TextStyle { zone: TimeZone::parse(zone).expect("a known zone"), float_digits: 1 }
}

/// The first value of `array`, as the bytes between its length and the next column.
fn encode(
    array: ArrayRef,
    pg_type: PgType,
    format: Format,
    style: &TextStyle,
) -> Result<Vec<u8>, EncodeError> {
    let column = Column::read(&array)?;
    let mut out = BytesMut::new();
    write_value(column.cell(0), WireColumn { pg_type, format }, style, &mut out)?;
    let (length, value) = out.split_at(4);
    let length = i32::from_be_bytes(length.try_into().unwrap());
    assert_eq!(usize::try_from(length).unwrap_or(0), value.len());
    Ok(value.to_vec())
}

fn text_in(array: ArrayRef, pg_type: PgType, style: &TextStyle) -> String {
    String::from_utf8(encode(array, pg_type, Format::Text, style).unwrap()).unwrap()
}

fn text(array: ArrayRef, pg_type: PgType) -> String {
    text_in(array, pg_type, &TextStyle::default())
}

fn binary(array: ArrayRef, pg_type: PgType) -> String {
    let bytes = encode(array, pg_type, Format::Binary, &TextStyle::default()).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn check(array: ArrayRef, pg_type: PgType, expected_text: &str, expected_binary: &str) {
    assert_eq!(text(Arc::clone(&array), pg_type), expected_text);
    assert_eq!(binary(array, pg_type), expected_binary);
}

fn decimal(unscaled: &str, scale: i8) -> ArrayRef {
    let array = Decimal256Array::from(vec![i256::from_string(unscaled).unwrap()]);
    Arc::new(array.with_precision_and_scale(76, scale).unwrap())
}

fn micros(value: i64) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(vec![value]))
}

#[test]
fn scalars_are_sent_as_postgres_sends_them() {
    check(Arc::new(BooleanArray::from(vec![true])), PgType::Bool, "t", "01");
    check(Arc::new(BooleanArray::from(vec![false])), PgType::Bool, "f", "00");
    check(Arc::new(Int8Array::from(vec![-2])), PgType::Int2, "-2", "fffe");
    check(Arc::new(Int16Array::from(vec![300])), PgType::Int2, "300", "012c");
    check(Arc::new(Int32Array::from(vec![-1])), PgType::Int4, "-1", "ffffffff");
    check(
        Arc::new(Int64Array::from(vec![i64::MIN])),
        PgType::Int8,
        "-9223372036854775808",
        "8000000000000000",
    );
    check(Arc::new(UInt64Array::from(vec![7])), PgType::Int8, "7", "0000000000000007");
    check(Arc::new(UInt32Array::from(vec![u32::MAX])), PgType::Oid, "4294967295", "ffffffff");
    check(Arc::new(StringViewArray::from(vec!["héllo"])), PgType::Text, "héllo", "68c3a96c6c6f");
    check(Arc::new(LargeStringArray::from(vec!["x"])), PgType::Varchar, "x", "78");
    check(Arc::new(BinaryViewArray::from(vec![&[0u8, 255][..]])), PgType::Bytea, "\\x00ff", "00ff");
    check(Arc::new(StringArray::from(vec!["{\"a\":1}"])), PgType::Json, "{\"a\":1}", "7b2261223a317d");
    check(Arc::new(StringArray::from(vec!["{\"a\": 1}"])), PgType::Jsonb, "{\"a\": 1}", "017b2261223a20317d");
    let uuid: [u8; 16] =
        [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0];
    let fixed = FixedSizeBinaryArray::try_from_iter([uuid].into_iter()).unwrap();
    let uuid_text = "12345678-9abc-def0-1234-56789abcdef0";
    check(Arc::new(fixed), PgType::Uuid, uuid_text, "123456789abcdef0123456789abcdef0");
    check(
        Arc::new(StringArray::from(vec![uuid_text])),
        PgType::Uuid,
        uuid_text,
        "123456789abcdef0123456789abcdef0",
    );
}

#[test]
fn floats_print_the_shortest_text_with_postgres_exponents() {
    let cases: [(f64, &str); 11] = [
        (1e14, "100000000000000"),
        (1e15, "1e+15"),
        (123_456_789_012_345.0, "123456789012345"),
        (1_234_567_890_123_456.0, "1.234567890123456e+15"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-0.0, "-0"),
        (1e300, "1e+300"),
        (100.0, "100"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ];
    for (value, expected) in cases {
        assert_eq!(text(Arc::new(Float64Array::from(vec![value])), PgType::Float8), expected);
    }
    let cases: [(f32, &str); 5] =
        [(1e5, "100000"), (1e6, "1e+06"), (1_234_567.0, "1.234567e+06"), (0.1, "0.1"), (3.4e38, "3.4e+38")];
    for (value, expected) in cases {
        assert_eq!(text(Arc::new(Float32Array::from(vec![value])), PgType::Float4), expected);
    }
    assert_eq!(binary(Arc::new(Float64Array::from(vec![1.5])), PgType::Float8), "3ff8000000000000");
    assert_eq!(binary(Arc::new(Float32Array::from(vec![-2.25])), PgType::Float4), "c0100000");
}

#[test]
fn extra_float_digits_of_zero_and_less_round() {
    let with_digits = |value: f64, float_digits| {
        let style = TextStyle { float_digits, ..TextStyle::default() };
        text_in(Arc::new(Float64Array::from(vec![value])), PgType::Float8, &style)
    };
    assert_eq!(with_digits(0.1 + 0.2, 0), "0.3");
    assert_eq!(with_digits(1.0 / 3.0, 0), "0.333333333333333");
    assert_eq!(with_digits(1e14, 0), "100000000000000");
    assert_eq!(with_digits(123.0, -14), "1e+02");
    assert_eq!(with_digits(1.0 / 3.0, -14), "0.3");
    assert_eq!(with_digits(0.1 + 0.2, 3), "0.30000000000000004");
}

#[test]
fn numerics_are_exact_in_both_formats() {
    check(decimal("0", 0), PgType::Numeric, "0", "0000000000000000");
    check(decimal("0", 2), PgType::Numeric, "0.00", "0000000000000002");
    check(decimal("1", 0), PgType::Numeric, "1", "00010000000000000001");
    check(decimal("-15", 1), PgType::Numeric, "-1.5", "000200004000000100011388");
    check(decimal("10000", 0), PgType::Numeric, "10000", "00010001000000000001");
    check(decimal("1", 4), PgType::Numeric, "0.0001", "0001ffff000000040001");
    check(decimal("1234", 8), PgType::Numeric, "0.00001234", "0001fffe0000000804d2");
    check(decimal("1234567890123", 5), PgType::Numeric, "12345678.90123", "000400010000000504d2162e23340bb8");
    check(decimal("110", 2), PgType::Numeric, "1.10", "0002000000000002000103e8");
    check(decimal("1", -8), PgType::Numeric, "100000000", "00010002000000000001");
    let nines = "99999999999999999999999999999999999999";
    let nines_binary = format!("000a0009000000000063{}", "270f".repeat(9));
    check(decimal(nines, 0), PgType::Numeric, nines, &nines_binary);
    let small = Decimal128Array::from(vec![-15]).with_precision_and_scale(10, 1).unwrap();
    check(Arc::new(small), PgType::Numeric, "-1.5", "000200004000000100011388");
    check(Arc::new(UInt64Array::from(vec![10_000])), PgType::Numeric, "10000", "00010001000000000001");
}

#[test]
fn instants_are_shown_in_the_session_zone() {
    let noon = micros(1_442_059_200_123_450);
    let shown = |zone: &str| text_in(Arc::clone(&noon), PgType::Timestamptz, &style(zone));
    assert_eq!(shown("UTC"), "2015-09-12 12:00:00.12345+00");
    assert_eq!(shown("Asia/Kolkata"), "2015-09-12 17:30:00.12345+05:30");
    assert_eq!(shown("America/New_York"), "2015-09-12 08:00:00.12345-04");
    assert_eq!(shown("+05:45"), "2015-09-12 17:45:00.12345+05:45");
    assert_eq!(text(Arc::clone(&noon), PgType::Timestamp), "2015-09-12 12:00:00.12345");
    assert_eq!(binary(noon, PgType::Timestamptz), "0001c28a5726723a");
    let old = Arc::new(TimestampSecondArray::from(vec![-2_840_140_800]));
    assert_eq!(text_in(old, PgType::Timestamptz, &style("America/New_York")), "1879-12-31 19:03:58-04:56:02");
    let millis = Arc::new(TimestampMillisecondArray::from(vec![1_442_059_200_000]).with_timezone("UTC"));
    assert_eq!(text(millis, PgType::Timestamptz), "2015-09-12 12:00:00+00");
    let nanos = Arc::new(TimestampNanosecondArray::from(vec![-1]));
    assert_eq!(text(nanos, PgType::Timestamp), "1969-12-31 23:59:59.999999");
}

#[test]
fn instants_outside_the_range_of_postgres_are_infinite() {
    let extremes = |value| Arc::new(TimestampMillisecondArray::from(vec![value])) as ArrayRef;
    check(extremes(i64::MAX), PgType::Timestamptz, "infinity", "7fffffffffffffff");
    check(extremes(i64::MIN), PgType::Timestamptz, "-infinity", "8000000000000000");
    assert_eq!(text(extremes(9_224_318_015_999_999), PgType::Timestamptz), "294276-12-31 23:59:59.999+00");
    assert_eq!(text(extremes(9_224_318_016_000_000), PgType::Timestamptz), "infinity");
}

#[test]
fn dates_before_and_far_after_christ_print_as_in_postgres() {
    check(micros(-63_517_780_800_000_000), PgType::Timestamp, "0044-03-15 12:00:00 BC", "ff1af9e8fb46d000");
    check(Arc::new(Date32Array::from(vec![-1])), PgType::Date, "1969-12-31", "ffffd532");
    check(Arc::new(Date32Array::from(vec![3_672_880])), PgType::Date, "12026-01-02", "0037e063");
    assert_eq!(text(Arc::new(Date32Array::from(vec![-719_528])), PgType::Date), "0001-01-01 BC");
    check(
        Arc::new(Time64MicrosecondArray::from(vec![45_296_789_000])),
        PgType::Time,
        "12:34:56.789",
        "0000000a8be62608",
    );
}

#[test]
fn intervals_print_in_the_postgres_style() {
    let cases = [
        (14, -3, 14_706_700_000, "1 year 2 mons -3 days +04:05:06.7", "000000036c966ee0fffffffd0000000e"),
        (0, 0, 0, "00:00:00", "00000000000000000000000000000000"),
        (0, -1, 3_600_000_000, "-1 days +01:00:00", "00000000d693a400ffffffff00000000"),
        (0, 1, -3_600_500_000, "1 day -01:00:00.5", "ffffffff2964bae00000000100000000"),
        (-1, 0, 0, "-1 mons", "000000000000000000000000ffffffff"),
        (0, 0, 360_000_000_000, "100:00:00", "00000053d1ac10000000000000000000"),
    ];
    for (months, days, micros, expected_text, expected_binary) in cases {
        let value = IntervalMonthDayNano::new(months, days, micros * 1_000);
        let array = Arc::new(IntervalMonthDayNanoArray::from(vec![value]));
        check(array, PgType::Interval, expected_text, expected_binary);
    }
    let duration = Arc::new(DurationMillisecondArray::from(vec![-1_000]));
    check(duration, PgType::Interval, "-00:00:01", "fffffffffff0bdc00000000000000000");
}

#[test]
fn durations_have_days() {
    let cases = [
        (1_078_703_171, "12 days 11:38:23.171", "00000009c19fa5b80000000c00000000"),
        (-90_061_000, "-1 days -01:01:01", "ffffffff25c992c0ffffffff00000000"),
        (i64::MAX, "2147483647 days 07:12:55.807", "000000060c475c187fffffff00000000"),
    ];
    for (millis, text, binary) in cases {
        let duration = Arc::new(DurationMillisecondArray::from(vec![millis]));
        check(duration, PgType::Interval, text, binary);
    }
}

#[test]
fn arrays_quote_what_would_be_read_otherwise() {
    let ints = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None, Some(3)])]);
    let ints_binary = "00000001000000010000001700000003000000010000000400000001ffffffff0000000400000003";
    check(Arc::new(ints), PgType::Int4Array, "{1,NULL,3}", ints_binary);
    let empty = ListArray::from_iter_primitive::<Int32Type, [Option<i32>; 0], _>([Some([])]);
    check(Arc::new(empty), PgType::Int4Array, "{}", "000000000000000000000017");
    let vector = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), Some(2)])]);
    let vector_binary = "0000000100000000000000150000000200000000000000020001000000020002";
    check(Arc::new(vector), PgType::Int2Vector, "1 2", vector_binary);

    let mut builder = ListBuilder::new(StringBuilder::new());
    builder.append_value([
        Some("a"),
        Some(""),
        None,
        Some("NULL"),
        Some("a b"),
        Some("q\"\\'"),
        Some(","),
        Some("{"),
    ]);
    let expected = r#"{a,"",NULL,"NULL","a b","q\"\\'",",","{"}"#;
    assert_eq!(text(Arc::new(builder.finish()), PgType::TextArray), expected);
}

#[test]
fn records_are_sent_with_their_types() {
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Int64, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1])),
        Arc::new(StringArray::from(vec!["ab"])),
        Arc::new(Int64Array::from(vec![None])),
    ];
    let record = Arc::new(StructArray::new(fields, columns, None));
    check(
        record,
        PgType::Record,
        "(1,ab,)",
        "000000030000001700000004000000010000001900000002616200000014ffffffff",
    );
}

#[test]
fn json_is_sent_as_written_and_other_text_as_a_json_string() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let cases = [
        (r#" {"a" : [1, 2]}"#, r#" {"a" : [1, 2]}"#),
        ("null", "null"),
        (r#"{"a":"#, r#""{\"a\":""#),
        ("AB \0 BB", r#""AB \u0000 BB""#),
        ("", r#""""#),
        (&deep, &deep),
    ];
    for (value, expected) in cases {
        let array: ArrayRef = Arc::new(StringViewArray::from(vec![value]));
        assert_eq!(text(Arc::clone(&array), PgType::Json), expected);
        let bytes = encode(array, PgType::Json, Format::Binary, &TextStyle::default()).unwrap();
        assert_eq!(bytes, expected.as_bytes());
    }
}

#[test]
fn headers_are_json_with_order_repeats_and_nulls_kept() {
    let fields = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Binary, true),
    ]);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["k", "k", "q\"\u{1}"]));
    let values: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"v"[..]), None, Some(&b"\xff\n"[..])]));
    let entries = StructArray::new(fields.clone(), vec![keys, values], None);
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let list = ListArray::new(item, OffsetBuffer::from_lengths([3]), Arc::new(entries), None);
    let expected = "[{\"key\": \"k\", \"value\": \"v\"}, {\"key\": \"k\", \"value\": null}, \
                    {\"key\": \"q\\\"\\u0001\", \"value\": \"\u{fffd}\\n\"}]";
    assert_eq!(text(Arc::new(list), PgType::Json), expected);
}

#[test]
fn nul_in_text_becomes_the_replacement_character() {
    let array: ArrayRef = Arc::new(StringArray::from(vec!["a\0b\0"]));
    assert_eq!(text(Arc::clone(&array), PgType::Text), "a\u{fffd}b\u{fffd}");
    assert_eq!(binary(array, PgType::Text), "61efbfbd62efbfbd");
}

#[test]
fn a_row_that_cannot_be_sent_leaves_nothing_behind() {
    let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    for format in [Format::Text, Format::Binary] {
        let layout = [WireColumn { pg_type: PgType::Int8, format }];
        let rows = EncodableBatch::new(&batch, &layout).unwrap();
        let mut out = BytesMut::new();
        rows.write_row(0, &TextStyle::default(), &mut out).unwrap();
        let before = out.clone();
        let error = rows.write_row(1, &TextStyle::default(), &mut out).unwrap_err();
        assert_eq!(error.to_string(), "value 18446744073709551615 is out of range for type bigint");
        assert_eq!(out, before);
    }
}

#[test]
fn a_data_row_counts_its_columns_and_marks_nulls() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(5)]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("s", names)]).unwrap();
    let layout = [
        WireColumn { pg_type: PgType::Int4, format: Format::Binary },
        WireColumn { pg_type: PgType::Text, format: Format::Text },
    ];
    let rows = EncodableBatch::new(&batch, &layout).unwrap();
    let mut out = BytesMut::new();
    rows.write_row(0, &TextStyle::default(), &mut out).unwrap();
    rows.write_row(1, &TextStyle::default(), &mut out).unwrap();
    let first = b"D\0\0\0\x0f\0\x02\xff\xff\xff\xff\0\0\0\x01a";
    let second = b"D\0\0\0\x13\0\x02\0\0\0\x04\0\0\0\x05\0\0\0\x01b";
    assert_eq!(&out[..], [&first[..], &second[..]].concat());
}

#[test]
fn zones_are_found_in_any_case_and_as_offsets() {
    assert_eq!(TimeZone::parse("europe/berlin"), TimeZone::parse("Europe/Berlin"));
    assert!(TimeZone::parse("Europe/Berlin").is_some());
    assert_eq!(TimeZone::parse("-03"), Some(TimeZone::Fixed(-10_800)));
    assert_eq!(TimeZone::parse("+0530"), Some(TimeZone::Fixed(19_800)));
    for nonsense in ["", "+", "+ab", "+99", "nowhere", "+é1"] {
        assert_eq!(TimeZone::parse(nonsense), None, "{nonsense}");
    }
}
