//! Drawing the series of a panel.

use crate::axis::ResolvedAxis;
use crate::bands::draw_band;
use crate::bars::{BarLayout, draw_bars};
use crate::decimate::{space_markers, thin_line, thin_markers};
use crate::geometry::{Point, Rect, clip_polyline};
use crate::legend::Looks;
use crate::palette::Look;
use crate::series::{Series, SeriesStyle};
use crate::svg::{PathData, Stroke, SvgWriter};
use crate::theme;

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
pub(crate) fn draw_series(svg: &mut SvgWriter, series: &[Series], looks: &Looks, data: &DataArea) {
    for one in series {
        draw_band(svg, one, data, looks.of(&one.name));
    }
    let dodge = stem_dodge(series, data);
    let stem_count = series.iter().filter(|series| series.style == SeriesStyle::Stems).count();
    let mut stem_index = 0;
    let bar_layout = BarLayout::find(series, data);
    let mut bar_index = 0;
    for one in series {
        let look = looks.of(&one.name);
        let positions = data.positions(one);
        match one.style {
            SeriesStyle::Line => draw_line(svg, &thin_line(positions), data, look),
            SeriesStyle::LineWithMarkers => {
                let line = thin_line(positions);
                let points: Vec<Point> = visible(&line, data);
                draw_line(svg, &line, data, look);
                draw_markers(svg, &space_markers(points), look, theme::MARKER_RADIUS);
            }
            SeriesStyle::Markers => {
                let points = thin_markers(visible(&positions, data));
                draw_markers(svg, &points, look, theme::MARKER_RADIUS);
            }
            SeriesStyle::Steps => {
                let steps = thin_line(positions)
                    .split(Option::is_none)
                    .map(|piece| staircase(&piece.iter().copied().flatten().collect::<Vec<_>>()))
                    .collect::<Vec<_>>();
                draw_pieces(svg, &steps, data, look);
            }
            SeriesStyle::Stems => {
                let offset = dodge * (f64::from(stem_index) - (stem_count as f64 - 1.0) / 2.0);
                stem_index += 1;
                draw_stems(svg, &thin_line(positions), offset, data, look);
            }
            SeriesStyle::Bars => {
                draw_bars(svg, one, bar_index, bar_layout, data, look);
                bar_index += 1;
            }
        }
    }
}

fn visible(positions: &[Option<Point>], data: &DataArea) -> Vec<Point> {
    positions.iter().copied().flatten().filter(|&point| data.area.contains(point)).collect()
}

fn draw_line(svg: &mut SvgWriter, positions: &[Option<Point>], data: &DataArea, look: Look) {
    let pieces: Vec<Vec<Point>> = positions
        .split(Option::is_none)
        .map(|piece| piece.iter().copied().flatten().collect())
        .collect();
    draw_pieces(svg, &pieces, data, look);
}

/// Draws unbroken lines. A point with a gap on both sides has no line, so it becomes a dot.
fn draw_pieces(svg: &mut SvgWriter, pieces: &[Vec<Point>], data: &DataArea, look: Look) {
    let (mut lines, mut dots) = (PathData::default(), PathData::default());
    for piece in pieces.iter().flat_map(|piece| clip_polyline(piece, &data.area)) {
        match piece[..] {
            [lone] => dots.circle(lone, theme::LINE_WIDTH),
            _ => lines.polyline(&piece),
        }
    }
    let stroke = Stroke { color: look.color, width: theme::LINE_WIDTH, dash: look.dash };
    svg.stroke_path(&lines, &stroke);
    svg.fill_path(&dots, look.color, None);
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
    look: Look,
) {
    let base = data.base();
    let mut stems = PathData::default();
    let inside_sideways = |point: &Point| data.area.contains(Point { y: data.area.y, ..*point });
    for point in positions.iter().flatten().filter(|point| inside_sideways(point)) {
        let x = point.x + offset;
        let tip = point.y.clamp(data.area.y, data.area.bottom());
        stems.polyline(&[Point { x, y: base }, Point { x, y: tip }]);
    }
    svg.stroke_path(&stems, &Stroke { color: look.color, width: 1.6, dash: "" });
    let tips: Vec<Point> = visible(positions, data)
        .into_iter()
        .map(|point| Point { x: point.x + offset, ..point })
        .collect();
    draw_markers(svg, &thin_markers(tips), look, STEM_MARKER_RADIUS);
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

fn draw_markers(svg: &mut SvgWriter, centers: &[Point], look: Look, radius: f64) {
    // In a dense cloud the white rims would hide the markers below.
    const MOST_WITH_RIM: usize = 400;
    let mut path = PathData::default();
    for &center in centers {
        look.marker.add_to(&mut path, center, radius);
    }
    let rim = Stroke { color: theme::BACKGROUND, width: 1.0, dash: "" };
    svg.fill_path(&path, look.color, (centers.len() <= MOST_WITH_RIM).then_some(&rim));
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
        draw_series(&mut svg, series, &Looks::assign(&[]), &data);
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
}
