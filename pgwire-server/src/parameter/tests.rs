//! Parameters in both formats, and what is refused.

use datafusion::arrow::datatypes::{IntervalMonthDayNano, i256};

use super::*;

fn decode_text(text: &str, pg_type: PgType) -> Result<ScalarValue, ParameterError> {
    decode_in(text, pg_type, "UTC")
}

fn decode_in(text: &str, pg_type: PgType, zone: &str) -> Result<ScalarValue, ParameterError> {
    let zone = TimeZone::parse(zone).unwrap();
    decode(Some(&Bytes::copy_from_slice(text.as_bytes())), pg_type, Format::Text, &zone)
}

fn decode_hex(hex: &str, pg_type: PgType) -> Result<ScalarValue, ParameterError> {
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    decode(Some(&Bytes::from(bytes)), pg_type, Format::Binary, &TimeZone::utc())
}

fn timestamptz(micros: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()))
}

#[test]
fn both_formats_of_a_value_are_the_same_scalar() {
    let noon = timestamptz(1_442_059_200_123_450);
    let decimal = |value, scale| ScalarValue::Decimal128(Some(value), 38, scale);
    let interval =
        ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(14, -3, 14_706_700_000_000)));
    let uuid = ScalarValue::from("12345678-9abc-def0-1234-56789abcdef0");
    let cases = [
        (PgType::Bool, "yes", "01", ScalarValue::Boolean(Some(true))),
        (PgType::Int2, "-2", "fffe", ScalarValue::Int16(Some(-2))),
        (PgType::Int4, "+7", "00000007", ScalarValue::Int32(Some(7))),
        (PgType::Int8, " -1 ", "ffffffffffffffff", ScalarValue::Int64(Some(-1))),
        (PgType::Oid, "4294967295", "ffffffff", ScalarValue::Int64(Some(4_294_967_295))),
        (PgType::Float8, "1.5", "3ff8000000000000", ScalarValue::Float64(Some(1.5))),
        (PgType::Float4, "-2.25", "c0100000", ScalarValue::Float32(Some(-2.25))),
        (PgType::Numeric, "-1.5", "000200004000000100011388", decimal(-15, 1)),
        (PgType::Numeric, "1.10", "0002000000000002000103e8", decimal(110, 2)),
        (PgType::Numeric, "0.00001234", "0001fffe0000000804d2", decimal(1234, 8)),
        (PgType::Numeric, "1e8", "00010002000000000001", decimal(100_000_000, 0)),
        (PgType::Numeric, "0.00", "0000000000000002", decimal(0, 2)),
        (PgType::Text, "héllo", "68c3a96c6c6f", ScalarValue::from("héllo")),
        (PgType::Jsonb, "{}", "017b7d", ScalarValue::from("{}")),
        (PgType::Bytea, "\\x00ff", "00ff", ScalarValue::Binary(Some(vec![0, 255]))),
        (PgType::Uuid, "{123456789ABCDEF0123456789ABCDEF0}", "123456789abcdef0123456789abcdef0", uuid),
        (PgType::Date, "1969-12-31", "ffffd532", ScalarValue::Date32(Some(-1))),
        (
            PgType::Time,
            "12:34:56.789",
            "0000000a8be62608",
            ScalarValue::Time64Microsecond(Some(45_296_789_000)),
        ),
        (PgType::Timestamptz, "2015-09-12 12:00:00.12345+00", "0001c28a5726723a", noon),
        (PgType::Interval, "1 year 2 mons -3 days +04:05:06.7", "000000036c966ee0fffffffd0000000e", interval),
    ];
    for (pg_type, text, hex, expected) in cases {
        let from_binary = decode_hex(hex, pg_type).unwrap();
        assert_eq!(from_binary, expected, "{text} in binary");
        if pg_type == PgType::Uuid {
            continue; // The text keeps the client's punctuation.
        }
        assert_eq!(decode_text(text, pg_type).unwrap(), expected, "{text}");
    }
}

#[test]
fn times_are_read_in_every_usual_form() {
    let noon = 1_442_059_200_000_000;
    let forms = [
        "2015-09-12 12:00:00+00",
        "2015-09-12T12:00:00Z",
        "2015-09-12 12:00",
        "2015-09-12 14:00:00+02:00",
        "2015-09-12T17:30:00.000+0530",
        "2015-09-12 08:00:00 America/New_York",
        "2015-09-12 12:00:00 UTC",
    ];
    for form in forms {
        assert_eq!(decode_text(form, PgType::Timestamptz), Ok(timestamptz(noon)), "{form}");
    }
    assert_eq!(decode_text("2015-09-12", PgType::Timestamptz), Ok(timestamptz(noon - 43_200_000_000)));
    assert_eq!(decode_text("2015-09-11 24:00", PgType::Timestamptz), Ok(timestamptz(noon - 43_200_000_000)));
    let local = ScalarValue::TimestampMicrosecond(Some(noon), None);
    assert_eq!(decode_text("2015-09-12 12:00:00+05", PgType::Timestamp), Ok(local));
    for nonsense in ["", "noon", "2015-13-01", "2015-09-12 25:00", "2015-09-12 12:00 nowhere", "2015-09-12é"]
    {
        let error = decode_text(nonsense, PgType::Timestamptz).unwrap_err();
        assert!(matches!(error, ParameterError::InvalidDatetime { .. }), "{nonsense}: {error}");
    }
}

