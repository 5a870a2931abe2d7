//! Tables for the terminal.

use comfy_table::{CellAlignment, Row, Table, presets};

/// A table with these columns, of which the numbered ones hold numbers.
pub(crate) fn table<R: Into<Row>>(
    columns: impl Into<Row>,
    numbers: impl IntoIterator<Item = usize>,
    rows: impl IntoIterator<Item = R>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(columns);
    table.add_rows(rows);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
