//! Points and rectangles: cutting lines at the border of a plot, and thinning what is too dense to see.

use std::collections::HashSet;

/// A position in the figure, in SVG units; `y` grows downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// An upright rectangle, in SVG units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Rect {
    /// The x of the right edge.
    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }

    /// The y of the lower edge.
    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// Whether the two have any area in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right()
            && other.x < self.right()
            && self.y < other.bottom()
            && other.y < self.bottom()
    }

    /// Whether the point lies inside or on the border, up to rounding.
    pub(crate) fn contains(&self, point: Point) -> bool {
        const ROUNDING: f64 = 0.01;
        point.x >= self.x - ROUNDING
            && point.x <= self.right() + ROUNDING
            && point.y >= self.y - ROUNDING
            && point.y <= self.bottom() + ROUNDING
    }
}

/// Cuts a polyline at the border of `area` and returns the pieces inside.
///
/// The cut is computed here rather than left to an SVG `clipPath`: that needs an id, and ids clash
/// when several figures stand in one page.
pub(crate) fn clip_polyline(line: &[Point], area: &Rect) -> Vec<Vec<Point>> {
    if let [lone] = line {
        return if area.contains(*lone) { vec![vec![*lone]] } else { Vec::new() };
    }
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    for ends in line.windows(2) {
        let Some((from, to)) = clip_segment(ends[0], ends[1], area) else { continue };
        match pieces.last_mut() {
            Some(piece) if piece.last() == Some(&from) => piece.push(to),
            _ => pieces.push(vec![from, to]),
        }
    }
    pieces
}

/// Cuts a filled shape at the border of `area`, one side after the other (the method of Sutherland
/// and Hodgman). Parts that were separate inside may stay joined along the border.
pub(crate) fn clip_polygon(corners: &[Point], area: &Rect) -> Vec<Point> {
    let sides: [(bool, f64, f64); 4] = [
        (true, area.x, 1.0),
        (true, area.right(), -1.0),
        (false, area.y, 1.0),
        (false, area.bottom(), -1.0),
    ];
    let mut corners = corners.to_vec();
    for (upright, border, sign) in sides {
        let distance = |point: &Point| sign * ((if upright { point.x } else { point.y }) - border);
        let mut kept = Vec::with_capacity(corners.len());
        for (index, to) in corners.iter().enumerate() {
            let from = &corners[if index == 0 { corners.len() - 1 } else { index - 1 }];
            let (before, after) = (distance(from), distance(to));
            if (before < 0.0) != (after < 0.0) {
                let t = before / (before - after);
                let (dx, dy) = (to.x - from.x, to.y - from.y);
                kept.push(Point { x: from.x + t * dx, y: from.y + t * dy });
            }
            if after >= 0.0 {
                kept.push(*to);
            }
        }
        corners = kept;
    }
    corners
}

/// The part of a straight segment inside `area` (Liang and Barsky's method).
fn clip_segment(from: Point, to: Point, area: &Rect) -> Option<(Point, Point)> {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let borders = [
        (-dx, from.x - area.x),
        (dx, area.right() - from.x),
        (-dy, from.y - area.y),
        (dy, area.bottom() - from.y),
    ];
    let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
    for (direction, distance) in borders {
        if direction == 0.0 {
            // Rounding may put a line on the border a hair outside of it.
            if distance < -0.01 {
                return None;
            }
        } else if direction < 0.0 {
            enter = enter.max(distance / direction);
        } else {
            leave = leave.min(distance / direction);
        }
    }
    if enter > leave {
        return None;
    }
    let at = |t: f64| Point { x: from.x + t * dx, y: from.y + t * dy };
    // The untouched ends are returned as they are, so that neighbouring segments still join.
    let start = if enter > 0.0 { at(enter) } else { from };
    let end = if leave < 1.0 { at(leave) } else { to };
    Some((start, end))
}

/// Series up to this many points are drawn as they are.
const SHORT_SERIES: usize = 2000;

