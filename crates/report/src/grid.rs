//! Columns of text that may have colors in them.

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthStr;

/// Where text stands in its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// At its left edge.
    Left,
    /// At its right edge.
    Right,
}

/// Rows of cells, each column as wide as its widest cell.
#[derive(Default)]
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The rows as lines, `indent` spaces in, columns apart by `gap`.
    pub fn lines(&self, indent: usize, gap: &str, align: Align) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    line.push_str(gap);
                }
                let padding = " ".repeat(widths[column] - width(cell));
                match align {
                    Align::Left => line.extend([cell, padding.as_str()]),
                    Align::Right => line.extend([padding.as_str(), cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Columns that a cell takes on a terminal.
fn width(cell: &str) -> usize {
    strip_str(cell).to_string().width()
}
