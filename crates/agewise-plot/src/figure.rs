//! The figure: the charts that stand in it, their layout from top to bottom, and the ways out of it.

use std::ffi::OsStr;
use std::path::Path;

use agewise_core::files::write_atomically;

use crate::axis::{Axis, ResolvedAxis, bottom_margin, left_margin, resolve_y};
use crate::geometry::{Point, Rect};
use crate::heat_map::{HeatMap, draw_heat_map};
use crate::intervals::{IntervalPlot, draw_interval_plot, names_margin, natural_height};
use crate::legend::{Legend, LegendPosition, SlotStyles};
use crate::panel::{DataRange, Panel, RIGHT_MARGIN, draw_panel};
use crate::png::{DrawError, render_png};
use crate::series::Series;
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

/// One chart of a figure. [`Figure::panel`](crate::Figure::panel) makes it from what it is given.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Series over two axes.
    Panel(Panel),
    /// A matrix shown in colours.
    HeatMap(HeatMap),
    /// Named rows with values and intervals.
    IntervalPlot(IntervalPlot),
}

impl From<Panel> for Chart {
    fn from(panel: Panel) -> Self {
        Self::Panel(panel)
    }
}

impl From<HeatMap> for Chart {
    fn from(map: HeatMap) -> Self {
        Self::HeatMap(map)
    }
}

impl From<IntervalPlot> for Chart {
    fn from(plot: IntervalPlot) -> Self {
        Self::IntervalPlot(plot)
    }
}

impl Chart {
    /// The title; it may be empty.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Panel(panel) => &panel.title,
            Self::HeatMap(map) => &map.title,
            Self::IntervalPlot(plot) => &plot.title,
        }
    }

    /// The x axis as the caller gave it.
    pub(crate) fn x_axis(&self) -> &Axis {
        match self {
            Self::Panel(panel) => &panel.x,
            Self::HeatMap(map) => &map.x,
            Self::IntervalPlot(plot) => &plot.value,
        }
    }

    /// Room needed left of the plot; `y` is what became of the y axis.
    pub(crate) fn left_margin(&self, y: &ResolvedAxis, chart_width: f64) -> f64 {
        match self {
            Self::Panel(panel) => left_margin(&panel.y, y),
            Self::HeatMap(map) => left_margin(&map.y, y),
            Self::IntervalPlot(plot) => names_margin(plot, chart_width),
        }
    }

    /// The height of the plot, for charts whose content decides about it.
    pub(crate) fn natural_plot_height(&self) -> Option<f64> {
        match self {
            Self::Panel(_) | Self::HeatMap(_) => None,
            Self::IntervalPlot(plot) => Some(natural_height(plot)),
        }
    }

    /// The names that have a style, each with the slot asked for.
    pub(crate) fn names(&self) -> Vec<(&str, Option<usize>)> {
        match self {
            Self::Panel(panel) => {
                panel.series.iter().map(|series| (series.name.as_str(), series.slot)).collect()
            }
            Self::HeatMap(_) => Vec::new(),
            Self::IntervalPlot(plot) => {
                plot.rows.iter().map(|row| (row.name.as_str(), row.slot)).collect()
            }
        }
    }

    /// The series that belong into the legend.
    pub(crate) fn series(&self) -> &[Series] {
        match self {
            Self::Panel(panel) => &panel.series,
            // The rows of an interval plot have their names beside them.
            Self::HeatMap(_) | Self::IntervalPlot(_) => &[],
        }
    }

    /// What the x axis and the y axis have to show.
    pub(crate) fn data_ranges(&self) -> (DataRange, DataRange) {
        match self {
            Self::Panel(panel) => panel.data_ranges(),
            Self::HeatMap(map) => map.edge_ranges(),
            Self::IntervalPlot(plot) => (plot.value_range(), None),
        }
    }

    /// Range and ticks of the y axis for a plot of this height.
    pub(crate) fn resolve_y(&self, range: DataRange, plot_height: f64) -> ResolvedAxis {
        match self {
            Self::Panel(panel) => resolve_y(&panel.y, range, plot_height),
            // Half a cell's worth of nothing beside the cells would look like missing data.
            Self::HeatMap(map) => resolve_y(&map.y.pinned_to(range), range, plot_height),
            // Rows have names, not values: an axis without ticks.
            Self::IntervalPlot(_) => resolve_y(&Axis::linear(""), None, plot_height),
        }
    }

    /// The chart in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Panel(panel) => panel.description(),
            Self::HeatMap(map) => map.description(),
            Self::IntervalPlot(plot) => plot.description(),
        }
    }

    /// Draws everything of the chart but its title: the axes around `plot` and what is inside.
    /// Left of the plot there is room of `left_margin`.
    pub(crate) fn draw(
        &self,
        svg: &mut SvgWriter,
        x_range: DataRange,
        y: &ResolvedAxis,
        plot: Rect,
        left_margin: f64,
        slot_styles: &SlotStyles,
    ) {
        match self {
            Self::Panel(panel) => draw_panel(svg, panel, x_range, y, plot, slot_styles),
            Self::HeatMap(map) => draw_heat_map(svg, map, x_range, y, plot),
            Self::IntervalPlot(intervals) => {
                draw_interval_plot(svg, intervals, x_range, y, plot, left_margin, slot_styles);
            }
        }
    }
}