/// Keeps, of each run of neighbouring points within one pixel column, the first, the lowest, the
/// highest and the last: the drawn line covers the same pixels. `None` stands for a break in the
/// line; a break inside a single column is too narrow to be seen and vanishes.
pub(crate) fn thin_line(points: Vec<Option<Point>>) -> Vec<Option<Point>> {
    if points.len() <= SHORT_SERIES {
        return points;
    }
    let mut kept = Vec::new();
    let mut run: Option<ColumnRun> = None;
    let mut broken = false;
    for (index, point) in points.into_iter().enumerate() {
        let Some(point) = point else {
            broken = true;
            continue;
        };
        let column = point.x.floor() as i64;
        match &mut run {
            Some(run) if run.column == column => run.extend(index, point),
            _ => {
                if let Some(finished) = run.replace(ColumnRun::new(column, index, point)) {
                    finished.write_to(&mut kept);
                    if broken {
                        kept.push(None);
                    }
                }
            }
        }
        broken = false;
    }
    if let Some(last) = run {
        last.write_to(&mut kept);
    }
    kept
}

/// The points of a run worth keeping, each with its place in the series.
struct ColumnRun {
    column: i64,
    first: (usize, Point),
    lowest: (usize, Point),
    highest: (usize, Point),
    last: (usize, Point),
}

impl ColumnRun {
    fn new(column: i64, index: usize, point: Point) -> Self {
        let start = (index, point);
        Self { column, first: start, lowest: start, highest: start, last: start }
    }

    fn extend(&mut self, index: usize, point: Point) {
        self.last = (index, point);
        if point.y > self.lowest.1.y {
            self.lowest = self.last;
        }
        if point.y < self.highest.1.y {
            self.highest = self.last;
        }
    }

    fn write_to(self, kept: &mut Vec<Option<Point>>) {
        let mut points = [self.first, self.lowest, self.highest, self.last];
        points.sort_by_key(|&(index, _)| index);
        let mut previous = None;
        for (index, point) in points {
            if previous != Some(index) {
                kept.push(Some(point));
            }
            previous = Some(index);
        }
    }
}

/// Keeps one of all points that fall into the same small cell, where their markers would cover
/// one another.
pub(crate) fn thin_markers(points: Vec<Point>) -> Vec<Point> {
    const CELL: f64 = 5.0;
    if points.len() <= SHORT_SERIES {
        return points;
    }
    let mut taken = HashSet::new();
    points
        .into_iter()
        .filter(|point| taken.insert(((point.x / CELL) as i64, (point.y / CELL) as i64)))
        .collect()
}

