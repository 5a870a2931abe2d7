//! One chart of a figure: two axes, series and reference lines, and how they are drawn.

use crate::axis::{
    Axis, ResolvedAxis, Zoom, draw_axis_names, draw_x_tick_labels, draw_y_tick_labels, resolve_x,
};
use crate::geometry::{Point, Rect};
use crate::legend::SlotStyles;
use crate::reference::{Direction, ReferenceLine, draw_reference_labels, draw_reference_lines};
use crate::series::{DataArea, Series, SeriesStyle, draw_series};
use crate::svg::{Anchor, PathData, Stroke, SvgWriter, number};
use crate::theme;

/// One chart of a figure.
#[must_use]
#[derive(Clone, Debug)]
pub struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) references: Vec<ReferenceLine>,
}

/// Bars reach this far to both sides of their x.
pub(crate) const HALF_BAR: f64 = 0.5;

/// The lowest and highest value that an axis has to show, if there is any.
pub(crate) type DataRange = Option<(f64, f64)>;

impl Panel {
    /// A panel without series. The title may be empty.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), references: Vec::new() }
    }

    /// Adds a series; later ones are drawn on top of earlier ones.
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a reference line. A range found from the data is extended to include it.
    pub fn reference(mut self, line: ReferenceLine) -> Self {
        self.references.push(line);
        self
    }

    /// Whether any point or band of any series can be shown on the axes.
    pub(crate) fn has_data(&self) -> bool {
        self.series.iter().any(|series| {
            series.points.iter().any(|&point| self.can_show(point))
                || series.band.iter().any(|&bounds| self.can_show_bounds(bounds))
        })
    }

    fn can_show(&self, (x, y): (f64, f64)) -> bool {
        self.x.scale.can_show(x) && self.y.scale.can_show(y)
    }

    /// Whether any part of a band can be shown: on a logarithmic axis that may be its upper end.
    fn can_show_bounds(&self, (x, low, high): (f64, f64, f64)) -> bool {
        low.is_finite() && high.is_finite() && self.can_show((x, low.max(high)))
    }

    /// The x axis for this data: bars have borders of their own, and the axis ends with them.
    pub(crate) fn x_axis(&self, x_range: DataRange) -> Axis {
        let has_bars = self.series.iter().any(|series| series.style == SeriesStyle::Bars);
        if has_bars { self.x.pinned_to(x_range) } else { self.x.clone() }
    }

    /// What the x axis and the y axis have to show.
    pub(crate) fn data_ranges(&self) -> (DataRange, DataRange) {
        let (mut x_range, mut y_range) = (None, None);
        let (x_low, x_high) = self.x.fixed_range().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        // What a fixed x range hides shall not stretch the y axis.
        let in_view = |x: f64| x >= x_low && x <= x_high;
        for series in &self.series {
            let half_width = if series.style == SeriesStyle::Bars { HALF_BAR } else { 0.0 };
            let visible = |&(x, y): &(f64, f64)| self.can_show((x, y)) && in_view(x);
            for (x, y) in series.points.iter().copied().filter(visible) {
                for x in [x - half_width, x, x + half_width] {
                    include_shown(&mut x_range, x, &self.x);
                }
                include(&mut y_range, y);
                if series.style.stands_on_zero() {
                    include_shown(&mut y_range, 0.0, &self.y);
                }
            }
            for &(x, low, high) in &series.band {
                if self.can_show_bounds((x, low, high)) && in_view(x) {
                    include(&mut x_range, x);
                    include_shown(&mut y_range, low, &self.y);
                    include_shown(&mut y_range, high, &self.y);
                }
            }
        }
        for line in &self.references {
            let (range, axis) = match line.direction {
                Direction::Horizontal => (&mut y_range, &self.y),
                Direction::Vertical => (&mut x_range, &self.x),
            };
            include_shown(range, line.value, axis);
        }
        (x_range, y_range)
    }

    /// The panel in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        let names: Vec<&str> = self
            .series
            .iter()
            .map(|series| series.name.as_str())
            .filter(|name| !name.is_empty())
            .collect();
        let content = if !self.has_data() {
            "; no data".to_owned()
        } else if names.is_empty() {
            String::new()
        } else {
            format!("; series: {}", names.join(", "))
        };
        format!("{}{content}.", describe_axes(&self.title, &self.x, &self.y))
    }
}

/// Title and axes of a chart in words.
pub(crate) fn describe_axes(title: &str, x: &Axis, y: &Axis) -> String {
    let title = match title {
        "" => "Panel".to_owned(),
        title => format!("Panel \"{title}\""),
    };
    match (x.label.as_str(), y.label.as_str()) {
        ("", _) | (_, "") => title,
        (x, y) => format!("{title}: {y} against {x}"),
    }
}

/// Extends `range` to `value`, if the axis can show it.
pub(crate) fn include_shown(range: &mut DataRange, value: f64, axis: &Axis) {
    if axis.scale.can_show(value) {
        include(range, value);
    }
}

