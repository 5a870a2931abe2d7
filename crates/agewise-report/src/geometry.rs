//! Points, rectangles, and cutting lines at the border of the plot area.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