#[test]
fn a_time_without_zone_is_in_the_session_zone_also_where_clocks_change() {
    let berlin = |text| decode_in(text, PgType::Timestamptz, "Europe/Berlin").unwrap();
    let utc = |text| decode_text(text, PgType::Timestamptz).unwrap();
    assert_eq!(berlin("2015-09-12 14:00"), utc("2015-09-12 12:00"));
    // Skipped: the offset before. Repeated: the offset after.
    assert_eq!(berlin("2024-03-31 02:30"), utc("2024-03-31 01:30"));
    assert_eq!(berlin("2024-10-27 02:30"), utc("2024-10-27 01:30"));
}

#[test]
fn numerics_keep_every_digit() {
    let wide = "12345678901234567890123456789012345678901234567890.5";
    let unscaled = i256::from_string(&wide.replace('.', "")).unwrap();
    assert_eq!(decode_text(wide, PgType::Numeric), Ok(ScalarValue::Decimal256(Some(unscaled), 76, 1)));
    for too_wide in ["1e77", "1e-90", &"9".repeat(77)] {
        assert!(matches!(decode_text(too_wide, PgType::Numeric), Err(ParameterError::OutOfRange { .. })));
    }
    for nonsense in ["", ".", "1.2.3", "1e", "abc", "NaN", "--1"] {
        let error = decode_text(nonsense, PgType::Numeric).unwrap_err();
        assert!(matches!(error, ParameterError::InvalidText { .. }), "{nonsense}: {error}");
    }
}

#[test]
fn arrays_are_read_in_both_formats() {
    let ints = [ScalarValue::Int32(Some(1)), ScalarValue::Int32(None), ScalarValue::Int32(Some(3))];
    let expected = ScalarValue::List(ScalarValue::new_list(&ints, &ints[0].data_type(), true));
    assert_eq!(decode_text("{1, NULL ,3}", PgType::Int4Array), Ok(expected.clone()));
    let hex = "00000001000000010000001700000003000000010000000400000001ffffffff0000000400000003";
    assert_eq!(decode_hex(hex, PgType::Int4Array), Ok(expected));
    let texts = ["a b", "", "NULL", "q\"\\"].map(ScalarValue::from);
    let expected = ScalarValue::List(ScalarValue::new_list(&texts, &texts[0].data_type(), true));
    assert_eq!(decode_text(r#"{"a b","","NULL",q\"\\}"#, PgType::TextArray), Ok(expected));
    assert!(decode_text("{}", PgType::Int4Array).is_ok());
    for nonsense in ["", "{", "1,2", "{1,}", "{{1}}", "{\"a}", "{a\\"] {
        assert!(decode_text(nonsense, PgType::Int4Array).is_err(), "{nonsense}");
    }
}

#[test]
fn nul_and_broken_text_are_refused() {
    assert_eq!(decode_text("a\0b", PgType::Text), Err(ParameterError::Nul));
    assert_eq!(decode_hex("610062", PgType::Text), Err(ParameterError::Nul));
    assert_eq!(decode_hex("61ff", PgType::Varchar), Err(ParameterError::InvalidUtf8 { position: 1 }));
}

#[test]
fn numbers_out_of_range_and_wrong_sizes_are_refused() {
    assert!(matches!(decode_text("32768", PgType::Int2), Err(ParameterError::OutOfRange { .. })));
    assert!(matches!(decode_text("-1", PgType::Oid), Err(ParameterError::OutOfRange { .. })));
    assert!(matches!(decode_text("1.5", PgType::Int4), Err(ParameterError::InvalidText { .. })));
    assert!(matches!(decode_hex("0001", PgType::Int4), Err(ParameterError::InvalidBinary { size: 2, .. })));
    let far = decode_hex("7fffffffffffffff", PgType::Timestamptz);
    assert!(matches!(far, Err(ParameterError::DatetimeOutOfRange { .. })));
}

#[test]
fn any_bytes_of_any_type_are_a_value_or_an_error() {
    let bytes: Vec<u8> = (0..64u8).map(|n| n.wrapping_mul(37) ^ 0x80).collect();
    for pg_type in PgType::all() {
        for length in 0..bytes.len() {
            for fill in [0x00, 0x01, 0x30, 0x7f, 0xff] {
                let filled = vec![fill; length];
                for value in [&bytes[..length], &filled] {
                    for format in [Format::Text, Format::Binary] {
                        let value = Bytes::copy_from_slice(value);
                        if let Err(error) = decode(Some(&value), pg_type, format, &TimeZone::utc()) {
                            assert!(!error.to_string().is_empty());
                        }
                    }
                }
            }
        }
        assert!(decode(None, pg_type, Format::Text, &TimeZone::utc()).is_ok_and(|value| value.is_null()));
    }
}
