//! The figure: the charts that stand in it, their layout from top to bottom, and the ways out of it.

use std::ffi::OsStr;
use std::path::Path;

use agewise_core::files::write_atomically;

use crate::chart::Chart;
use crate::geometry::Point;
use crate::legend::{Legend, LegendPosition, SlotStyles};
use crate::panel_grid::PanelGrid;
use crate::png::{DrawError, render_png};
use crate::svg::{Anchor, SvgWriter};
use crate::text::TextStyle;
use crate::theme;

/// Panels side by side under one heading, with a shared legend and a caption.
#[must_use]
#[derive(Clone, Debug)]
pub struct Figure {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) caption: String,
    pub(crate) panels: Vec<Chart>,
    pub(crate) legend: LegendPosition,
    pub(crate) panel_height: f64,
    columns: Option<usize>,
    width: Option<f64>,
}

/// Panels in a row when the caller does not say.
const DEFAULT_COLUMNS: usize = 3;
/// The same with interval plots among them: names and notes take their room.
const DEFAULT_COLUMNS_WITH_NAMES: usize = 2;
/// Width of a figure with one column of panels.
const DEFAULT_SINGLE_WIDTH: f64 = 760.0;
/// Width of a figure with several columns of panels.
const DEFAULT_WIDTH: f64 = 1100.0;
const DEFAULT_PANEL_HEIGHT: f64 = 360.0;
/// Widths and heights beyond this are cut to it.
const LARGEST_SIDE: f64 = 20_000.0;
/// Pixels per SVG unit of saved PNG files: sharp on dense screens and in print.
const SAVED_PNG_SCALE: f32 = 2.0;

impl Figure {
    /// A figure without panels. The title may be empty.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            caption: String::new(),
            panels: Vec::new(),
            legend: LegendPosition::default(),
            panel_height: DEFAULT_PANEL_HEIGHT,
            columns: None,
            width: None,
        }
    }

    /// Sets the grey text under the title.
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// Sets the text under the panels; it is broken into lines, and line breaks are kept.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a [`Panel`](crate::Panel), a [`HeatMap`](crate::HeatMap) or an
    /// [`IntervalPlot`](crate::IntervalPlot), to the right of the others or in the next row.
    pub fn panel(mut self, panel: impl Into<Chart>) -> Self {
        self.panels.push(panel.into());
        self
    }

    /// Sets where the legend stands.
    pub fn legend(mut self, position: LegendPosition) -> Self {
        self.legend = position;
        self
    }

    /// Sets how many panels stand in a row, at most; otherwise three, or two when there
    /// are interval plots among them.
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = Some(columns);
        self
    }

    /// Sets the width in SVG units (otherwise 1100, or 760 for a single column). Panels that
    /// would become too narrow to read make the figure wider.
    pub fn width(mut self, width: f64) -> Self {
        self.width = Some(width).filter(|width| width.is_finite());
        self
    }

    /// Sets the height of each row of panels with titles and axes (otherwise 360). The height of
    /// the figure follows from it, so that heading, legend and caption always have their room. Rows
    /// of interval plots only are as high as those need to be.
    pub fn panel_height(mut self, height: f64) -> Self {
        if height.is_finite() {
            self.panel_height = height.min(LARGEST_SIDE);
        }
        self
    }

    /// Columns of the grid of panels; at least one.
    pub(crate) fn column_count(&self) -> usize {
        let has_names = self.panels.iter().any(|chart| matches!(chart, Chart::IntervalPlot(_)));
        let default = if has_names { DEFAULT_COLUMNS_WITH_NAMES } else { DEFAULT_COLUMNS };
        self.columns.unwrap_or(default).min(self.panels.len()).max(1)
    }

    /// The width asked for, or the default one.
    pub(crate) fn total_width(&self) -> f64 {
        let default = if self.column_count() == 1 { DEFAULT_SINGLE_WIDTH } else { DEFAULT_WIDTH };
        self.width.unwrap_or(default).min(LARGEST_SIDE)
    }

    /// The figure in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        let panels = self.panels.iter().map(Chart::description);
        let texts = [self.subtitle.clone()].into_iter().chain(panels).chain([self.caption.clone()]);
        texts
            .map(|text| text.trim().trim_end_matches('.').to_owned())
            .filter(|text| !text.is_empty())
            .map(|text| text + ".")
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Draws the figure as SVG. The same figure always gives the same text.
    pub fn to_svg(&self) -> String {
        draw_figure(self)
    }

    /// Draws the figure as PNG with `scale` pixels per SVG unit, from the SVG of
    /// [`to_svg`](Self::to_svg) and with embedded fonts.
    pub fn to_png(&self, scale: f32) -> Result<Vec<u8>, DrawError> {
        render_png(&self.to_svg(), scale)
    }

    /// Saves the figure as SVG or PNG (with two pixels per SVG unit), by the extension of `path`.
    /// The file is complete or not there: a failed write leaves nothing behind.
    pub fn save(&self, path: &Path) -> Result<(), DrawError> {
        let extension = path.extension().map(OsStr::to_ascii_lowercase);
        let bytes = match extension.as_deref().and_then(|extension| extension.to_str()) {
            Some("svg") => self.to_svg().into_bytes(),
            Some("png") => self.to_png(SAVED_PNG_SCALE)?,
            _ => return Err(DrawError::UnknownFormat { path: path.to_owned() }),
        };
        write_atomically(path, &bytes)
            .map_err(|source| DrawError::Write { path: path.to_owned(), source })
    }
}

