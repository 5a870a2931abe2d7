//! Drawing what stands in one row of an interval plot: dots, bar, marker, and arrows at the ends.

use crate::geometry::thin_markers;
use crate::geometry::{Point, Rect};
use crate::intervals::IntervalRow;
use crate::series::DataArea;
use crate::svg::{PathData, Stroke, SvgWriter};
use crate::theme;
use crate::theme::SlotStyle;

const MARKER_RADIUS: f64 = 5.0;
const BAR_STROKE_WIDTH: f64 = 2.2;
const HALF_CAP: f64 = 5.0;
const DOT_RADIUS: f64 = 2.8;
/// Heights at which dots stand, best first: clear of the marker and of the neighbouring rows.
const DOT_LANES: [f64; 4] = [-8.5, 8.5, -13.0, 13.0];
/// Dots in one lane closer than this go to the next lane.
const DOT_DISTANCE: f64 = 1.7 * DOT_RADIUS;
/// Length of the arrows of values, bars and dots that lie beyond the axis.
const VALUE_ARROW: f64 = 10.0;
const BAR_ARROW: f64 = 6.5;
const DOT_ARROW: f64 = 4.5;
/// Distance between the tip of an arrow and the border of the plot.
const ARROW_INSET: f64 = 1.0;

/// Where a value stands along the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Before,
    Inside(f64),
    Beyond,
}

/// Where `value` stands; nowhere if it is not a number. On a logarithmic axis, zero and all below
/// it lie before the axis.
fn place(value: f64, data: &DataArea) -> Option<Place> {
    if value.is_nan() {
        return None;
    }
    let Some(x) = data.x_position(value) else {
        return Some(if value > 0.0 { Place::Beyond } else { Place::Before });
    };
    Some(place_of_position(x, &data.area))
}

fn place_of_position(x: f64, area: &Rect) -> Place {
    if area.contains(Point { x, y: area.y }) {
        Place::Inside(x)
    } else if x < area.x {
        Place::Before
    } else {
        Place::Beyond
    }
}

/// One row with what is needed to draw into it.
pub(crate) struct RowArea<'a> {
    pub(crate) data: &'a DataArea<'a>,
    /// The plot with the room beyond the ends of the axis, where arrows stand.
    pub(crate) plot: &'a Rect,
    /// Half height of the row.
    pub(crate) middle: f64,
    pub(crate) slot_style: SlotStyle,
}

impl RowArea<'_> {
    /// Draws the marks of `row` from back to front.
    pub(crate) fn draw(&self, svg: &mut SvgWriter, row: &IntervalRow) {
        self.draw_dots(svg, &row.dots);
        if let Some((low, high)) = row.interval {
            self.draw_bar(svg, low, high);
        }
        let mut marker = PathData::default();
        match place(row.value, self.data) {
            Some(Place::Inside(x)) => {
                self.slot_style.marker.add_to(
                    &mut marker,
                    Point { x, y: self.middle },
                    MARKER_RADIUS,
                );
            }
            Some(side) => self.add_arrow(&mut marker, side, self.middle, VALUE_ARROW),
            None => {}
        }
        let rim = Stroke { color: theme::BACKGROUND, width: 1.2, dash: "" };
        svg.fill_path(&marker, self.slot_style.color, Some(&rim));
    }

    fn draw_bar(&self, svg: &mut SvgWriter, low: f64, high: f64) {
        let (Some(low), Some(high)) = (place(low, self.data), place(high, self.data)) else {
            return;
        };
        let (mut lines, mut arrows) = (PathData::default(), PathData::default());
        let mut ends = [0.0; 2];
        for (end, side) in ends.iter_mut().zip([low, high]) {
            *end = match side {
                Place::Inside(x) => {
                    let at = |dy: f64| Point { x, y: self.middle + dy };
                    lines.polyline(&[at(-HALF_CAP), at(HALF_CAP)]);
                    x
                }
                Place::Before | Place::Beyond => {
                    self.add_arrow(&mut arrows, side, self.middle, BAR_ARROW);
                    self.arrow_foot(side, BAR_ARROW)
                }
            };
        }
        if ends[0] < ends[1] {
            lines.polyline(&ends.map(|x| Point { x, y: self.middle }));
        }
        let stroke = Stroke { color: self.slot_style.color, width: BAR_STROKE_WIDTH, dash: "" };
        svg.stroke_path(&lines, &stroke);
        svg.fill_path(&arrows, self.slot_style.color, None);
    }

    fn draw_dots(&self, svg: &mut SvgWriter, dots: &[f64]) {
        let places = dots.iter().filter_map(|&value| place(value, self.data));
        let mut positions: Vec<f64> = places.map(|place| self.dot_x(place)).collect();
        positions.sort_by(f64::total_cmp);
        let heights = dot_offsets(&positions).into_iter().map(|offset| self.middle + offset);
        let centers = positions.into_iter().zip(heights).map(|(x, y)| Point { x, y });
        let mut path = PathData::default();
        for Point { x, y } in thin_markers(centers.collect()) {
            match place_of_position(x, &self.data.area) {
                Place::Inside(_) => path.circle(Point { x, y }, DOT_RADIUS),
                side => self.add_arrow(&mut path, side, y, DOT_ARROW),
            }
        }
        svg.tint_path(&path, self.slot_style.color);
    }

    /// The horizontal position of a dot or of the arrow in its place.
    fn dot_x(&self, place: Place) -> f64 {
        match place {
            Place::Inside(x) => x,
            side => self.arrow_foot(side, DOT_ARROW),
        }
    }

    /// Where an arrow of this length begins.
    fn arrow_foot(&self, side: Place, length: f64) -> f64 {
        match side {
            Place::Before => self.plot.x + ARROW_INSET + length,
            Place::Inside(x) => x,
            Place::Beyond => self.plot.right() - ARROW_INSET - length,
        }
    }

    /// Adds the head of an arrow that points out of the plot, at the height `y`.
    fn add_arrow(&self, path: &mut PathData, side: Place, y: f64, length: f64) {
        let foot = self.arrow_foot(side, length);
        let direction = if side == Place::Before { -1.0 } else { 1.0 };
        let corner = |dx: f64, dy: f64| Point { x: foot + direction * dx, y: y + dy };
        let half_width = 0.6 * length;
        path.closed(&[corner(length, 0.0), corner(0.0, -half_width), corner(0.0, half_width)]);
    }
}

