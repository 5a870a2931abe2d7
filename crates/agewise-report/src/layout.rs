//! Drawing a whole figure: heading, legend, the grid of panels, and the caption, from top to bottom.

use crate::axes::{bottom_margin, left_margin};
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
}

/// All panels, in rows. They share their margins, so that their plots are equally large and
/// stand on common lines.
struct PanelGrid<'a> {
    plans: Vec<PanelPlan<'a>>,
    columns: usize,
    panel_width: f64,
    title_height: f64,
    plot_height: f64,
    left_margin: f64,
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
            figure.panels.iter().map(|chart| bottom_margin(chart.axes().0)).fold(0.0, f64::max);
        let plot_height =
            (figure.panel_height - title_height - bottom_margin).max(LEAST_PLOT_HEIGHT);
        let plans: Vec<PanelPlan> = figure
            .panels
            .iter()
            .zip(titles)
            .map(|(chart, title)| {
                let (x_range, y_range) = chart.data_ranges();
                PanelPlan { chart, title, x_range, y: chart.resolve_y(y_range, plot_height) }
            })
            .collect();
        let left_margin =
            plans.iter().map(|plan| left_margin(plan.chart.axes().1, &plan.y)).fold(0.0, f64::max);
        Self { plans, columns, panel_width, title_height, plot_height, left_margin, bottom_margin }
    }

    fn row_height(&self) -> f64 {
        self.title_height + self.plot_height + self.bottom_margin
    }

    fn height(&self) -> f64 {
        match self.plans.len().div_ceil(self.columns) {
            0 => 0.0,
            rows => rows as f64 * (self.row_height() + theme::BLOCK_GAP) - theme::BLOCK_GAP,
        }
    }

    fn draw(&self, svg: &mut SvgWriter, origin: Point, looks: &Looks) {
        for (index, plan) in self.plans.iter().enumerate() {
            let (row, column) = (index / self.columns, index % self.columns);
            let x = origin.x + column as f64 * (self.panel_width + theme::PANEL_GAP);
            let y = origin.y + row as f64 * (self.row_height() + theme::BLOCK_GAP);
            draw_lines(svg, &plan.title, Point { x, y }, &theme::PANEL_TITLE);
            let plot = Rect {
                x: x + self.left_margin,
                y: y + self.title_height,
                width: self.panel_width - self.left_margin - RIGHT_MARGIN,
                height: self.plot_height,
            };
            plan.chart.draw(svg, plan.x_range, &plan.y, plot, looks);
        }
    }
}
