//! Drawing a whole figure: heading, legend, the grid of panels, and the caption, from top to bottom.

use crate::axes::bottom_margin;
use crate::axis::ResolvedAxis;
use crate::chart::Chart;
use crate::figure::Figure;
use crate::geometry::{Point, Rect};
use crate::legend::{Legend, LegendPosition, Looks};
use crate::panel::DataRange;
use crate::plot::RIGHT_MARGIN;
use crate::svg::{Anchor, SvgWriter};
use crate::text::TextStyle;
use crate::theme;

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
    let looks = Looks::assign(&figure.panels);
    let legend = Legend::lay_out(&figure.panels, &looks, inner_width);
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
            Block::Panels => grid.draw(&mut svg, at, &looks),
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

    fn draw(&self, svg: &mut SvgWriter, origin: Point, looks: &Looks) {
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
                plan.chart.draw(svg, plan.x_range, &plan.y, plot, left_margin, looks);
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
