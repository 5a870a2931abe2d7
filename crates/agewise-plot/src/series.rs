//! A named series of points, and how lines, markers, stems and bands are drawn.

use crate::axis::{ResolvedAxis, Zoom};
use crate::bars::{BarLayout, draw_bars};
use crate::geometry::{
    Point, Rect, clip_polygon, clip_polyline, space_markers, thin_line, thin_markers,
};
use crate::legend::SlotStyles;
use crate::svg::{PathData, Stroke, SvgWriter};
use crate::theme::{self, SlotStyle};

/// How the points of a series are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesStyle {
    /// Straight lines from point to point.
    Line,
    /// Straight lines with a marker at the points.
    LineWithMarkers,
    /// A marker at each point, no lines.
    Markers,
    /// An upright line from the axis to each point, with a marker at its end. Stems of several
    /// series in one panel stand slightly side by side so that none hides another.
    Stems,
    /// Each value holds until the next point, then jumps.
    Steps,
    /// Upright bars from the axis to each point, one unit of x wide: a histogram. Bars of several
    /// series in one panel stand side by side. Where there is no room for single bars, their
    /// outline is drawn instead.
    Bars,
}

impl SeriesStyle {
    /// Whether the points are joined by lines.
    pub(crate) fn has_line(self) -> bool {
        matches!(self, Self::Line | Self::LineWithMarkers | Self::Steps)
    }

    /// Whether the points carry markers.
    pub(crate) fn has_markers(self) -> bool {
        matches!(self, Self::LineWithMarkers | Self::Markers | Self::Stems)
    }

    /// Whether the height above zero is what is read, so that zero has to be in view.
    pub(crate) fn stands_on_zero(self) -> bool {
        matches!(self, Self::Stems | Self::Bars)
    }
}

/// A named series of points.
///
/// Points are joined in the order given. A point that cannot be shown (a coordinate that is not
/// finite, or not above zero on a logarithmic axis) is left out and breaks the line. Long series
/// are thinned to what can be seen; extremes are kept.
#[must_use]
#[derive(Clone, Debug)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Places along x with the lower and upper bound there.
    pub(crate) band: Vec<(f64, f64, f64)>,
    pub(crate) style: SeriesStyle,
    pub(crate) slot: Option<usize>,
}

impl Series {
    /// A series drawn in the given style. Series with the same name, in any panel of a figure,
    /// look alike and share one entry in the legend; an empty name has no entry.
    pub fn new(
        name: impl Into<String>,
        style: SeriesStyle,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
            band: Vec::new(),
            style,
            slot: None,
        }
    }

    /// Adds a translucent band from a lower to an upper bound at each x, for example a confidence
    /// interval; it lies behind all lines of the panel. The items are `(x, low, high)`; the order
    /// of the bounds does not matter. An item that is not finite breaks the band; a lower bound
    /// at or below zero reaches down to the end of a logarithmic axis.
    pub fn band(mut self, bounds: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        self.band = bounds.into_iter().collect();
        self
    }

    /// Fixes which colour, dashes and marker the series gets, so that it looks the same in
    /// several figures. Without it, names get the free numbers in order of appearance.
    pub fn slot(mut self, slot: usize) -> Self {
        self.slot = Some(slot);
        self
    }
}

/// Stems of several series stand close together, so their markers are smaller than others.
const STEM_MARKER_RADIUS: f64 = 3.4;

/// The place where values become positions: two axes and the area they span.
#[derive(Debug)]
pub(crate) struct DataArea<'a> {
    pub(crate) x: &'a ResolvedAxis,
    pub(crate) y: &'a ResolvedAxis,
    pub(crate) area: Rect,
}

impl DataArea<'_> {
    /// The horizontal position of an x value, if the axis can show it.
    pub(crate) fn x_position(&self, x: f64) -> Option<f64> {
        self.x.fraction(x).map(|fraction| self.area.x + fraction * self.area.width)
    }

    /// The vertical position of a y value, if the axis can show it.
    pub(crate) fn y_position(&self, y: f64) -> Option<f64> {
        self.y.fraction(y).map(|fraction| self.area.bottom() - fraction * self.area.height)
    }

    fn positions(&self, series: &Series) -> Vec<Option<Point>> {
        let position =
            |&(x, y): &(f64, f64)| Some(Point { x: self.x_position(x)?, y: self.y_position(y)? });
        series.points.iter().map(position).collect()
    }

    /// Where stems and bars begin: at zero if it is in view, else at the nearer end of the axis.
    pub(crate) fn base(&self) -> f64 {
        let base = self.y_position(0.0).unwrap_or(self.area.bottom());
        base.clamp(self.area.y, self.area.bottom())
    }
}

