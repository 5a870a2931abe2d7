//! One chart of a figure: two axes, series and reference lines, and how they are drawn.

use crate::axis::{Axis, ResolvedAxis, draw_axis_names, draw_tick_labels, resolve_x};
use crate::geometry::{Point, Rect};
use crate::legend::SlotStyles;
use crate::series::{DataArea, Series, SeriesStyle, draw_series};
use crate::svg::{Anchor, PathData, Stroke, SvgWriter};
use crate::theme;

/// Which way a reference line runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// At one y, across the panel.
    Horizontal,
    /// At one x, from bottom to top.
    Vertical,
}

/// A dashed line at a value worth comparing with, with a small label.
#[derive(Clone, Debug)]
pub struct ReferenceLine {
    pub(crate) direction: Direction,
    pub(crate) value: f64,
    pub(crate) label: String,
}

impl ReferenceLine {
    /// A line across the panel at one y. The label may be empty.
    pub fn horizontal(y: f64, label: impl Into<String>) -> Self {
        Self { direction: Direction::Horizontal, value: y, label: label.into() }
    }

    /// A line from bottom to top at one x. The label may be empty.
    pub fn vertical(x: f64, label: impl Into<String>) -> Self {
        Self { direction: Direction::Vertical, value: x, label: label.into() }
    }
}

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
        draw_series(svg, &panel.series, slot_styles, &data);
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

const STROKE: Stroke = Stroke { color: theme::REFERENCE, width: 1.2, dash: "4 3" };
/// Distance between a line and its label.
const GAP: f64 = 4.0;

/// Draws the lines that are in view; they lie behind the data.
pub(crate) fn draw_reference_lines(
    svg: &mut SvgWriter,
    lines: &[ReferenceLine],
    data: &DataArea,
    plot: &Rect,
) {
    for line in lines {
        let Some(at) = position(line, data) else { continue };
        let (from, to) = match line.direction {
            Direction::Horizontal => (Point { x: plot.x, y: at }, Point { x: plot.right(), y: at }),
            Direction::Vertical => (Point { x: at, y: plot.y }, Point { x: at, y: plot.bottom() }),
        };
        svg.line(from, to, &STROKE);
    }
}

/// Where a line crosses its axis, if that is in view.
fn position(line: &ReferenceLine, data: &DataArea) -> Option<f64> {
    let area = &data.area;
    match line.direction {
        Direction::Horizontal => {
            data.y_position(line.value).filter(|&y| area.contains(Point { x: area.x, y }))
        }
        Direction::Vertical => {
            data.x_position(line.value).filter(|&x| area.contains(Point { x, y: area.y }))
        }
    }
}

/// Names the lines that are in view, on top of the data, each beside its line and clear of the
/// other lines and names.
pub(crate) fn draw_reference_labels(
    svg: &mut SvgWriter,
    lines: &[ReferenceLine],
    data: &DataArea,
    plot: &Rect,
) {
    let style = &theme::REFERENCE_LABEL;
    // A name across another line would look like the name of that one.
    let line_place = |line: &ReferenceLine| {
        position(line, data).map(|at| match line.direction {
            Direction::Horizontal => Rect { y: at, height: 0.0, ..*plot },
            Direction::Vertical => Rect { x: at, width: 0.0, ..*plot },
        })
    };
    let mut taken: Vec<Rect> = lines.iter().filter_map(line_place).collect();
    for line in lines.iter().filter(|line| !line.label.trim().is_empty()) {
        let Some(at) = position(line, data) else { continue };
        let label = style.shorten(&line.label, plot.width / 2.0 - 2.0 * GAP);
        let places = label_places(line.direction, at, style.width(&label), plot);
        let is_inside = |place: &&Rect| {
            place.x >= plot.x
                && place.right() <= plot.right()
                && place.y >= plot.y
                && place.bottom() <= plot.bottom()
        };
        let is_free = |place: &&Rect| !taken.iter().any(|other| other.overlaps(place));
        let place =
            places.iter().filter(is_inside).find(is_free).or_else(|| places.iter().find(is_inside));
        if let Some(place) = place {
            let baseline = Point { x: place.x, y: place.bottom() - 0.25 * style.size };
            svg.halo_text(&label, baseline, Anchor::Start, style);
            taken.push(*place);
        }
    }
}

/// Boxes where a label may stand, best first: a horizontal line has its name above or below its
/// right or left end, a vertical one right or left of it, as high as possible.
fn label_places(direction: Direction, at: f64, width: f64, plot: &Rect) -> Vec<Rect> {
    let height = theme::REFERENCE_LABEL.line_height();
    let place = |x: f64, y: f64| Rect { x, y, width, height };
    match direction {
        Direction::Horizontal => {
            let ends = [plot.right() - width - 1.0, plot.x + GAP];
            let heights = [at - height, at + 1.0];
            ends.iter().flat_map(|&x| heights.map(|y| place(x, y))).collect()
        }
        Direction::Vertical => {
            let rows = (plot.height / height) as usize;
            let sides = [at + GAP, at - GAP - width];
            (0..rows)
                .map(|row| plot.y + row as f64 * height)
                .flat_map(|y| sides.map(|x| place(x, y)))
                .collect()
        }
    }
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

    const PLOT: Rect = Rect { x: 0.0, y: 0.0, width: 300.0, height: 200.0 };

    fn drawn(lines: &[ReferenceLine]) -> String {
        let x = Axis::linear("x").range(0.0, 1.0).resolve(None, 5);
        let y = Axis::linear("y").range(0.0, 1.0).resolve(None, 5);
        let data = DataArea { x: &x, y: &y, area: PLOT };
        let mut svg = SvgWriter::new(300.0, 200.0, "", "");
        draw_reference_lines(&mut svg, lines, &data, &PLOT);
        draw_reference_labels(&mut svg, lines, &data, &PLOT);
        svg.finish()
    }

    #[test]
    fn lines_out_of_view_are_not_drawn() {
        let lines = [
            ReferenceLine::horizontal(2.0, "above"),
            ReferenceLine::vertical(-1.0, "left"),
            ReferenceLine::vertical(f64::NAN, "nowhere"),
        ];
        let svg = drawn(&lines);
        assert!(!svg.contains("<line") && !svg.contains("<text"));
    }

    #[test]
    fn a_label_at_the_top_stands_below_its_line() {
        let svg = drawn(&[ReferenceLine::horizontal(1.0, "top")]);
        assert!(svg.contains(">top</text>"));
        assert!(!svg.contains(r#"y="-"#));
    }

    #[test]
    fn labels_of_close_lines_stand_on_their_outer_sides() {
        let svg =
            drawn(&[ReferenceLine::vertical(0.5, "one"), ReferenceLine::vertical(0.52, "two")]);
        let start = |name: &str| {
            let line = svg.lines().find(|line| line.contains(name)).unwrap();
            line.split('"').nth(1).unwrap().parse::<f64>().unwrap()
        };
        assert!(start(">one<") < 150.0 && start(">two<") > 156.0, "{svg}");
    }

    #[test]
    fn labels_of_lines_at_the_same_place_do_not_overlap() {
        let lines: Vec<ReferenceLine> = (0..4)
            .map(|index| ReferenceLine::vertical(0.5, format!("a long label {index}")))
            .collect();
        let svg = drawn(&lines);
        let places: std::collections::BTreeSet<&str> = svg
            .lines()
            .filter(|line| line.starts_with("<text"))
            .filter_map(|line| line.split(" font-size").next())
            .collect();
        assert_eq!(places.len(), 4);
    }
}