/// Space between a panel title and its plot.
const TITLE_GAP: f64 = 12.0;
/// Least height of a plot, whatever stands around it.
const LEAST_PLOT_HEIGHT: f64 = 80.0;
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
fn draw_lines(svg: &mut SvgWriter, lines: &[String], top_left: Point, style: &TextStyle) {
    for (index, line) in lines.iter().enumerate() {
        let baseline = top_left.y + style.size + index as f64 * style.line_height();
        svg.text(line, Point { x: top_left.x, y: baseline }, Anchor::Start, style);
    }
}

/// A panel with what has to be known before its place is.
struct PanelPlan<'a> {
    chart: &'a Chart,
    title: Vec<String>,
    x_range: DataRange,
    y: ResolvedAxis,
    plot_height: f64,
}

/// All panels, in rows. They share their margins, so that their plots are equally large and
/// stand on common lines. Only charts with a height of their own, which have names instead of
/// numbers at their left, have a common left margin apart from that of the others.
struct PanelGrid<'a> {
    plans: Vec<PanelPlan<'a>>,
    columns: usize,
    panel_width: f64,
    title_height: f64,
    left_margin: f64,
    names_margin: f64,
    bottom_margin: f64,
}

impl<'a> PanelGrid<'a> {
    fn lay_out(figure: &'a Figure, columns: usize, panel_width: f64) -> Self {
        let style = &theme::PANEL_TITLE;
        let titles: Vec<Vec<String>> =
            figure.panels.iter().map(|panel| style.wrap(panel.title(), panel_width)).collect();
        let title_height = match titles.iter().map(Vec::len).max() {
            None | Some(0) => 0.0,
            Some(lines) => lines as f64 * style.line_height() + TITLE_GAP,
        };
        let bottom_margin =
            figure.panels.iter().map(|chart| bottom_margin(chart.x_axis())).fold(0.0, f64::max);
        let panel_plot_height =
            (figure.panel_height - title_height - bottom_margin).max(LEAST_PLOT_HEIGHT);
        let plans: Vec<PanelPlan> = figure
            .panels
            .chunks(columns)
            .flat_map(|row| plot_heights(row, panel_plot_height))
            .zip(&figure.panels)
            .zip(titles)
            .map(|((plot_height, chart), title)| {
                let (x_range, y_range) = chart.data_ranges();
                let y = chart.resolve_y(y_range, plot_height);
                PanelPlan { chart, title, x_range, y, plot_height }
            })
            .collect();
        let widest_margin = |has_natural_height: bool| {
            plans
                .iter()
                .filter(|plan| plan.chart.natural_plot_height().is_some() == has_natural_height)
                .map(|plan| plan.chart.left_margin(&plan.y, panel_width))
                .fold(0.0, f64::max)
        };
        let (left_margin, names_margin) = (widest_margin(false), widest_margin(true));
        Self { plans, columns, panel_width, title_height, left_margin, names_margin, bottom_margin }
    }

    fn row_height(&self, row: &[PanelPlan]) -> f64 {
        let plot_height = row.iter().map(|plan| plan.plot_height).fold(0.0, f64::max);
        self.title_height + plot_height + self.bottom_margin
    }

    fn height(&self) -> f64 {
        let rows = self.plans.chunks(self.columns);
        let gaps = theme::BLOCK_GAP * rows.len().saturating_sub(1) as f64;
        rows.map(|row| self.row_height(row)).sum::<f64>() + gaps
    }

    fn draw(&self, svg: &mut SvgWriter, origin: Point, slot_styles: &SlotStyles) {
        let mut y = origin.y;
        for row in self.plans.chunks(self.columns) {
            for (column, plan) in row.iter().enumerate() {
                let x = origin.x + column as f64 * (self.panel_width + theme::PANEL_GAP);
                draw_lines(svg, &plan.title, Point { x, y }, &theme::PANEL_TITLE);
                let left_margin = match plan.chart.natural_plot_height() {
                    Some(_) => self.names_margin,
                    None => self.left_margin,
                };
                let plot = Rect {
                    x: x + left_margin,
                    y: y + self.title_height,
                    width: self.panel_width - left_margin - RIGHT_MARGIN,
                    height: plan.plot_height,
                };
                plan.chart.draw(svg, plan.x_range, &plan.y, plot, left_margin, slot_styles);
            }
            y += self.row_height(row) + theme::BLOCK_GAP;
        }
    }
}

/// The heights of the plots in one row of the grid: their own, or as soon as there is one without
/// a height of its own, the same for all.
fn plot_heights(row: &[Chart], panel_plot_height: f64) -> Vec<f64> {
    let natural: Vec<Option<f64>> = row.iter().map(Chart::natural_plot_height).collect();
    let tallest = natural.iter().flatten().copied().fold(panel_plot_height, f64::max);
    match natural.iter().copied().collect() {
        Some(heights) => heights,
        None => vec![tallest; row.len()],
    }
}
