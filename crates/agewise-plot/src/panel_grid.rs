//! The charts of a figure in rows, with common margins.

use crate::axis::{ResolvedAxis, bottom_margin};
use crate::chart::Chart;
use crate::figure::{Figure, draw_lines};
use crate::geometry::{Point, Rect};
use crate::legend::SlotStyles;
use crate::panel::{DataRange, RIGHT_MARGIN};
use crate::svg::SvgWriter;
use crate::theme;

/// Space between a panel title and its plot.
const TITLE_GAP: f64 = 12.0;
/// Least height of a plot, whatever stands around it.
const LEAST_PLOT_HEIGHT: f64 = 80.0;
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
pub(crate) struct PanelGrid<'a> {
    plans: Vec<PanelPlan<'a>>,
    columns: usize,
    panel_width: f64,
    title_height: f64,
    left_margin: f64,
    names_margin: f64,
    bottom_margin: f64,
}

impl<'a> PanelGrid<'a> {
    pub(crate) fn lay_out(figure: &'a Figure, columns: usize, panel_width: f64) -> Self {
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

    pub(crate) fn height(&self) -> f64 {
        let rows = self.plans.chunks(self.columns);
        let gaps = theme::BLOCK_GAP * rows.len().saturating_sub(1) as f64;
        rows.map(|row| self.row_height(row)).sum::<f64>() + gaps
    }

    pub(crate) fn draw(&self, svg: &mut SvgWriter, origin: Point, slot_styles: &SlotStyles) {
        let mut y = origin.y;
        for row in self.plans.chunks(self.columns) {
            for (column, plan) in row.iter().enumerate() {
                let x = origin.x + column as f64 * (self.panel_width + theme::PANEL_GAP);
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
                svg.group(&[("data-panel", plan.chart.title())], |svg| {
                    draw_lines(svg, &plan.title, Point { x, y }, &theme::PANEL_TITLE);
                    plan.chart.draw(svg, plan.x_range, &plan.y, plot, left_margin, slot_styles);
                });
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
