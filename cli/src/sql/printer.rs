//! Rows as text: a table for people, JSON lines and CSV for programs.

use tokio_postgres::types::Type;

use crate::args::SqlFormat;
use crate::output::{Alignment, TextTable, grouped};

/// A table is printed when this many rows are there, with the widths known so far.
const TABLE_ROWS_MAX: usize = 1000;

/// A result column and how its text is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: ColumnKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Number,
    Bool,
    Json,
    Text,
}

impl Column {
    pub fn of(column: &tokio_postgres::Column) -> Self {
        let kind = match *column.type_() {
            Type::INT2
            | Type::INT4
            | Type::INT8
            | Type::FLOAT4
            | Type::FLOAT8
            | Type::NUMERIC
            | Type::OID => ColumnKind::Number,
            Type::BOOL => ColumnKind::Bool,
            Type::JSON | Type::JSONB => ColumnKind::Json,
            _ => ColumnKind::Text,
        };
        Self { name: column.name().to_owned(), kind }
    }
}

/// Turns rows into text, in one format.
#[derive(Debug)]
pub struct Printer {
    format: SqlFormat,
    columns: Vec<Column>,
    table: TextTable,
    rows: u64,
}

impl Printer {
    pub fn new(format: SqlFormat) -> Self {
        Self { format, columns: Vec::new(), table: TextTable::new(&[]), rows: 0 }
    }

    /// The columns of the rows to come; none for a statement that returns no rows.
    pub fn begin(&mut self, columns: Vec<Column>) {
        let aligned: Vec<(&str, Alignment)> = columns
            .iter()
            .map(|column| {
                let is_number = column.kind == ColumnKind::Number;
                (column.name.as_str(), if is_number { Alignment::Right } else { Alignment::Left })
            })
            .collect();
        self.table = TextTable::new(&aligned);
        self.columns = columns;
    }

    /// What is to be printed now that this row is there.
    pub fn row(&mut self, cells: &[Option<&str>]) -> String {
        self.rows += 1;
        match self.format {
            SqlFormat::Table => {
                self.table.push(cells.iter().map(|cell| cell.unwrap_or("NULL").to_owned()).collect());
                if self.table.len() >= TABLE_ROWS_MAX { self.table.take_text() } else { String::new() }
            }
            SqlFormat::Json => self.json_row(cells),
            SqlFormat::Csv => {
                let header = if self.rows == 1 { self.csv_header() } else { String::new() };
                header + &csv_line(cells.iter().copied())
            }
        }
    }

    /// What is left to be printed.
    pub fn end(&mut self) -> String {
        match self.format {
            _ if self.columns.is_empty() => String::new(),
            SqlFormat::Table => {
                let plural = if self.rows == 1 { "" } else { "s" };
                format!("{}({} row{plural})\n", self.table.take_text(), grouped(self.rows))
            }
            SqlFormat::Csv if self.rows == 0 => self.csv_header(),
            SqlFormat::Csv | SqlFormat::Json => String::new(),
        }
    }

    fn csv_header(&self) -> String {
        csv_line(self.columns.iter().map(|column| Some(column.name.as_str())))
    }

