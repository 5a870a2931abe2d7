//! Drawing histogram bars, side by side for several series, or as an outline when they get thin.

use crate::geometry::thin_line;
use crate::geometry::{Point, Rect, clip_polygon, clip_polyline};
use crate::panel::HALF_BAR;
use crate::series::DataArea;
use crate::series::{Series, SeriesStyle};
use crate::svg::{PathData, Stroke, SvgWriter};
use crate::theme::SlotStyle;

/// Bars thinner than this are not told apart; then their outline is drawn.
const THINNEST: f64 = 2.0;
/// The part of the width that is left free between one x and the next.
const GAP_SHARE: f64 = 0.14;
/// A narrower gap would only blur the edges of the bars; then they touch.
const NARROWEST_GAP: f64 = 1.0;

/// How the bars of a panel are drawn; all its series share it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BarLayout {
    /// Bars of so many series stand side by side and fill this share of the unit.
    SideBySide {
        /// How many series of bars there are.
        count: usize,
        /// The part of the unit that the bars fill.
        share: f64,
    },
    /// Each series is the area below its outline.
    Outlines,
}

impl BarLayout {
    /// Finds the layout for the bars among `series` from the room they have.
    pub(crate) fn find(series: &[Series], data: &DataArea) -> Self {
        let bars = || series.iter().filter(|series| series.style == SeriesStyle::Bars);
        let narrowest = bars()
            .flat_map(|series| bar_places(series, data))
            .map(|bar| bar.right - bar.left)
            .fold(f64::INFINITY, f64::min);
        let count = bars().count();
        let share = if narrowest * GAP_SHARE < NARROWEST_GAP { 1.0 } else { 1.0 - GAP_SHARE };
        if narrowest * share < THINNEST * count as f64 {
            Self::Outlines
        } else {
            Self::SideBySide { count, share }
        }
    }
}

/// The room of one bar along x, and the height of its value.
#[derive(Clone, Copy, Debug)]
struct BarPlace {
    left: f64,
    right: f64,
    tip: f64,
}

/// The places of all bars that can be shown, from left to right.
fn bar_places(series: &Series, data: &DataArea) -> Vec<BarPlace> {
    let place = |&(x, y): &(f64, f64)| {
        let tip = data.y_position(y)?;
        let middle = data.x_position(x)?;
        // On a logarithmic axis the left edge of the first bar may have no place.
        let left = data.x_position(x - HALF_BAR).unwrap_or(data.area.x).min(middle);
        let right = data.x_position(x + HALF_BAR)?;
        (right > data.area.x && left < data.area.right()).then_some(BarPlace { left, right, tip })
    };
    let mut places: Vec<BarPlace> = series.points.iter().filter_map(place).collect();
    places.sort_by(|one, other| one.left.total_cmp(&other.left));
    places
}

/// Draws the bars of one series; `index` counts the series of bars in the panel.
pub(crate) fn draw_bars(
    svg: &mut SvgWriter,
    series: &Series,
    index: usize,
    layout: BarLayout,
    data: &DataArea,
    slot_style: SlotStyle,
) {
    let places = bar_places(series, data);
    match layout {
        BarLayout::SideBySide { count, share } => {
            let mut path = PathData::default();
            let mut tips = Vec::with_capacity(places.len());
            for place in places {
                let unit = place.right - place.left;
                let width = unit * share / count as f64;
                let left = place.left + unit * (1.0 - share) / 2.0 + index as f64 * width;
                add_bar(&mut path, left, left + width, place.tip, data);
                let middle = Point { x: f64::midpoint(place.left, place.right), y: place.tip };
                tips.extend(data.area.contains(middle).then_some(middle));
            }
            svg.fill_marks(&path, slot_style.color, None, &tips);
        }
        BarLayout::Outlines => draw_outline(svg, &places, data, slot_style),
    }
}

/// Adds the part of a bar that is in view.
fn add_bar(path: &mut PathData, left: f64, right: f64, tip: f64, data: &DataArea) {
    let (base, area) = (data.base(), &data.area);
    let (left, right) = (left.max(area.x), right.min(area.right()));
    let tip = tip.clamp(area.y, area.bottom());
    if left < right && tip != base {
        path.rect(&Rect {
            x: left,
            y: tip.min(base),
            width: right - left,
            height: (base - tip).abs(),
        });
    }
}