/// Draws all series in the order given, the bands of all of them first: no band covers a line.
pub(crate) fn draw_series(
    svg: &mut SvgWriter,
    series: &[Series],
    slot_styles: &SlotStyles,
    data: &DataArea,
) {
    for one in series {
        svg.series(&one.name, |svg| draw_band(svg, one, data, slot_styles.of(&one.name)));
    }
    let dodge = stem_dodge(series, data);
    let stem_count = series.iter().filter(|series| series.style == SeriesStyle::Stems).count();
    let mut stem_index = 0;
    let bar_layout = BarLayout::find(series, data);
    let mut bar_index = 0;
    for one in series {
        let slot_style = slot_styles.of(&one.name);
        let positions = data.positions(one);
        svg.series(&one.name, |svg| match one.style {
            SeriesStyle::Line => draw_line(svg, &thin_line(positions), data, slot_style),
            SeriesStyle::LineWithMarkers => {
                let line = thin_line(positions);
                let points: Vec<Point> = visible(&line, data);
                draw_line(svg, &line, data, slot_style);
                draw_markers(svg, &space_markers(points), slot_style, theme::MARKER_RADIUS);
            }
            SeriesStyle::Markers => {
                let points = thin_markers(visible(&positions, data));
                draw_markers(svg, &points, slot_style, theme::MARKER_RADIUS);
            }
            SeriesStyle::Steps => {
                let steps = thin_line(positions)
                    .split(Option::is_none)
                    .map(|piece| staircase(&piece.iter().copied().flatten().collect::<Vec<_>>()))
                    .collect::<Vec<_>>();
                draw_pieces(svg, &steps, data, slot_style);
            }
            SeriesStyle::Stems => {
                let offset = dodge * (f64::from(stem_index) - (stem_count as f64 - 1.0) / 2.0);
                stem_index += 1;
                draw_stems(svg, &thin_line(positions), offset, data, slot_style);
            }
            SeriesStyle::Bars => {
                draw_bars(svg, one, bar_index, bar_layout, data, slot_style);
                bar_index += 1;
            }
        });
    }
}

fn visible(positions: &[Option<Point>], data: &DataArea) -> Vec<Point> {
    positions.iter().copied().flatten().filter(|&point| data.area.contains(point)).collect()
}

fn draw_line(
    svg: &mut SvgWriter,
    positions: &[Option<Point>],
    data: &DataArea,
    slot_style: SlotStyle,
) {
    let pieces: Vec<Vec<Point>> = positions
        .split(Option::is_none)
        .map(|piece| piece.iter().copied().flatten().collect())
        .collect();
    draw_pieces(svg, &pieces, data, slot_style);
}

/// Draws unbroken lines. A point with a gap on both sides has no line, so it becomes a dot.
fn draw_pieces(svg: &mut SvgWriter, pieces: &[Vec<Point>], data: &DataArea, slot_style: SlotStyle) {
    let (mut lines, mut dots) = (PathData::default(), PathData::default());
    let mut whole = PathData::default();
    for piece in pieces.iter().filter(|piece| data.x.zoom != Zoom::Fixed && piece.len() > 1) {
        whole.polyline(piece);
    }
    for piece in pieces.iter().flat_map(|piece| clip_polyline(piece, &data.area)) {
        match piece[..] {
            [lone] => dots.circle(lone, theme::LINE_WIDTH),
            _ => lines.polyline(&piece),
        }
    }
    let stroke =
        Stroke { color: slot_style.color, width: theme::LINE_WIDTH, dash: slot_style.dash };
    if whole.is_empty() {
        svg.stroke_path(&lines, &stroke);
    } else {
        svg.stroke_part(&lines, &whole, &stroke);
    }
    svg.fill_path(&dots, slot_style.color, None);
}

/// The corners of a line that keeps each height until the next point.
fn staircase(points: &[Point]) -> Vec<Point> {
    let mut corners = Vec::with_capacity(2 * points.len());
    for pair in points.windows(2) {
        corners.push(pair[0]);
        corners.push(Point { x: pair[1].x, y: pair[0].y });
    }
    corners.extend(points.last());
    corners
}