/// Extends `range` to `value`.
pub(crate) fn include(range: &mut DataRange, value: f64) {
    *range = Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
}

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
    slot_styles: &SlotStyles,
) {
    let area = Rect { x: plot.x + SIDE_INSET, width: plot.width - 2.0 * SIDE_INSET, ..plot };
    let x = resolve_x(&panel.x_axis(x_range), x_range, area.width);
    let data = DataArea { x: &x, y, area };
    let numbers =
        [plot.x, plot.y, plot.width, plot.height, area.x, area.width].map(number).join(" ");
    let (x_ends, y_ends) = (x.for_script(), y.for_script());
    let mut attributes = vec![
        ("class", "plot"),
        ("data-place", &*numbers),
        ("data-x", &*x_ends),
        ("data-y", &*y_ends),
    ];
    match panel.x.zoom {
        Zoom::Fixed => {}
        Zoom::Zoomable => attributes.push(("data-zoom", "rounds")),
        Zoom::Convertible => attributes.push(("data-zoom", "units")),
    }
    svg.group(&attributes, |svg| {
        draw_grids(svg, &data, &plot);
        draw_axis_names(svg, &panel.x, &panel.y, y, &plot);
        draw_reference_lines(svg, &panel.references, &data, &plot);
        svg.line(
            Point { x: plot.x, y: plot.bottom() },
            Point { x: plot.right(), y: plot.bottom() },
            &AXIS_STROKE,
        );
        if panel.has_data() {
            draw_series(svg, &panel.series, slot_styles, &data);
            draw_reference_labels(svg, &panel.references, &data, &plot);
        } else {
            draw_no_data(svg, &plot);
        }
    });
}

/// Draws the lines and numbers at the ticks of both axes, each axis in a group of its own.
pub(crate) fn draw_grids(svg: &mut SvgWriter, data: &DataArea, plot: &Rect) {
    let values = |axis: &ResolvedAxis| axis.ticks.iter().map(|tick| tick.value).collect::<Vec<_>>();
    let upright = |svg: &mut SvgWriter, values: &[f64], stroke: &Stroke| {
        let mut lines = PathData::default();
        for x in values.iter().filter_map(|&value| data.x_position(value)) {
            lines.polyline(&[Point { x, y: plot.y }, Point { x, y: plot.bottom() }]);
        }
        svg.stroke_path(&lines, stroke);
    };
    let level = |svg: &mut SvgWriter, values: &[f64], stroke: &Stroke| {
        let mut lines = PathData::default();
        for y in values.iter().filter_map(|&value| data.y_position(value)) {
            lines.polyline(&[Point { x: plot.x, y }, Point { x: plot.right(), y }]);
        }
        svg.stroke_path(&lines, stroke);
    };
    svg.group(&[("class", "x-axis")], |svg| {
        upright(svg, &data.x.minor_ticks, &MINOR_STROKE);
        upright(svg, &values(data.x), &GRID_STROKE);
        draw_x_tick_labels(svg, data, plot);
    });
    svg.group(&[("class", "y-axis")], |svg| {
        level(svg, &data.y.minor_ticks, &MINOR_STROKE);
        level(svg, &values(data.y), &GRID_STROKE);
        draw_y_tick_labels(svg, data, plot);
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(points: &[(f64, f64)]) -> Panel {
        Panel::new("t", Axis::linear("x"), Axis::linear("y")).series(Series::new(
            "s",
            SeriesStyle::Line,
            points.iter().copied(),
        ))
    }

    #[test]
    fn ranges_skip_what_cannot_be_shown() {
        let panel = panel(&[(0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 5.0), (2.0, 3.0)]);
        assert_eq!(panel.data_ranges(), (Some((0.0, 2.0)), Some((1.0, 3.0))));
        assert!(panel.has_data());
    }

    #[test]
    fn a_fixed_x_range_hides_points_from_the_y_range() {
        let mut panel = panel(&[(0.0, 1.0), (1.0, 2.0), (9.0, 100.0)]);
        panel.x = panel.x.range(0.0, 5.0);
        assert_eq!(panel.data_ranges().1, Some((1.0, 2.0)));
    }

    #[test]
    fn stems_and_references_widen_the_range() {
        let mut panel = panel(&[(3.0, 0.5)]);
        panel.series[0].style = SeriesStyle::Stems;
        let panel = panel
            .reference(ReferenceLine::vertical(7.0, ""))
            .reference(ReferenceLine::horizontal(f64::NAN, ""));
        assert_eq!(panel.data_ranges(), (Some((3.0, 7.0)), Some((0.0, 0.5))));
    }

    #[test]
    fn bands_widen_the_range_and_count_as_data() {
        let bounds = [(0.0, 0.5, 1.5), (5.0, 2.0, -3.0), (6.0, f64::NAN, 90.0)];
        let banded = |y: Axis| {
            let series = Series::new("s", SeriesStyle::Line, []).band(bounds);
            Panel::new("t", Axis::linear("x"), y).series(series)
        };
        assert_eq!(banded(Axis::linear("y")).data_ranges(), (Some((0.0, 5.0)), Some((-3.0, 2.0))));
        assert_eq!(banded(Axis::log10("y")).data_ranges().1, Some((0.5, 2.0)));
        assert!(banded(Axis::linear("y")).has_data());
        assert!(!banded(Axis::linear("y").range(0.0, 1.0)).description().contains("no data"));
    }

    #[test]
    fn bars_have_a_width_and_stand_on_zero() {
        let mut panel = panel(&[(3.0, 0.5), (7.0, 0.25)]);
        panel.series[0].style = SeriesStyle::Bars;
        let (x_range, y_range) = panel.data_ranges();
        assert_eq!((x_range, y_range), (Some((2.5, 7.5)), Some((0.0, 0.5))));
        assert_eq!(panel.x_axis(x_range).fixed_range(), Some((2.5, 7.5)));
    }

    #[test]
    fn a_log_axis_has_no_data_at_or_below_zero() {
        let mut panel = panel(&[(0.0, 0.0), (1.0, -2.0)]);
        panel.y = Axis::log10("y");
        assert!(!panel.has_data());
        assert!(panel.description().contains("no data"));
    }
}
