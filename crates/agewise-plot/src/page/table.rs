//! Tables of a report page.

use std::fmt::Write as _;

use crate::svg::escape;

/// The heading of a table column, and how its cells are set.
#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    is_number: bool,
}

impl Column {
    /// A column of text, set flush left.
    pub fn text(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), is_number: false }
    }

    /// A column of numbers, set flush right with digits of equal width.
    pub fn number(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), is_number: true }
    }
}

/// One cell of a table.
#[must_use]
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    is_best: bool,
}

impl Cell {
    /// A cell that shows this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_best: false }
    }

    /// Highlights the cell as the best of its column.
    pub fn best(mut self) -> Self {
        self.is_best = true;
        self
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// A table with a row of headings. The first cell of each row names the row.
#[must_use]
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    caption: String,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), caption: String::new() }
    }

    /// Adds a row. Cells that are missing at its end stay empty; cells beyond the last column are
    /// left out.
    pub fn row(mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        let width = self.columns.len();
        self.rows.push(cells.into_iter().take(width).map(Into::into).collect());
        self
    }

    /// Sets the text above the table that says what it shows.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// What it is called by readers that jump from one region of a page to another.
    pub(crate) fn name(&self) -> &str {
        if self.caption.trim().is_empty() { "Table" } else { &self.caption }
    }

    /// Adds the table to a page under a label, in a frame that scrolls sideways where it has to.
    pub(crate) fn write_to(&self, html: &mut String, label: &str) {
        if self.columns.is_empty() {
            return;
        }
        html.push_str("<div class=\"table\">\n");
        begin_scroll(html, &self.caption, label);
        html.push_str("<table>\n");
        html.push_str("<thead>\n<tr>");
        for column in &self.columns {
            let class = class_attribute(&[(column.is_number, "number")]);
            _ = write!(html, r#"<th scope="col"{class}>{}</th>"#, escape(&column.heading));
        }
        html.push_str("</tr>\n</thead>\n<tbody>\n");
        for row in &self.rows {
            self.write_row(row, html);
        }
        html.push_str("</tbody>\n</table>\n</div>\n</div>\n");
    }

    fn write_row(&self, row: &[Cell], html: &mut String) {
        html.push_str("<tr>");
        for (index, column) in self.columns.iter().enumerate() {
            let (text, is_best) =
                row.get(index).map_or(("", false), |cell| (&cell.text, cell.is_best));
            let class = class_attribute(&[(column.is_number, "number"), (is_best, "best")]);
            let text = match escape(text) {
                text if is_best => format!("<strong>{text}</strong>"),
                text => text,
            };
            _ = match index {
                0 => write!(html, r#"<th scope="row"{class}>{text}</th>"#),
                _ => write!(html, "<td{class}>{text}</td>"),
            };
        }
        html.push_str("</tr>\n");
    }
}

/// A `class` attribute with the classes that apply, or nothing.
fn class_attribute(classes: &[(bool, &str)]) -> String {
    let names: Vec<&str> =
        classes.iter().filter(|(applies, _)| *applies).map(|(_, name)| *name).collect();
    if names.is_empty() { String::new() } else { format!(r#" class="{}""#, names.join(" ")) }
}

/// Writes a caption, if there is one, and begins the frame under a label in which a table scrolls sideways.
pub(super) fn begin_scroll(html: &mut String, caption: &str, label: &str) {
    // Not a caption element: that would be as wide as the table and scroll out of sight.
    if !caption.trim().is_empty() {
        _ = writeln!(html, r#"<p class="caption">{}</p>"#, escape(caption));
    }
    let label = escape(label);
    _ = writeln!(html, r#"<div class="scroll" role="region" tabindex="0" aria-label="{label}">"#);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(table: &Table) -> String {
        let mut html = String::new();
        table.write_to(&mut html, table.name());
        html
    }

    #[test]
    fn numbers_are_flush_right_and_the_best_stands_out() {
        let table = Table::new([Column::text("policy"), Column::number("age")])
            .row([Cell::new("random"), Cell::new("5.67").best()]);
        let html = html(&table);
        assert!(html.contains(r#"<th scope="col" class="number">age</th>"#), "{html}");
        assert!(html.contains(r#"<th scope="row">random</th>"#), "{html}");
        assert!(html.contains(r#"<td class="number best"><strong>5.67</strong></td>"#), "{html}");
    }

    #[test]
    fn ragged_rows_are_made_even() {
        let columns = || [Column::text("a"), Column::text("b")];
        let table = Table::new(columns()).row(["1"]).row(["1", "2", "3"]).row([""; 0]);
        assert_eq!(html(&table).matches("<td>").count(), 3);
        assert!(!html(&table).contains('3'));
    }

    #[test]
    fn a_table_without_columns_is_not_written() {
        assert_eq!(html(&Table::new([]).row(["lost"])), "");
    }
}