/// Least width of a panel, whatever width is asked for.
const LEAST_PANEL_WIDTH: f64 = 220.0;

/// Draws the figure as SVG.
pub(crate) fn draw_figure(figure: &Figure) -> String {
    let columns = figure.column_count();
    let panel_gaps = panel_gaps(columns);
    let inner_width = inner_width(figure);
    let slot_styles = SlotStyles::assign(&figure.panels);
    let legend = Legend::lay_out(&figure.panels, &slot_styles, inner_width);
    let title = theme::TITLE.wrap(&figure.title, inner_width);
    let subtitle = theme::SUBTITLE.wrap(&figure.subtitle, inner_width);
    let caption = theme::CAPTION.wrap(&figure.caption, inner_width);
    let grid = PanelGrid::lay_out(figure, columns, (inner_width - panel_gaps) / columns as f64);

    let blocks = [
        (Block::Heading, lines_height(&title, &theme::TITLE) + subtitle_height(&title, &subtitle)),
        (Block::Legend, if figure.legend == LegendPosition::Top { legend.height() } else { 0.0 }),
        (Block::Panels, grid.height()),
        (
            Block::Legend,
            if figure.legend == LegendPosition::Bottom { legend.height() } else { 0.0 },
        ),
        (Block::Caption, lines_height(&caption, &theme::CAPTION)),
    ];
    let shown = || blocks.iter().filter(|(_, height)| *height > 0.0);
    let gaps = theme::BLOCK_GAP * shown().count().saturating_sub(1) as f64;
    let height = shown().map(|(_, height)| height).sum::<f64>() + gaps + 2.0 * theme::MARGIN;

    let mut svg =
        SvgWriter::new(drawn_width(figure), height.ceil(), &figure.title, &figure.description());
    let mut at = Point { x: theme::MARGIN, y: theme::MARGIN };
    for (block, height) in shown() {
        match block {
            Block::Heading => {
                draw_lines(&mut svg, &title, at, &theme::TITLE);
                let below = at.y + height - lines_height(&subtitle, &theme::SUBTITLE);
                draw_lines(&mut svg, &subtitle, Point { y: below, ..at }, &theme::SUBTITLE);
            }
            Block::Legend => legend.draw(&mut svg, at),
            Block::Panels => grid.draw(&mut svg, at, &slot_styles),
            Block::Caption => draw_lines(&mut svg, &caption, at, &theme::CAPTION),
        }
        at.y += height + theme::BLOCK_GAP;
    }
    svg.finish()
}

/// Width of the drawing: the one asked for, or what the panels need.
pub(crate) fn drawn_width(figure: &Figure) -> f64 {
    (inner_width(figure) + 2.0 * theme::MARGIN).ceil()
}

fn inner_width(figure: &Figure) -> f64 {
    let columns = figure.column_count();
    let least_width = LEAST_PANEL_WIDTH * columns as f64 + panel_gaps(columns);
    (figure.total_width() - 2.0 * theme::MARGIN).max(least_width)
}

/// The white space between all panels of a row.
fn panel_gaps(columns: usize) -> f64 {
    theme::PANEL_GAP * (columns - 1) as f64
}

/// What stands in a figure, from top to bottom.
#[derive(Clone, Copy)]
enum Block {
    Heading,
    Legend,
    Panels,
    Caption,
}

fn lines_height(lines: &[String], style: &TextStyle) -> f64 {
    lines.len() as f64 * style.line_height()
}

/// Height of the subtitle, with the space that parts it from a title above.
fn subtitle_height(title: &[String], subtitle: &[String]) -> f64 {
    const GAP: f64 = 2.0;
    let gap = if title.is_empty() || subtitle.is_empty() { 0.0 } else { GAP };
    gap + lines_height(subtitle, &theme::SUBTITLE)
}

/// Draws lines of text below one another, the first one's top at `top_left`.
pub(crate) fn draw_lines(
    svg: &mut SvgWriter,
    lines: &[String],
    top_left: Point,
    style: &TextStyle,
) {
    for (index, line) in lines.iter().enumerate() {
        let baseline = top_left.y + style.size + index as f64 * style.line_height();
        svg.text(line, Point { x: top_left.x, y: baseline }, Anchor::Start, style);
    }
}