    fn json_row(&self, cells: &[Option<&str>]) -> String {
        let members: Vec<String> = self
            .columns
            .iter()
            .zip(cells)
            .map(|(column, cell)| format!("{}:{}", json_text(&column.name), json_cell(column.kind, *cell)))
            .collect();
        format!("{{{}}}\n", members.join(","))
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Numbers keep every digit that the server printed.
fn json_cell(kind: ColumnKind, cell: Option<&str>) -> String {
    let Some(text) = cell else { return "null".to_owned() };
    match kind {
        ColumnKind::Number | ColumnKind::Json if is_json(text) => one_line_json(text),
        ColumnKind::Bool if text == "t" => "true".to_owned(),
        ColumnKind::Bool if text == "f" => "false".to_owned(),
        // NaN and Infinity are no JSON numbers.
        _ => json_text(text),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// In JSON a raw line feed can stand only between tokens, where a blank says the same.
fn one_line_json(text: &str) -> String {
    text.trim().replace(['\n', '\r'], " ")
}

/// RFC 4180; NULL is nothing, an empty text is a pair of quotes.
fn csv_line<'a>(cells: impl Iterator<Item = Option<&'a str>>) -> String {
    let cells: Vec<String> = cells.map(csv_cell).collect();
    cells.join(",") + "\n"
}

fn csv_cell(cell: Option<&str>) -> String {
    match cell {
        None => String::new(),
        Some(text) if text.is_empty() || text.contains(['"', ',', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(text) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: SqlFormat, columns: &[(&str, ColumnKind)], rows: &[&[Option<&str>]]) -> String {
        let mut printer = Printer::new(format);
        let column = |(name, kind): &(&str, ColumnKind)| Column { name: (*name).to_owned(), kind: *kind };
        printer.begin(columns.iter().map(column).collect());
        let mut text: String = rows.iter().map(|row| printer.row(row)).collect();
        text.push_str(&printer.end());
        text
    }

    #[test]
    fn a_table_shows_null_and_counts_its_rows() {
        let columns = [("n", ColumnKind::Number), ("t", ColumnKind::Text)];
        let text = printed(SqlFormat::Table, &columns, &[&[Some("1"), Some("a")], &[Some("20"), None]]);
        assert_eq!(text, " n | t\n---+-----\n 1 | a\n20 | NULL\n(2 rows)\n");
    }

    #[test]
    fn json_keeps_digits_and_kinds() {
        let columns = [
            ("n", ColumnKind::Number),
            ("x", ColumnKind::Number),
            ("b", ColumnKind::Bool),
            ("j", ColumnKind::Json),
            ("t", ColumnKind::Text),
            ("z", ColumnKind::Text),
        ];
        let row = [
            Some("327267367867168100000.10"),
            Some("NaN"),
            Some("t"),
            Some("{\"a\":\n1}"),
            Some("say \"hi\"\n"),
            None,
        ];
        let text = printed(SqlFormat::Json, &columns, &[&row]);
        let expected = concat!(
            r#"{"n":327267367867168100000.10,"x":"NaN","b":true,"j":{"a": 1},"t":"say \"hi\"\n","z":null}"#,
            "\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn csv_quotes_what_needs_it_and_tells_null_from_empty() {
        let columns = [("a", ColumnKind::Text), ("b,c", ColumnKind::Text)];
        let rows: [&[Option<&str>]; 2] = [&[Some("x"), Some("say \"hi\"")], &[None, Some("")]];
        assert_eq!(printed(SqlFormat::Csv, &columns, &rows), "a,\"b,c\"\nx,\"say \"\"hi\"\"\"\n,\"\"\n");
    }

    #[test]
    fn no_rows_still_have_a_header_but_no_columns_print_nothing() {
        let columns = [("a", ColumnKind::Text)];
        assert_eq!(printed(SqlFormat::Csv, &columns, &[]), "a\n");
        assert_eq!(printed(SqlFormat::Table, &columns, &[]), "a\n-\n(0 rows)\n");
        assert_eq!(printed(SqlFormat::Table, &[], &[]), "");
    }

    #[test]
    fn a_long_table_is_printed_in_parts() {
        let mut printer = Printer::new(SqlFormat::Table);
        printer.begin(vec![Column { name: "a".to_owned(), kind: ColumnKind::Text }]);
        let parts: Vec<String> = (0..TABLE_ROWS_MAX).map(|_| printer.row(&[Some("x")])).collect();
        assert!(parts[..TABLE_ROWS_MAX - 1].iter().all(String::is_empty));
        assert_eq!(parts[TABLE_ROWS_MAX - 1].lines().count(), TABLE_ROWS_MAX + 2);
        assert_eq!(printer.end(), "(1,000 rows)\n");
    }
}
