//! Drawing one panel: its grid and axes, and in them the reference lines and series.

use crate::axes::{draw_axis_names, draw_tick_labels, resolve_x};
use crate::axis::ResolvedAxis;
use crate::geometry::{Point, Rect};
use crate::legend::Looks;
use crate::marks::{DataArea, draw_series};
use crate::panel::{DataRange, Panel};
use crate::references::{draw_reference_labels, draw_reference_lines};
use crate::svg::{Anchor, PathData, Stroke, SvgWriter};
use crate::theme;

/// Room beyond the ends of the x axis, so that markers there do not sit on the y axis.
pub(crate) const SIDE_INSET: f64 = 12.0;
/// Distance from the right edge of the plot to the right edge of the panel.
pub(crate) const RIGHT_MARGIN: f64 = 12.0;

const GRID_STROKE: Stroke = Stroke { color: theme::GRID, width: 1.0, dash: "" };
const MINOR_STROKE: Stroke = Stroke { color: theme::GRID_MINOR, width: 1.0, dash: "" };
/// How the lines of the axes are drawn.
pub(crate) const AXIS_STROKE: Stroke = Stroke { color: theme::AXIS, width: 1.2, dash: "" };

/// Draws everything of a panel but its title: the axes around `plot` and what is inside.
pub(crate) fn draw_panel(
    svg: &mut SvgWriter,
    panel: &Panel,
    x_range: DataRange,
    y: &ResolvedAxis,
    plot: Rect,
    looks: &Looks,
) {
    let area = Rect { x: plot.x + SIDE_INSET, width: plot.width - 2.0 * SIDE_INSET, ..plot };
    let x = resolve_x(&panel.x_axis(x_range), x_range, area.width);
    let data = DataArea { x: &x, y, area };
    draw_grid(svg, &data, &plot);
    draw_tick_labels(svg, &data, &plot);
    draw_axis_names(svg, &panel.x, &panel.y, y, &plot);
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

/// Draws the lines at the ticks of both axes.
pub(crate) fn draw_grid(svg: &mut SvgWriter, data: &DataArea, plot: &Rect) {
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

/// Draws the outline of a plot without grid, and says why it is empty.
pub(crate) fn draw_no_data(svg: &mut SvgWriter, plot: &Rect) {
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