/// Draws the area below the tops of neighbouring bars, and a line along the tops.
fn draw_outline(svg: &mut SvgWriter, places: &[BarPlace], data: &DataArea, slot_style: SlotStyle) {
    let base = data.base();
    let mut corners: Vec<Option<Point>> = Vec::with_capacity(2 * places.len());
    let mut previous_right = f64::NEG_INFINITY;
    for place in places {
        if place.left > previous_right + 0.1 {
            if !corners.is_empty() {
                corners.push(Some(Point { x: previous_right, y: base }));
                corners.push(None);
            }
            corners.push(Some(Point { x: place.left, y: base }));
        }
        corners.push(Some(Point { x: place.left, y: place.tip }));
        corners.push(Some(Point { x: place.right, y: place.tip }));
        previous_right = place.right;
    }
    if !corners.is_empty() {
        corners.push(Some(Point { x: previous_right, y: base }));
    }
    let (mut areas, mut lines) = (PathData::default(), PathData::default());
    for piece in thin_line(corners).split(Option::is_none) {
        let piece: Vec<Point> = piece.iter().copied().flatten().collect();
        areas.closed(&clip_polygon(&piece, &data.area));
        for line in clip_polyline(&piece, &data.area) {
            lines.polyline(&line);
        }
    }
    svg.tint_path(&areas, slot_style.color);
    svg.stroke_path(&lines, &Stroke { color: slot_style.color, width: 1.4, dash: slot_style.dash });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;

    fn drawn(series: &[Series], x_high: f64) -> String {
        let x = Axis::linear("x").range(0.0, x_high).resolve(None, 5);
        let y = Axis::linear("y").range(0.0, 10.0).resolve(None, 5);
        let area = Rect { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };
        let data = DataArea { x: &x, y: &y, area };
        let layout = BarLayout::find(series, &data);
        let mut svg = SvgWriter::new(100.0, 100.0, "", "");
        for (index, one) in series.iter().enumerate() {
            draw_bars(&mut svg, one, index, layout, &data, SlotStyle::of_slot(index));
        }
        svg.finish()
    }

    fn bars(points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new("s", SeriesStyle::Bars, points)
    }

    #[test]
    fn a_bar_stands_on_zero_around_its_x() {
        let svg = drawn(&[bars([(5.0, 4.0)])], 10.0);
        assert!(svg.contains(r#"d="M45.7,60h8.6v40h-8.6Z""#), "{svg}");
    }

    #[test]
    fn bars_of_two_series_stand_side_by_side() {
        let svg = drawn(&[bars([(5.0, 4.0)]), bars([(5.0, 2.0)])], 10.0);
        assert!(svg.contains("M45.7,60h4.3v40") && svg.contains("M50,80h4.3v20"), "{svg}");
    }

    #[test]
    fn narrow_bars_touch_and_narrower_ones_become_an_outline() {
        let row = |count: i32| bars((1..count).map(|x| (f64::from(x), 5.0)));
        let touching = drawn(&[row(20)], 20.0);
        assert!(touching.contains("M2.5,50h5v50h-5ZM7.5,50h5"), "{touching}");
        let outline = drawn(&[row(200)], 200.0);
        assert!(outline.contains("fill-opacity") && outline.contains(r#"fill="none""#));
        assert!(!outline.contains("v50h"));
    }

    #[test]
    fn an_outline_goes_down_where_bars_are_missing() {
        let points = (1..200).filter(|x| !(50..150).contains(x)).map(|x| (f64::from(x), 5.0));
        let svg = drawn(&[bars(points)], 200.0);
        assert_eq!(svg.matches('Z').count(), 2, "{svg}");
        assert!(svg.contains("L24.75,50L24.75,100") && svg.contains("M74.75,100L74.75,50"));
    }

    #[test]
    fn bars_are_cut_at_the_border_and_need_no_order() {
        let svg = drawn(&[bars([(10.0, 50.0), (0.0, 5.0), (90.0, 1.0), (3.0, f64::NAN)])], 10.0);
        assert_eq!(svg.matches('Z').count(), 2, "{svg}");
        assert!(svg.contains("M0,50h4.3v50h-4.3Z") && svg.contains("M95.7,0h4.3v100h-4.3Z"));
    }

    #[test]
    fn bars_below_zero_hang_from_it() {
        let x = Axis::linear("x").range(0.0, 10.0).resolve(None, 5);
        let y = Axis::linear("y").range(-10.0, 10.0).resolve(None, 5);
        let area = Rect { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };
        let mut path = PathData::default();
        add_bar(&mut path, 10.0, 20.0, 75.0, &DataArea { x: &x, y: &y, area });
        let mut svg = SvgWriter::new(100.0, 100.0, "", "");
        svg.fill_path(&path, "#000", None);
        assert!(svg.finish().contains("M10,50h10v25h-10Z"));
    }
}
