//! Standard output: whole texts, lines, and tables that line up.
//!
//! Invariant: a reader that goes away (`| head`) ends the command quietly, never with a panic.

use std::io::{self, Write};

use crate::failure::Failure;

/// Prints a text as it is.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a text and a line feed.
pub fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Where the text of a cell stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    Left,
    Right,
}

/// Rows of text under column names, printed in line.
///
/// A long table can be taken in parts: the names come with the first, and columns never narrow.
#[derive(Debug)]
pub struct TextTable {
    names: Vec<String>,
    alignments: Vec<Alignment>,
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
    is_begun: bool,
}

impl TextTable {
    pub fn new(columns: &[(&str, Alignment)]) -> Self {
        let names: Vec<String> = columns.iter().map(|(name, _)| one_line(name)).collect();
        Self {
            widths: names.iter().map(|name| width(name)).collect(),
            names,
            alignments: columns.iter().map(|(_, alignment)| *alignment).collect(),
            rows: Vec::new(),
            is_begun: false,
        }
    }

    /// Adds a row of one cell per column. Line feeds in a cell are shown as `\n`, so that a row is a
    /// line.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.names.len(), "a row has a cell for each column");
        let row: Vec<String> = row.iter().map(|cell| one_line(cell)).collect();
        for (column, cell) in self.widths.iter_mut().zip(&row) {
            *column = width(cell).max(*column);
        }
        self.rows.push(row);
    }

    /// The number of rows that were not taken yet.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows since the last time; the first time with the names and a rule below them.
    pub fn take_text(&mut self) -> String {
        let mut text = String::new();
        if !self.is_begun {
            let rule: Vec<String> = self.widths.iter().map(|width| "-".repeat(*width)).collect();
            push_line(&mut text, &self.padded(&self.names), " | ");
            push_line(&mut text, &rule, "-+-");
            self.is_begun = true;
        }
        for row in std::mem::take(&mut self.rows) {
            push_line(&mut text, &self.padded(&row), " | ");
        }
        text
    }

    fn padded(&self, row: &[String]) -> Vec<String> {
        let cells = row.iter().zip(&self.widths).zip(&self.alignments);
        let padded = cells.map(|((cell, column), alignment)| {
            let padding = " ".repeat(column.saturating_sub(width(cell)));
            match alignment {
                Alignment::Left => format!("{cell}{padding}"),
                Alignment::Right => format!("{padding}{cell}"),
            }
        });
        padded.collect()
    }
}

fn push_line(text: &mut String, cells: &[String], separator: &str) {
    let line = cells.join(separator);
    text.push_str(line.trim_end());
    text.push('\n');
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            // A terminal would obey the others.
            character if character.is_control() => shown.extend(character.escape_unicode()),
            character => shown.push(character),
        }
    }
    shown
}

/// `39244` as `39,244`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_a_row_stays_a_line() {
        let mut table = TextTable::new(&[("name", Alignment::Left), ("n", Alignment::Right)]);
        table.push(vec!["a\nb".to_owned(), "10".to_owned()]);
        table.push(vec!["ü".to_owned(), "7".to_owned()]);
        assert_eq!(table.take_text(), "name |  n\n-----+---\na\\nb | 10\nü    |  7\n");
        table.push(vec!["c".to_owned(), "100".to_owned()]);
        assert_eq!(table.take_text(), "c    | 100\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(one_line("\u{1b}[31m"), "\\u{1b}[31m");
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
