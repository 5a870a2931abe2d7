//! Drawing one panel: its grid and axes, and in them the reference lines and series.

use crate::axis::{Axis, ResolvedAxis};
use crate::geometry::{Point, Rect};
use crate::legend::Looks;
use crate::marks::{DataArea, draw_series};
use crate::panel::{DataRange, Panel};
use crate::references::{draw_reference_labels, draw_reference_lines};
use crate::svg::{Anchor, PathData, Stroke, SvgWriter};
use crate::theme;

/// Distance between the plot and the numbers along it.
const TICK_GAP: f64 = 9.0;
/// Room beyond the ends of the x axis, so that markers there do not sit on the y axis.
const SIDE_INSET: f64 = 12.0;
/// Distance from the right edge of the plot to the right edge of the panel.
pub(crate) const RIGHT_MARGIN: f64 = 12.0;

const GRID_STROKE: Stroke = Stroke { color: theme::GRID, width: 1.0, dash: "" };
const MINOR_STROKE: Stroke = Stroke { color: theme::GRID_MINOR, width: 1.0, dash: "" };
const AXIS_STROKE: Stroke = Stroke { color: theme::AXIS, width: 1.2, dash: "" };

/// Range and ticks of the y axis for a plot of this height.
pub(crate) fn resolve_y(panel: &Panel, range: DataRange, plot_height: f64) -> ResolvedAxis {
    panel.y.resolve(range, (plot_height / 45.0).clamp(2.0, 8.0) as usize)
}

/// Range and ticks of the x axis, with as many ticks as have room for their numbers.
fn resolve_x(axis: &Axis, range: DataRange, plot_width: f64) -> ResolvedAxis {
    let room = plot_width - 2.0 * SIDE_INSET;
    let most = (room / 45.0).clamp(1.0, 10.0) as usize;
    let candidates = (1..=most).rev().map(|target| axis.resolve(range, target));
    let fits = |axis: &ResolvedAxis| {
        let places: Vec<f64> =
            axis.ticks.iter().filter_map(|tick| axis.fraction(tick.value)).collect();
        let closest = places.windows(2).map(|pair| pair[1] - pair[0]).fold(1.0, f64::min) * room;
        widest_label(axis) + 14.0 <= closest
    };
    candidates.into_iter().find(fits).unwrap_or_else(|| axis.resolve(range, 1))
}

fn widest_label(axis: &ResolvedAxis) -> f64 {
    axis.ticks.iter().map(|tick| theme::TICK_LABEL.width(&tick.label)).fold(0.0, f64::max)
}

/// Room that the y axis needs left of the plot.
pub(crate) fn left_margin(panel: &Panel, y: &ResolvedAxis) -> f64 {
    let label = if panel.y.label.is_empty() { 0.0 } else { theme::AXIS_LABEL.line_height() + 4.0 };
    label + widest_label(y) + TICK_GAP
}

/// Room that the x axis needs below the plot.
pub(crate) fn bottom_margin(panel: &Panel) -> f64 {
    let label = if panel.x.label.is_empty() { 0.0 } else { theme::AXIS_LABEL.line_height() + 3.0 };
    TICK_GAP + theme::TICK_LABEL.line_height() + label
}

/// Draws everything of a panel but its title: the axes around `plot` and what is inside.
pub(crate) fn draw_panel(
    svg: &mut SvgWriter,
    panel: &Panel,
    x_range: DataRange,
    y: &ResolvedAxis,
    plot: Rect,
    looks: &Looks,
) {
    let x = resolve_x(&panel.x, x_range, plot.width);
    let area = Rect { x: plot.x + SIDE_INSET, width: plot.width - 2.0 * SIDE_INSET, ..plot };
    let data = DataArea { x: &x, y, area };
    draw_grid(svg, &data, &plot);
    draw_tick_labels(svg, &data, &plot);
    draw_axis_names(svg, panel, y, &plot);
    draw_reference_lines(svg, &panel.references, &data, &plot);
    svg.line(
        Point { x: plot.x, y: plot.bottom() },
        Point { x: plot.right(), y: plot.bottom() },
        &AXIS_STROKE,
    );
    if panel.has_data() {
        draw_series(svg, &panel.series, looks, &data);
        draw_reference_labels(svg, &panel.references, &data, &plot);
    } else {
        draw_no_data(svg, &plot);
    }
}

