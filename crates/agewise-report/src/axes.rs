//! The axes around a plot: how much room they need, their numbers and their names.

use crate::axis::{Axis, ResolvedAxis};
use crate::geometry::{Point, Rect};
use crate::marks::DataArea;
use crate::panel::DataRange;
use crate::svg::{Anchor, SvgWriter};
use crate::theme;

/// Distance between the plot and the numbers along it.
pub(crate) const TICK_GAP: f64 = 9.0;

/// Range and ticks of an upright axis of this height.
pub(crate) fn resolve_y(axis: &Axis, range: DataRange, height: f64) -> ResolvedAxis {
    axis.resolve(range, (height / 45.0).clamp(2.0, 8.0) as usize)
}

/// Range and ticks of an x axis of this width, with as many ticks as have room for their numbers.
pub(crate) fn resolve_x(axis: &Axis, range: DataRange, width: f64) -> ResolvedAxis {
    let most = (width / 45.0).clamp(1.0, 10.0) as usize;
    let candidates = (1..=most).rev().map(|target| axis.resolve(range, target));
    let fits = |axis: &ResolvedAxis| {
        let places: Vec<f64> =
            axis.ticks.iter().filter_map(|tick| axis.fraction(tick.value)).collect();
        let closest = places.windows(2).map(|pair| pair[1] - pair[0]).fold(1.0, f64::min) * width;
        widest_label(axis) + 14.0 <= closest
    };
    candidates.into_iter().find(fits).unwrap_or_else(|| axis.resolve(range, 1))
}

/// Width of the widest number along an axis.
pub(crate) fn widest_label(axis: &ResolvedAxis) -> f64 {
    axis.ticks.iter().map(|tick| theme::TICK_LABEL.width(&tick.label)).fold(0.0, f64::max)
}

/// Room that a y axis needs left of the plot.
pub(crate) fn left_margin(axis: &Axis, y: &ResolvedAxis) -> f64 {
    let label = if axis.label.is_empty() { 0.0 } else { theme::AXIS_LABEL.line_height() + 4.0 };
    label + widest_label(y) + TICK_GAP
}

/// Room that an x axis needs below the plot.
pub(crate) fn bottom_margin(axis: &Axis) -> f64 {
    let label = if axis.label.is_empty() { 0.0 } else { theme::AXIS_LABEL.line_height() + 3.0 };
    TICK_GAP + theme::TICK_LABEL.line_height() + label
}

/// Writes the numbers along both axes.
pub(crate) fn draw_tick_labels(svg: &mut SvgWriter, data: &DataArea, plot: &Rect) {
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

/// Writes the names of both axes; `y` is what became of `y_axis`.
pub(crate) fn draw_axis_names(
    svg: &mut SvgWriter,
    x_axis: &Axis,
    y_axis: &Axis,
    y: &ResolvedAxis,
    plot: &Rect,
) {
    draw_x_axis_name(svg, x_axis, plot, plot);
    let style = &theme::AXIS_LABEL;
    if !y_axis.label.is_empty() {
        let name = style.shorten(&y_axis.label, plot.height);
        // The name keeps its distance from the numbers of its own panel, however wide those of
        // the other panels are.
        let at = Point {
            x: plot.x - left_margin(y_axis, y) + style.size,
            y: plot.y + plot.height / 2.0,
        };
        svg.upward_text(&name, at, style);
    }
}

/// Writes the name of the x axis under the middle of `plot`, as far as it stays within the width
/// of `room`.
pub(crate) fn draw_x_axis_name(svg: &mut SvgWriter, axis: &Axis, plot: &Rect, room: &Rect) {
    if axis.label.is_empty() {
        return;
    }
    let style = &theme::AXIS_LABEL;
    let name = style.shorten(&axis.label, room.width);
    let half_width = style.width(&name) / 2.0;
    let middle = plot.x + plot.width / 2.0;
    let at = Point {
        x: middle.min(room.right() - half_width).max(room.x + half_width),
        y: plot.bottom() + bottom_margin(axis) - 0.25 * style.size,
    };
    svg.text(&name, at, Anchor::Middle, style);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_along_the_x_axis_have_room() {
        for width in [36.0, 96.0, 276.0, 876.0] {
            let axis = resolve_x(&Axis::linear("x"), Some((0.0, 3e-7)), width);
            let distance = width / (axis.ticks.len() - 1) as f64;
            assert!(axis.ticks.len() == 2 || widest_label(&axis) < distance);
        }
    }

    #[test]
    fn a_wide_name_moves_into_the_room_there_is() {
        let plot = Rect { x: 150.0, y: 0.0, width: 50.0, height: 10.0 };
        let room = Rect { x: 0.0, width: 210.0, ..plot };
        let x_of_name = |label: &str, room: &Rect| {
            let mut svg = SvgWriter::new(10.0, 10.0, "", "");
            draw_x_axis_name(&mut svg, &Axis::linear(label), &plot, room);
            let text =
                svg.finish().lines().find(|line| line.starts_with("<text x")).unwrap().to_owned();
            text.split('"').nth(1).unwrap().parse::<f64>().unwrap()
        };
        assert!((x_of_name("x", &room) - 175.0).abs() < 0.1);
        let moved = x_of_name("a rather long name", &room);
        assert!(moved < 160.0 && moved > 105.0);
        assert!((x_of_name("a rather long name", &plot) - 175.0).abs() < 0.1);
    }

    #[test]
    fn the_left_margin_grows_with_the_numbers() {
        let axis = Axis::linear("y");
        let short = resolve_y(&axis, Some((0.0, 1.0)), 300.0);
        let long = resolve_y(&axis, Some((-1e-12, 1e-12)), 300.0);
        assert!(left_margin(&axis, &long) > left_margin(&axis, &short) + 20.0);
        assert!(left_margin(&axis, &long) > widest_label(&long));
    }
}
