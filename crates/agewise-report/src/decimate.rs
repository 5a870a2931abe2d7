//! Thinning of long series to what can be seen at the size of the plot.

use std::collections::HashSet;

use crate::geometry::Point;

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
        let is_far = |last: &Point| (point.x - last.x).hypot(point.y - last.y) >= DISTANCE;
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

    fn point(x: f64, y: f64) -> Point {
        Point { x, y }
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