fn draw_stems(
    svg: &mut SvgWriter,
    positions: &[Option<Point>],
    offset: f64,
    data: &DataArea,
    slot_style: SlotStyle,
) {
    let base = data.base();
    let mut stems = PathData::default();
    let inside_sideways = |point: &Point| data.area.contains(Point { y: data.area.y, ..*point });
    for point in positions.iter().flatten().filter(|point| inside_sideways(point)) {
        let x = point.x + offset;
        let tip = point.y.clamp(data.area.y, data.area.bottom());
        stems.polyline(&[Point { x, y: base }, Point { x, y: tip }]);
    }
    svg.stroke_path(&stems, &Stroke { color: slot_style.color, width: 1.6, dash: "" });
    let tips: Vec<Point> = visible(positions, data)
        .into_iter()
        .map(|point| Point { x: point.x + offset, ..point })
        .collect();
    draw_markers(svg, &thin_markers(tips), slot_style, STEM_MARKER_RADIUS);
}

/// How far the stems of neighbouring series stand apart: enough to see each, never so much that
/// they reach the next x.
fn stem_dodge(series: &[Series], data: &DataArea) -> f64 {
    const WIDEST: f64 = 3.5;
    let stems: Vec<&Series> =
        series.iter().filter(|series| series.style == SeriesStyle::Stems).collect();
    if stems.len() < 2 {
        return 0.0;
    }
    let mut places: Vec<f64> = stems
        .iter()
        .flat_map(|series| &series.points)
        .filter_map(|&(x, _)| data.x_position(x))
        .collect();
    places.sort_by(f64::total_cmp);
    let spacing = places
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .filter(|&distance| distance > 1e-6)
        .fold(f64::INFINITY, f64::min);
    (0.6 * spacing / stems.len() as f64).min(WIDEST)
}

fn draw_markers(svg: &mut SvgWriter, centers: &[Point], slot_style: SlotStyle, radius: f64) {
    // In a dense cloud the white rims would hide the markers below.
    const MOST_WITH_RIM: usize = 400;
    let mut path = PathData::default();
    for &center in centers {
        slot_style.marker.add_to(&mut path, center, radius);
    }
    let rim = Stroke { color: theme::BACKGROUND, width: 1.0, dash: "" };
    let rim = (centers.len() <= MOST_WITH_RIM).then_some(&rim);
    svg.fill_marks(&path, slot_style.color, rim, centers);
}

/// Draws the band of `series`, if it has one.
pub(crate) fn draw_band(
    svg: &mut SvgWriter,
    series: &Series,
    data: &DataArea,
    slot_style: SlotStyle,
) {
    let edges: Vec<Option<(Point, Point)>> =
        series.band.iter().map(|&bounds| edge_positions(bounds, data)).collect();
    // Thinning looks at the columns of the points and at the gaps. Both edges share these, so they
    // fall into the same pieces.
    let upper = thin_line(edges.iter().map(|edge| edge.map(|(upper, _)| upper)).collect());
    let lower = thin_line(edges.iter().map(|edge| edge.map(|(_, lower)| lower)).collect());
    let (mut path, mut whole) = (PathData::default(), PathData::default());
    for (upper, lower) in upper.split(Option::is_none).zip(lower.split(Option::is_none)) {
        let outline: Vec<Point> =
            upper.iter().chain(lower.iter().rev()).copied().flatten().collect();
        path.closed(&clip_polygon(&outline, &data.area));
        whole.closed(&outline);
    }
    if data.x.zoom == Zoom::Fixed {
        svg.tint_path(&path, slot_style.color);
    } else {
        svg.tint_part(&path, &whole, slot_style.color);
    }
}