/// How far from the middle of the row each dot stands, given their positions in ascending order:
/// in the first lane with room for it. Where all lanes are full, the steps of the golden section
/// spread dots evenly, however many there are.
fn dot_offsets(positions: &[f64]) -> Vec<f64> {
    const GOLDEN_STEP: f64 = 0.618_033_988_749_895;
    let mut lane_ends = [f64::NEG_INFINITY; DOT_LANES.len()];
    let outermost = DOT_LANES.iter().fold(0.0, |most: f64, lane| most.max(lane.abs()));
    let mut crowded = 0_u32;
    let offset = |&x: &f64| {
        let free = lane_ends.iter().position(|&end| x - end >= DOT_DISTANCE);
        if let Some(lane) = free {
            lane_ends[lane] = x;
            return DOT_LANES[lane];
        }
        crowded = crowded.wrapping_add(1);
        outermost * (2.0 * (f64::from(crowded) * GOLDEN_STEP).fract() - 1.0)
    };
    positions.iter().map(offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use std::collections::BTreeSet;

    const PLOT: Rect = Rect { x: 0.0, y: 0.0, width: 124.0, height: 34.0 };
    const AREA: Rect = Rect { x: 12.0, y: 0.0, width: 100.0, height: 34.0 };

    fn drawn(axis: &Axis, row: &IntervalRow) -> String {
        let x = axis.resolve(None, 5);
        let y = Axis::linear("").resolve(None, 1);
        let data = DataArea { x: &x, y: &y, area: AREA };
        let mut svg = SvgWriter::new(124.0, 34.0, "", "");
        let area =
            RowArea { data: &data, plot: &PLOT, middle: 17.0, slot_style: SlotStyle::of_slot(0) };
        area.draw(&mut svg, row);
        svg.finish()
    }

    fn linear() -> Axis {
        Axis::linear("").range(0.0, 10.0)
    }

    #[test]
    fn a_bar_reaches_from_cap_to_cap() {
        let svg = drawn(&linear(), &IntervalRow::new("a", 5.0).interval(2.0, 8.0));
        assert!(svg.contains("M32,12L32,22M92,12L92,22M32,17L92,17"), "{svg}");
        assert!(svg.contains("M57,17a5,5"), "{svg}");
    }

    #[test]
    fn what_lies_beyond_the_axis_becomes_an_arrow() {
        let open = IntervalRow::new("a", 5.0).interval(2.0, f64::INFINITY);
        let svg = drawn(&linear(), &open);
        assert!(svg.contains("M32,12L32,22M32,17L116.5,17"), "{svg}");
        assert!(svg.contains("M123,17L116.5,"), "{svg}");
        for value in [f64::NEG_INFINITY, -0.5] {
            assert!(drawn(&linear(), &IntervalRow::new("a", value)).contains("M1,17L11,11"));
        }
        let log = Axis::log10("").range(1.0, 10.0);
        assert!(drawn(&log, &IntervalRow::new("a", 0.0)).contains("M1,17L11,11"));
        assert!(drawn(&log, &IntervalRow::new("a", 11.0)).contains("M123,17L113,11"));
    }

    #[test]
    fn an_interval_beyond_the_axis_is_an_arrow_without_a_bar() {
        let svg = drawn(&linear(), &IntervalRow::new("a", f64::NAN).interval(20.0, 30.0));
        assert!(svg.contains("M123,17") && !svg.contains(r#"fill="none""#), "{svg}");
    }

    #[test]
    fn a_row_without_numbers_is_empty() {
        let row = IntervalRow::new("a", f64::NAN).interval(f64::NAN, 1.0).dots([f64::NAN]);
        assert!(!drawn(&linear(), &row).contains("<path"));
    }

    #[test]
    fn equal_dots_stand_apart() {
        let offsets = dot_offsets(&[7.0; 40]);
        let different: BTreeSet<String> = offsets.iter().map(|y| format!("{y:.2}")).collect();
        assert_eq!(different.len(), 40);
        assert!(offsets.iter().all(|y| y.abs() <= 13.0));
    }

    #[test]
    fn dots_with_room_stand_on_one_line() {
        let offsets = dot_offsets(&[1.0, 20.0, 40.0]);
        assert!(offsets.iter().all(|&y| y == DOT_LANES[0]));
    }

    #[test]
    fn the_order_of_the_dots_does_not_matter() {
        let row = |dots: [f64; 3]| drawn(&linear(), &IntervalRow::new("a", 1.0).dots(dots));
        assert_eq!(row([1.0, 1.1, f64::INFINITY]), row([f64::INFINITY, 1.1, 1.0]));
    }
}
