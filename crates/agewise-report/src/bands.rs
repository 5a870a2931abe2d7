//! Drawing the band of a series: the area between a lower and an upper bound.

use crate::decimate::thin_line;
use crate::geometry::{Point, clip_polygon};
use crate::marks::DataArea;
use crate::palette::Look;
use crate::series::Series;
use crate::svg::{PathData, SvgWriter};

/// Draws the band of `series`, if it has one.
pub(crate) fn draw_band(svg: &mut SvgWriter, series: &Series, data: &DataArea, look: Look) {
    let edges: Vec<Option<(Point, Point)>> =
        series.band.iter().map(|&bounds| edge_positions(bounds, data)).collect();
    // Thinning looks at the columns of the points and at the gaps. Both edges share these, so they
    // fall into the same pieces.
    let upper = thin_line(edges.iter().map(|edge| edge.map(|(upper, _)| upper)).collect());
    let lower = thin_line(edges.iter().map(|edge| edge.map(|(_, lower)| lower)).collect());
    let mut path = PathData::default();
    for (upper, lower) in upper.split(Option::is_none).zip(lower.split(Option::is_none)) {
        let outline: Vec<Point> =
            upper.iter().chain(lower.iter().rev()).copied().flatten().collect();
        path.closed(&clip_polygon(&outline, &data.area));
    }
    svg.tint_path(&path, look.color);
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
    use crate::geometry::Rect;
    use crate::series::SeriesStyle;

    fn drawn(y: &Axis, bounds: impl IntoIterator<Item = (f64, f64, f64)>) -> String {
        let x = Axis::linear("x").range(0.0, 10.0).resolve(None, 5);
        let y = y.resolve(None, 5);
        let area = Rect { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };
        let series = Series::new("s", SeriesStyle::Line, []).band(bounds);
        let mut svg = SvgWriter::new(100.0, 100.0, "", "");
        draw_band(&mut svg, &series, &DataArea { x: &x, y: &y, area }, Look::of_slot(0));
        svg.finish()
    }

    fn linear() -> Axis {
        Axis::linear("y").range(0.0, 10.0)
    }

    #[test]
    fn a_band_goes_out_along_one_edge_and_back_along_the_other() {
        let svg = drawn(&linear(), [(0.0, 1.0, 2.0), (5.0, 4.0, 3.0)]);
        assert!(svg.contains(r#"d="M0,80L50,60L50,70L0,90Z""#), "{svg}");
        assert!(svg.contains("fill-opacity"));
    }

    #[test]
    fn bounds_that_are_not_numbers_break_the_band() {
        let bounds = [(0.0, 1.0, 2.0), (1.0, 1.0, 2.0), (2.0, f64::NAN, 2.0), (3.0, 1.0, 2.0)];
        let svg = drawn(&linear(), bounds);
        assert_eq!(svg.matches('Z').count(), 2, "{svg}");
    }

    #[test]
    fn a_band_stays_inside_the_plot() {
        let svg = drawn(&linear(), [(-5.0, -50.0, 50.0), (15.0, -50.0, 50.0)]);
        assert!(svg.contains(r#"d="M0,100L0,0L100,0L100,100Z""#), "{svg}");
    }

    #[test]
    fn on_a_log_axis_a_bound_below_zero_reaches_the_end_of_the_axis() {
        let axis = Axis::log10("y").range(1.0, 100.0);
        let svg = drawn(&axis, [(0.0, -1.0, 10.0), (10.0, -1.0, 10.0)]);
        assert!(svg.contains(r#"d="M0,50L100,50L100,100L0,100Z""#), "{svg}");
    }

    #[test]
    fn long_bands_become_short() {
        let wave = |x: u32| (f64::from(x) * 0.7).sin();
        let bounds = (0..100_000).map(|x| (f64::from(x) / 1e4, 4.0 + wave(x), 6.0 + wave(x)));
        let size = drawn(&linear(), bounds).len();
        assert!(size < 20_000, "{size} bytes");
    }
}