fn draw_grid(svg: &mut SvgWriter, data: &DataArea, plot: &Rect) {
    let draw = |svg: &mut SvgWriter, x_values: &[f64], y_values: &[f64], stroke: &Stroke| {
        let mut lines = PathData::default();
        for x in x_values.iter().filter_map(|&value| data.x_position(value)) {
            lines.polyline(&[Point { x, y: plot.y }, Point { x, y: plot.bottom() }]);
        }
        for y in y_values.iter().filter_map(|&value| data.y_position(value)) {
            lines.polyline(&[Point { x: plot.x, y }, Point { x: plot.right(), y }]);
        }
        svg.stroke_path(&lines, stroke);
    };
    draw(svg, &data.x.minor_ticks, &data.y.minor_ticks, &MINOR_STROKE);
    let values = |axis: &ResolvedAxis| axis.ticks.iter().map(|tick| tick.value).collect::<Vec<_>>();
    draw(svg, &values(data.x), &values(data.y), &GRID_STROKE);
}

fn draw_tick_labels(svg: &mut SvgWriter, data: &DataArea, plot: &Rect) {
    let style = &theme::TICK_LABEL;
    for tick in &data.x.ticks {
        if let Some(x) = data.x_position(tick.value) {
            let at = Point { x, y: plot.bottom() + TICK_GAP + style.size };
            svg.text(&tick.label, at, Anchor::Middle, style);
        }
    }
    for tick in &data.y.ticks {
        if let Some(y) = data.y_position(tick.value) {
            let at = Point { x: plot.x - TICK_GAP, y: y + style.half_capital_height() };
            svg.text(&tick.label, at, Anchor::End, style);
        }
    }
}

fn draw_axis_names(svg: &mut SvgWriter, panel: &Panel, y: &ResolvedAxis, plot: &Rect) {
    let style = &theme::AXIS_LABEL;
    if !panel.x.label.is_empty() {
        let name = style.shorten(&panel.x.label, plot.width);
        let at = Point {
            x: plot.x + plot.width / 2.0,
            y: plot.bottom() + bottom_margin(panel) - 0.25 * style.size,
        };
        svg.text(&name, at, Anchor::Middle, style);
    }
    if !panel.y.label.is_empty() {
        let name = style.shorten(&panel.y.label, plot.height);
        // The name keeps its distance from the numbers of its own panel, however wide those of
        // the other panels are.
        let at =
            Point { x: plot.x - left_margin(panel, y) + style.size, y: plot.y + plot.height / 2.0 };
        svg.upward_text(&name, at, style);
    }
}

/// Draws the outline of a plot without grid, and says why it is empty.
fn draw_no_data(svg: &mut SvgWriter, plot: &Rect) {
    let (left, right, top, bottom) = (plot.x, plot.right(), plot.y, plot.bottom());
    let mut frame = PathData::default();
    frame.polyline(&[
        Point { x: left, y: bottom },
        Point { x: left, y: top },
        Point { x: right, y: top },
        Point { x: right, y: bottom },
    ]);
    svg.stroke_path(&frame, &GRID_STROKE);
    let middle = Point { x: left + plot.width / 2.0, y: top + plot.height / 2.0 };
    svg.text("no data", middle, Anchor::Middle, &theme::NOTICE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_along_the_x_axis_have_room() {
        for width in [60.0, 120.0, 300.0, 900.0] {
            let axis = resolve_x(&Axis::linear("x"), Some((0.0, 3e-7)), width);
            let distance = (width - 2.0 * SIDE_INSET) / (axis.ticks.len() - 1) as f64;
            assert!(axis.ticks.len() == 2 || widest_label(&axis) < distance);
        }
    }

    #[test]
    fn the_left_margin_grows_with_the_numbers() {
        let panel = Panel::new("t", Axis::linear("x"), Axis::linear("y"));
        let short = resolve_y(&panel, Some((0.0, 1.0)), 300.0);
        let long = resolve_y(&panel, Some((-1e-12, 1e-12)), 300.0);
        assert!(left_margin(&panel, &long) > left_margin(&panel, &short) + 20.0);
        assert!(left_margin(&panel, &long) > widest_label(&long));
    }
}
