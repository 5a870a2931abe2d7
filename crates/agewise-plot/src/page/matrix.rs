//! A matrix of names against each other, with the sentence behind each cell.

use std::fmt::Write as _;

use super::table::begin_scroll;
use crate::svg::escape;

/// What a cell says about the name of its row against the name of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The row is better.
    Better,
    /// The row is better, if this is the only comparison that one looks at.
    PerhapsBetter,
    /// Neither is known to be better.
    Undecided,
    /// The row is worse, if this is the only comparison that one looks at.
    PerhapsWorse,
    /// The row is worse.
    Worse,
}

impl Comparison {
    /// The same from the other side.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Better => Self::Worse,
            Self::PerhapsBetter => Self::PerhapsWorse,
            Self::Undecided => Self::Undecided,
            Self::PerhapsWorse => Self::PerhapsBetter,
            Self::Worse => Self::Better,
        }
    }

    /// The class of its colour, its sign, and what it is in words.
    fn look(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Better => ("better", "▲", "better"),
            Self::PerhapsBetter => ("perhaps better", "△", "perhaps better"),
            Self::Undecided => ("undecided", "○", "undecided"),
            Self::PerhapsWorse => ("perhaps worse", "▽", "perhaps worse"),
            Self::Worse => ("worse", "▼", "worse"),
        }
    }
}

/// With more names, those of columns run downwards.
const MOST_LEVEL: usize = 7;

/// One cell of a [`Matrix`].
#[derive(Clone, Debug)]
pub struct MatrixCell {
    /// What it says.
    pub comparison: Comparison,
    /// A few letters with the size of the difference.
    pub text: String,
    /// The id of the sentence behind it, in [`Page::sentences`](crate::Page::sentences).
    pub sentence: String,
}

/// Names against each other: each row says what its name is against that of each column.
#[must_use]
#[derive(Clone, Debug)]
pub struct Matrix {
    caption: String,
    names: Vec<String>,
    /// By row, and in it by column.
    cells: Vec<Vec<Option<MatrixCell>>>,
}

impl Matrix {
    /// A matrix without cells. The caption says what is compared.
    pub fn new(caption: impl Into<String>, names: impl IntoIterator<Item = String>) -> Self {
        let names: Vec<String> = names.into_iter().collect();
        let cells = vec![vec![None; names.len()]; names.len()];
        Self { caption: caption.into(), names, cells }
    }

    /// Sets the cell in this row and this column; a place that is not there is left out.
    pub fn cell(mut self, row: usize, column: usize, cell: MatrixCell) -> Self {
        if let Some(place) = self.cells.get_mut(row).and_then(|row| row.get_mut(column)) {
            *place = Some(cell);
        }
        self
    }

    /// What it is called by readers that jump from one region of a page to another.
    pub(crate) fn name(&self) -> &str {
        if self.caption.trim().is_empty() { "Matrix" } else { &self.caption }
    }

    /// Adds the matrix to a page under a label.
    pub(crate) fn write_to(&self, html: &mut String, label: &str) {
        let size = if self.names.len() > MOST_LEVEL { " large" } else { "" };
        _ = writeln!(html, "<div class=\"table matrix{size}\">");
        begin_scroll(html, &self.caption, label);
        html.push_str("<table>\n<thead>\n<tr><th scope=\"col\">row against column</th>");
        for name in &self.names {
            _ = write!(html, r#"<th scope="col"><span>{}</span></th>"#, escape(name));
        }
        html.push_str(
            "<th scope=\"col\" class=\"number\">better</th><th scope=\"col\" class=\"number\">worse</th></tr>\n\
             </thead>\n<tbody>\n",
        );
        for (name, cells) in self.names.iter().zip(&self.cells) {
            self.write_row(name, cells, html);
        }
        html.push_str("</tbody>\n</table>\n</div>\n</div>\n");
    }

    fn write_row(&self, name: &str, cells: &[Option<MatrixCell>], html: &mut String) {
        _ = write!(html, r#"<tr><th scope="row">{}</th>"#, escape(name));
        for (other, cell) in self.names.iter().zip(cells) {
            let Some(MatrixCell { comparison, text, sentence }) = cell else {
                html.push_str("<td></td>");
                continue;
            };
            let (class, sign, words) = comparison.look();
            _ = write!(
                html,
                r##"<td class="{class}"><a href="#{}"><span class="spoken">{} against {}, {words}: </span><span aria-hidden="true">{sign}</span> {}</a></td>"##,
                escape(sentence),
                escape(name),
                escape(other),
                escape(text)
            );
        }
        for of in [Comparison::Better, Comparison::Worse] {
            let count = cells.iter().flatten().filter(|cell| cell.comparison == of).count();
            _ = write!(html, r#"<td class="number">{count}</td>"#);
        }
        html.push_str("</tr>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_a_sign_words_and_its_sentence() {
        let cell = |comparison| MatrixCell {
            comparison,
            text: "+1".to_owned(),
            sentence: "pair_1".to_owned(),
        };
        let matrix = Matrix::new("Speed", ["a".to_owned(), "b<".to_owned()])
            .cell(0, 1, cell(Comparison::Better))
            .cell(1, 0, cell(Comparison::Better.reversed()))
            .cell(7, 0, cell(Comparison::Better));
        let mut html = String::new();
        matrix.write_to(&mut html, matrix.name());
        for words in [
            r#"class="better""#,
            r#"class="worse""#,
            "a against b&lt;, better: ",
            "b&lt; against a, worse: ",
            "▲",
            "▼",
            r##"href="#pair_1""##,
        ] {
            assert_eq!(
                html.matches(words).count(),
                if words.starts_with("href") { 2 } else { 1 },
                "{words}"
            );
        }
        assert!(html.contains(r#"<td class="number">1</td><td class="number">0</td>"#), "{html}");
    }
}
