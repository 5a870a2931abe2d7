//! A report page: text, figures, tables and key figures in one self-contained HTML file.

mod html;
mod interaction;
mod matrix;
mod table;

use crate::figure::Figure;
use crate::figure::drawn_width;

pub use interaction::AxisUnit;
pub use matrix::{Comparison, Matrix, MatrixCell};
pub use table::{Cell, Column, Table};

/// One report as an HTML page that needs nothing but itself: no fonts, no requests, and no script but its own.
///
/// The page is complete without its script, which hides series ([`choices`](Self::choices)), reads values under the
/// cursor, zooms and converts axes, sorts tables and shows the sentences of a [`Matrix`].
/// Blocks stand in the order in which they are added. All text is shown as it is given; markup in
/// it has no effect.
///
/// ```
/// use agewise_plot::{Cell, Column, KeyFigure, Page, Table};
///
/// let page = Page::new("Simulation")
///     .lead("Four policies, 1000 rounds.")
///     .heading("Results")
///     .key_figures([KeyFigure::new("clients", "100").note("15 a round")])
///     .table(
///         Table::new([Column::text("policy"), Column::number("mean age")])
///             .row([Cell::new("random"), Cell::new("5.67")])
///             .row([Cell::new("oldest first"), Cell::new("2.83").best()]),
///     )
///     .footer("Made with agewise.");
/// assert!(page.to_html().starts_with("<!DOCTYPE html>"));
/// ```
#[must_use]
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    lead: String,
    footer: String,
    choices: Vec<(String, usize)>,
    blocks: Vec<Block>,
}

/// A part of a page.
#[derive(Clone, Debug)]
enum Block {
    Heading(String),
    Subheading(String),
    Paragraph(String),
    List(Vec<String>),
    Note(String),
    Figure {
        title: String,
        svg: String,
        width: f64,
        reading: String,
        files: Vec<Link>,
    },
    Table(Table),
    /// With a summary it is folded away under it.
    Matrix {
        folded: Option<(String, bool)>,
        matrix: Matrix,
    },
    Sentences {
        summary: String,
        sentences: Vec<(String, String)>,
    },
    Links(Vec<Link>),
    Units(Vec<AxisUnit>),
    KeyFigures(Vec<KeyFigure>),
    Preformatted {
        summary: String,
        text: String,
    },
}

/// What a page says about something that goes on.
#[derive(Clone, Debug)]
pub struct LiveState {
    /// A word for scripts and styles, such as `training` or `finished`.
    pub state: String,
    /// What it is doing.
    pub headline: String,
    /// More about that.
    pub detail: String,
    /// Who cannot be reached when there are no answers.
    pub source: String,
    /// Changes with the blocks of the page.
    pub version: String,
}

/// A page that is served while something goes on.
#[derive(Clone, Debug)]
pub struct LivePage {
    /// The whole page.
    pub whole: String,
    /// The section that says what is going on.
    pub now: String,
    /// The section with the blocks of the page.
    pub past: String,
}

/// A link to a file beside the page.
#[derive(Clone, Debug)]
pub struct Link {
    /// What stands in the page.
    pub text: String,
    /// Where the file is, from the page.
    pub path: String,
}

impl Link {
    /// A link to a path from the page, with slashes.
    pub fn new(text: impl Into<String>, path: impl Into<String>) -> Self {
        Self { text: text.into(), path: path.into() }
    }
}

/// One number that matters, for a row of small cards.
#[must_use]
#[derive(Clone, Debug)]
pub struct KeyFigure {
    label: String,
    value: String,
    note: String,
}

impl KeyFigure {
    /// A card that names a quantity and shows its value.
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), note: String::new() }
    }

    /// Sets the small text under the value.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

impl Page {
    /// A page without blocks.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            lead: String::new(),
            footer: String::new(),
            choices: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// Sets the text under the title that says what the page is about.
    pub fn lead(mut self, text: impl Into<String>) -> Self {
        self.lead = text.into();
        self
    }

    /// Sets the small text at the end of the page.
    pub fn footer(mut self, text: impl Into<String>) -> Self {
        self.footer = text.into();
        self
    }

    /// Sets the names of the series that one can hide and show in all figures, each with the slot of its look.
    pub fn choices(mut self, names: impl IntoIterator<Item = (String, usize)>) -> Self {
        self.choices = names.into_iter().collect();
        self
    }