/// Where the upper and the lower end of the band are at one x, if they can be shown.
fn edge_positions((x, low, high): (f64, f64, f64), data: &DataArea) -> Option<(Point, Point)> {
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    let x = data.x_position(x)?;
    let upper = data.y_position(low.max(high))?;
    // Only a logarithmic axis has no place for a finite bound, and then it is beyond its low end.
    let lower = data.y_position(low.min(high)).unwrap_or(data.area.bottom());
    Some((Point { x, y: upper }, Point { x, y: lower }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;

    fn drawn(series: &[Series]) -> String {
        let x = Axis::linear("x").range(0.0, 10.0).resolve(None, 5);
        let y = Axis::linear("y").range(0.0, 10.0).resolve(None, 5);
        let area = Rect { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };
        let data = DataArea { x: &x, y: &y, area };
        let mut svg = SvgWriter::new(100.0, 100.0, "", "");
        draw_series(&mut svg, series, &SlotStyles::assign(&[]), &data);
        svg.finish()
    }

    #[test]
    fn gaps_break_lines_and_lone_points_become_dots() {
        let points = [(0.0, 0.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 3.0), (4.0, f64::NAN)];
        let svg = drawn(&[Series::new("s", SeriesStyle::Line, points)]);
        assert!(svg.contains(r#"d="M0,100L10,90""#), "{svg}");
        assert!(svg.contains(r#"d="M28,70a2,2"#), "{svg}");
    }

    #[test]
    fn steps_hold_their_value() {
        let svg = drawn(&[Series::new("s", SeriesStyle::Steps, [(0.0, 1.0), (5.0, 2.0)])]);
        assert!(svg.contains(r#"d="M0,90L50,90L50,80""#), "{svg}");
    }

    #[test]
    fn stems_rise_from_zero_and_stand_side_by_side() {
        let one = Series::new("s", SeriesStyle::Stems, [(5.0, 2.0)]);
        assert!(drawn(std::slice::from_ref(&one)).contains(r#"d="M50,100L50,80""#));
        let both = drawn(&[one.clone(), one]);
        assert!(both.contains("M48.25,100L48.25,80") && both.contains("M51.75,100L51.75,80"));
    }

    #[test]
    fn bands_lie_behind_all_lines() {
        let line = |name: &str| Series::new(name, SeriesStyle::Line, [(0.0, 1.0), (9.0, 1.0)]);
        let svg = drawn(&[line("a"), line("b").band([(0.0, 0.0, 2.0), (9.0, 0.0, 2.0)])]);
        assert!(svg.find("fill-opacity") < svg.find(r#"fill="none""#), "{svg}");
    }

    #[test]
    fn points_outside_a_fixed_range_have_no_marker() {
        let points = [(5.0, 5.0), (5.0, 50.0), (-3.0, 5.0)];
        let svg = drawn(&[Series::new("s", SeriesStyle::Markers, points)]);
        assert_eq!(svg.matches('Z').count(), 1);
    }

    fn drawn_band(y: &Axis, bounds: impl IntoIterator<Item = (f64, f64, f64)>) -> String {
        let x = Axis::linear("x").range(0.0, 10.0).resolve(None, 5);
        let y = y.resolve(None, 5);
        let area = Rect { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };
        let series = Series::new("s", SeriesStyle::Line, []).band(bounds);
        let mut svg = SvgWriter::new(100.0, 100.0, "", "");
        draw_band(&mut svg, &series, &DataArea { x: &x, y: &y, area }, SlotStyle::of_slot(0));
        svg.finish()
    }

    fn linear() -> Axis {
        Axis::linear("y").range(0.0, 10.0)
    }

    #[test]
    fn a_band_goes_out_along_one_edge_and_back_along_the_other() {
        let svg = drawn_band(&linear(), [(0.0, 1.0, 2.0), (5.0, 4.0, 3.0)]);
        assert!(svg.contains(r#"d="M0,80L50,60L50,70L0,90Z""#), "{svg}");
        assert!(svg.contains("fill-opacity"));
    }

    #[test]
    fn bounds_that_are_not_numbers_break_the_band() {
        let bounds = [(0.0, 1.0, 2.0), (1.0, 1.0, 2.0), (2.0, f64::NAN, 2.0), (3.0, 1.0, 2.0)];
        let svg = drawn_band(&linear(), bounds);
        assert_eq!(svg.matches('Z').count(), 2, "{svg}");
    }

    #[test]
    fn a_band_stays_inside_the_plot() {
        let svg = drawn_band(&linear(), [(-5.0, -50.0, 50.0), (15.0, -50.0, 50.0)]);
        assert!(svg.contains(r#"d="M0,100L0,0L100,0L100,100Z""#), "{svg}");
    }

    #[test]
    fn on_a_log_axis_a_bound_below_zero_reaches_the_end_of_the_axis() {
        let axis = Axis::log10("y").range(1.0, 100.0);
        let svg = drawn_band(&axis, [(0.0, -1.0, 10.0), (10.0, -1.0, 10.0)]);
        assert!(svg.contains(r#"d="M0,50L100,50L100,100L0,100Z""#), "{svg}");
    }

    #[test]
    fn long_bands_become_short() {
        let wave = |x: u32| (f64::from(x) * 0.7).sin();
        let bounds = (0..100_000).map(|x| (f64::from(x) / 1e4, 4.0 + wave(x), 6.0 + wave(x)));
        let size = drawn_band(&linear(), bounds).len();
        assert!(size < 20_000, "{size} bytes");
    }
}