/// Keeps markers along a line at a distance from one another: there they only name the line.
pub(crate) fn space_markers(points: Vec<Point>) -> Vec<Point> {
    const DISTANCE: f64 = 12.0;
    let mut kept: Vec<Point> = Vec::new();
    for point in points {
        let is_far = |last: &Point| libm::hypot(point.x - last.x, point.y - last.y) >= DISTANCE;
        if kept.last().is_none_or(is_far) {
            kept.push(point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AREA: Rect = Rect { x: 0.0, y: 0.0, width: 10.0, height: 10.0 };

    fn point(x: f64, y: f64) -> Point {
        Point { x, y }
    }

    #[test]
    fn a_line_inside_stays_one_piece() {
        let line = [point(0.0, 0.0), point(5.0, 5.0), point(10.0, 0.0)];
        assert_eq!(clip_polyline(&line, &AREA), vec![line.to_vec()]);
    }

    #[test]
    fn a_line_that_leaves_and_returns_is_cut_at_the_border() {
        let line = [point(2.0, 5.0), point(4.0, 15.0), point(6.0, 5.0)];
        let pieces = clip_polyline(&line, &AREA);
        assert_eq!(
            pieces,
            vec![vec![point(2.0, 5.0), point(3.0, 10.0)], vec![point(5.0, 10.0), point(6.0, 5.0)]]
        );
    }

    #[test]
    fn a_line_outside_vanishes_and_one_that_crosses_is_kept() {
        assert!(clip_polyline(&[point(-5.0, 20.0), point(20.0, 20.0)], &AREA).is_empty());
        assert_eq!(
            clip_polyline(&[point(-5.0, 5.0), point(20.0, 5.0)], &AREA),
            vec![vec![point(0.0, 5.0), point(10.0, 5.0)]]
        );
    }

    #[test]
    fn a_shape_is_cut_at_the_border() {
        let inside = [point(1.0, 1.0), point(9.0, 1.0), point(5.0, 9.0)];
        assert_eq!(clip_polygon(&inside, &AREA), inside);
        let wide = [point(-5.0, 2.0), point(15.0, 2.0), point(15.0, 4.0), point(-5.0, 4.0)];
        let cut = clip_polygon(&wide, &AREA);
        assert_eq!(cut.len(), 4);
        assert!(cut.iter().all(|&corner| AREA.contains(corner)));
        assert!(cut.contains(&point(0.0, 2.0)) && cut.contains(&point(10.0, 4.0)));
        let outside = wide.map(|corner| point(corner.x, corner.y + 20.0));
        assert!(clip_polygon(&outside, &AREA).is_empty());
        assert!(clip_polygon(&[], &AREA).is_empty());
    }

    #[test]
    fn a_lone_point_counts_only_inside() {
        assert_eq!(clip_polyline(&[point(1.0, 1.0)], &AREA), vec![vec![point(1.0, 1.0)]]);
        assert!(clip_polyline(&[point(11.0, 1.0)], &AREA).is_empty());
        assert!(clip_polyline(&[], &AREA).is_empty());
    }

    #[test]
    fn short_series_are_untouched() {
        let points =
            vec![Some(point(0.0, 1.0)), None, Some(point(0.1, 2.0)), Some(point(0.2, 3.0))];
        assert_eq!(thin_line(points.clone()), points);
    }

    #[test]
    fn long_series_keep_their_extremes_and_become_short() {
        let mut points: Vec<Option<Point>> = (0..100_000)
            .map(|index| Some(point(f64::from(index) / 200.0, (f64::from(index) * 0.37).sin())))
            .collect();
        points[40_321] = Some(point(40_321.0 / 200.0, 9.0));
        points[71_777] = Some(point(71_777.0 / 200.0, -9.0));
        let kept = thin_line(points.clone());
        assert!(kept.len() <= 4 * 501);
        assert!(kept.contains(&points[40_321]) && kept.contains(&points[71_777]));
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[99_999]));
    }

    #[test]
    fn visible_gaps_stay_and_invisible_ones_vanish() {
        let mut points: Vec<Option<Point>> =
            (0..10_000).map(|index| Some(point(f64::from(index) / 100.0, 0.0))).collect();
        points[50] = None;
        assert!(!thin_line(points.clone()).contains(&None));
        points[2_000..4_000].fill(None);
        assert_eq!(thin_line(points).iter().filter(|point| point.is_none()).count(), 1);
    }

    #[test]
    fn markers_that_cover_one_another_are_dropped() {
        let crowd = vec![point(5.0, 5.0); 5000];
        assert_eq!(thin_markers(crowd).len(), 1);
        let row: Vec<Point> = (0..100).map(|x| point(f64::from(x), 0.0)).collect();
        assert_eq!(space_markers(row).len(), 9);
    }

    proptest! {
        #[test]
        fn every_column_keeps_its_extremes(heights in prop::collection::vec(-1e3_f64..1e3, 2100..4000)) {
            let points: Vec<Option<Point>> = heights
                .iter()
                .enumerate()
                .map(|(index, &y)| Some(point(index as f64 / 50.0, y)))
                .collect();
            let kept: Vec<Point> = thin_line(points.clone()).into_iter().flatten().collect();
            prop_assert!(kept.len() < points.len() / 8);
            let extremes = |points: &mut dyn Iterator<Item = &Point>, column: usize| {
                points.filter(|point| point.x as usize == column).fold(
                    (f64::INFINITY, f64::NEG_INFINITY),
                    |(low, high), point| (low.min(point.y), high.max(point.y)),
                )
            };
            for column in 0..(points.len() / 50) {
                prop_assert_eq!(
                    extremes(&mut points.iter().flatten(), column),
                    extremes(&mut kept.iter(), column)
                );
            }
        }
    }
}