    /// Adds a heading with an anchor. From two headings on, the page has a table of contents.
    pub fn heading(self, text: impl Into<String>) -> Self {
        self.block(Block::Heading(text.into()))
    }

    /// Adds a smaller heading, which is not in the table of contents.
    pub fn subheading(self, text: impl Into<String>) -> Self {
        self.block(Block::Subheading(text.into()))
    }

    /// Adds a paragraph.
    pub fn paragraph(self, text: impl Into<String>) -> Self {
        self.block(Block::Paragraph(text.into()))
    }

    /// Adds a list of sentences, each with a bullet; blank ones are left out.
    pub fn list(self, items: impl IntoIterator<Item = String>) -> Self {
        self.block(Block::List(items.into_iter().collect()))
    }

    /// Adds a paragraph in a quiet box, for cautions.
    pub fn note(self, text: impl Into<String>) -> Self {
        self.block(Block::Note(text.into()))
    }

    /// Adds a figure, drawn now, and under it a sentence on how to read it, which may be empty.
    pub fn figure(self, figure: &Figure, how_to_read: impl Into<String>) -> Self {
        self.figure_with_files(figure, how_to_read, [])
    }

    /// Adds a figure as [`figure`](Self::figure) does, with links to files that hold it.
    pub fn figure_with_files(
        self,
        figure: &Figure,
        how_to_read: impl Into<String>,
        files: impl IntoIterator<Item = Link>,
    ) -> Self {
        self.block(Block::Figure {
            title: figure.title.clone(),
            svg: figure.to_svg(),
            width: drawn_width(figure),
            reading: how_to_read.into(),
            files: files.into_iter().collect(),
        })
    }

    /// Adds a table.
    pub fn table(self, table: Table) -> Self {
        self.block(Block::Table(table))
    }

    /// Adds a matrix.
    pub fn matrix(self, matrix: Matrix) -> Self {
        self.block(Block::Matrix { folded: None, matrix })
    }

    /// Adds a matrix that is folded away under its summary, unless it is open; in print it is always.
    pub fn folded_matrix(self, summary: impl Into<String>, is_open: bool, matrix: Matrix) -> Self {
        self.block(Block::Matrix { folded: Some((summary.into(), is_open)), matrix })
    }

    /// Adds sentences, each with the id by which the cells of a [`Matrix`] lead to it, folded away under a summary. An id
    /// has an underscore, which no anchor of a heading has.
    pub fn sentences(
        self,
        summary: impl Into<String>,
        sentences: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let sentences = sentences.into_iter().collect();
        self.block(Block::Sentences { summary: summary.into(), sentences })
    }

    /// Adds a list of links to files.
    pub fn links(self, links: impl IntoIterator<Item = Link>) -> Self {
        self.block(Block::Links(links.into_iter().collect()))
    }

    /// Sets the units in which the convertible axes of all figures from here on can be shown.
    pub fn units(self, units: impl IntoIterator<Item = AxisUnit>) -> Self {
        self.block(Block::Units(units.into_iter().collect()))
    }

    /// Adds a row of cards with numbers that matter.
    pub fn key_figures(self, figures: impl IntoIterator<Item = KeyFigure>) -> Self {
        self.block(Block::KeyFigures(figures.into_iter().collect()))
    }

    /// Adds text whose line breaks and spaces count, such as a command or a configuration. It is
    /// folded away under its summary; in print it is open.
    pub fn preformatted(self, summary: impl Into<String>, text: impl Into<String>) -> Self {
        self.block(Block::Preformatted { summary: summary.into(), text: text.into() })
    }

    /// Writes the page as HTML. The same page always gives the same text.
    pub fn to_html(&self) -> String {
        html::write(self)
    }

    /// The page in two parts, for a program that serves it in a frame of its own: the style of all pages, and the blocks of this one
    /// without title, lead, contents and footer.
    pub fn to_parts(&self) -> (&'static str, String) {
        html::write_parts(self)
    }

    /// The page as a program serves it that shows something while it goes on. The program answers `live.js` with a script
    /// that asks for `live?have=VERSION` and puts the sections of the answer in the place of the old ones.
    pub fn to_live(&self, state: &LiveState) -> LivePage {
        html::write_live(self, state)
    }

    fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}
