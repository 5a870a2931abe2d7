//! Axes: what the caller asks for, the range and ticks that come out of it, and how they are drawn.

use crate::geometry::{Point, Rect};
use crate::panel::DataRange;
use crate::series::DataArea;
use crate::svg::{Anchor, SvgWriter};
use crate::theme;
use crate::ticks::{linear_labels, linear_ticks, log_labels, log_ticks, minor_log_ticks};

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal differences take equal space.
    Linear,
    /// Equal ratios take equal space; only values above zero can be shown.
    Log10,
}

impl Scale {
    /// Whether a value has a place on this scale.
    pub(crate) fn can_show(self, value: f64) -> bool {
        value.is_finite() && (self == Self::Linear || value > 0.0)
    }

    fn position(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log10 => libm::log10(value),
        }
    }
}

/// One axis of a panel: its label, its scale, and how its range is found.
#[must_use]
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) label: String,
    pub(crate) scale: Scale,
    range: Option<(f64, f64)>,
    integer_ticks: bool,
    pub(crate) zoom: Zoom,
}

/// What the readers of a page may do with an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Zoom {
    /// Nothing.
    #[default]
    Fixed,
    /// Show a part of it.
    Zoomable,
    /// Show a part of it, also in another unit of the page.
    Convertible,
}

impl Axis {
    /// An axis with equal steps. The label names the quantity and its unit; it may be empty.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
            range: None,
            integer_ticks: false,
            zoom: Zoom::Fixed,
        }
    }

    /// An axis with equal factors. Values that are not above zero are not drawn on it.
    pub fn log10(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log10, ..Self::linear(label) }
    }

    /// Shows exactly `low..=high` instead of a range found from the data. A range that the scale
    /// cannot show (not finite, empty, or not above zero on a logarithmic axis) is ignored.
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Puts ticks at whole numbers only, for counts and rounds.
    pub fn integer_ticks(mut self) -> Self {
        self.integer_ticks = true;
        self
    }

    /// Lets the readers of a page show a part of this axis, the same part in all panels with such an axis.
    pub fn zoomable(mut self) -> Self {
        self.zoom = Zoom::Zoomable;
        self
    }

    /// As [`zoomable`](Self::zoomable), and the values of each series can be shown in other units, as
    /// [`Page::units`](crate::Page::units) says.
    pub fn convertible(mut self) -> Self {
        self.zoom = Zoom::Convertible;
        self
    }

    /// The range asked for, if there is one that can be shown.
    pub(crate) fn fixed_range(&self) -> Option<(f64, f64)> {
        self.range.filter(|&(low, high)| {
            self.scale.can_show(low) && self.scale.can_show(high) && low < high
        })
    }

    /// The same axis showing exactly `range`, unless the caller asked for another one: for data
    /// with borders of its own, where room up to the next tick would look like missing data.
    pub(crate) fn pinned_to(&self, range: Option<(f64, f64)>) -> Self {
        Self { range: self.fixed_range().or(range), ..self.clone() }
    }

    /// Finds range and ticks for data in `data_range`, with about `tick_target` ticks. Without
    /// data and without a fixed range there is an axis, but it has no ticks.
    pub(crate) fn resolve(
        &self,
        data_range: Option<(f64, f64)>,
        tick_target: usize,
    ) -> ResolvedAxis {
        let fixed = self.fixed_range();
        let Some((low, high)) = fixed.or(data_range) else {
            return ResolvedAxis { zoom: self.zoom, ..ResolvedAxis::without_ticks(self.scale) };
        };
        let mut values = match self.scale {
            Scale::Linear => linear_ticks(low, high, tick_target, self.integer_ticks),
            Scale::Log10 => log_ticks(low, high, tick_target),
        };
        let (low, high) = match (fixed, values.first(), values.last()) {
            (None, Some(&first), Some(&last)) => (low.min(first), high.max(last)),
            _ => (low, high),
        };
        let rounding = 1e-6 * (high - low);
        values.retain(|&value| {
            let inside = match self.scale {
                Scale::Linear => value >= low - rounding && value <= high + rounding,
                Scale::Log10 => value >= low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9),
            };
            inside && (!self.integer_ticks || value.fract() == 0.0)
        });
        let labels = match self.scale {
            Scale::Linear => linear_labels(&values),
            Scale::Log10 => log_labels(&values),
        };
        let minor_ticks = match self.scale {
            Scale::Linear => Vec::new(),
            Scale::Log10 => minor_log_ticks(low, high),
        };
        let ticks =
            values.into_iter().zip(labels).map(|(value, label)| Tick { value, label }).collect();
        ResolvedAxis { scale: self.scale, low, high, ticks, minor_ticks, zoom: self.zoom }
    }
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// An axis whose range and ticks are known.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedAxis {
    pub(crate) scale: Scale,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<Tick>,
    pub(crate) minor_ticks: Vec<f64>,
    pub(crate) zoom: Zoom,
}

impl ResolvedAxis {
    fn without_ticks(scale: Scale) -> Self {
        let (low, high) = match scale {
            Scale::Linear => (0.0, 1.0),
            Scale::Log10 => (1.0, 10.0),
        };
        Self { scale, low, high, ticks: Vec::new(), minor_ticks: Vec::new(), zoom: Zoom::Fixed }
    }

    /// Its ends and its scale, for the script of a page.
    pub(crate) fn for_script(&self) -> String {
        let scale = if self.scale == Scale::Log10 { "log" } else { "linear" };
        // More digits would say nothing; the largest float would be rounded to infinity.
        let rounded = |end: f64| {
            format!("{end:.9e}").parse().ok().filter(|end: &f64| end.is_finite()).unwrap_or(end)
        };
        format!("{} {} {scale}", rounded(self.low), rounded(self.high))
    }

    /// Where `value` stands between the ends of the axis: 0 at the low end, 1 at the high end,
    /// outside of that for values beyond. Nothing for values that the scale cannot show.
    pub(crate) fn fraction(&self, value: f64) -> Option<f64> {
        // Far outside, the exact place does not matter, but it must stay a sane coordinate.
        const FAR: f64 = 1e4;
        if !self.scale.can_show(value) {
            return None;
        }
        let (low, high) = (self.scale.position(self.low), self.scale.position(self.high));
        // Halves, because the difference of two huge numbers may not be a number any more.
        let (value, low, high) = (self.scale.position(value) / 2.0, low / 2.0, high / 2.0);
        let fraction = (value - low) / (high - low);
        Some(fraction.clamp(-FAR, FAR)).filter(|fraction| fraction.is_finite())
    }
}

/// Distance between the plot and the numbers along it.
pub(crate) const TICK_GAP: f64 = 9.0;

/// Range and ticks of an upright axis of this height.
pub(crate) fn resolve_y(axis: &Axis, range: DataRange, height: f64) -> ResolvedAxis {
    axis.resolve(range, (height / 45.0).clamp(2.0, 8.0) as usize)
}

/// Range and ticks of an x axis of this width, with as many ticks as have room for their numbers.
pub(crate) fn resolve_x(axis: &Axis, range: DataRange, width: f64) -> ResolvedAxis {
    let most = (width / 45.0).clamp(1.0, 10.0) as usize;
    let candidates = (1..=most).rev().map(|target| axis.resolve(range, target));
    let fits = |axis: &ResolvedAxis| {
        let places: Vec<f64> =
            axis.ticks.iter().filter_map(|tick| axis.fraction(tick.value)).collect();
        let closest = places.windows(2).map(|pair| pair[1] - pair[0]).fold(1.0, f64::min) * width;
        widest_label(axis) + 14.0 <= closest
    };
    candidates.into_iter().find(fits).unwrap_or_else(|| axis.resolve(range, 1))
}

/// Width of the widest number along an axis.
pub(crate) fn widest_label(axis: &ResolvedAxis) -> f64 {
    axis.ticks.iter().map(|tick| theme::TICK_LABEL.width(&tick.label)).fold(0.0, f64::max)
}

/// Room that a y axis needs left of the plot.
pub(crate) fn left_margin(axis: &Axis, y: &ResolvedAxis) -> f64 {
    let label = if axis.label.is_empty() { 0.0 } else { theme::AXIS_LABEL.line_height() + 4.0 };
    label + widest_label(y) + TICK_GAP
}

/// Room that an x axis needs below the plot.
pub(crate) fn bottom_margin(axis: &Axis) -> f64 {
    let label = if axis.label.is_empty() { 0.0 } else { theme::AXIS_LABEL.line_height() + 3.0 };
    TICK_GAP + theme::TICK_LABEL.line_height() + label
}

/// Writes the numbers along the x axis.
pub(crate) fn draw_x_tick_labels(svg: &mut SvgWriter, data: &DataArea, plot: &Rect) {
    let style = &theme::TICK_LABEL;
    for tick in &data.x.ticks {
        if let Some(x) = data.x_position(tick.value) {
            let at = Point { x, y: plot.bottom() + TICK_GAP + style.size };
            svg.text(&tick.label, at, Anchor::Middle, style);
        }
    }
}

/// Writes the numbers along the y axis.
pub(crate) fn draw_y_tick_labels(svg: &mut SvgWriter, data: &DataArea, plot: &Rect) {
    let style = &theme::TICK_LABEL;
    for tick in &data.y.ticks {
        if let Some(y) = data.y_position(tick.value) {
            let at = Point { x: plot.x - TICK_GAP, y: y + style.half_capital_height() };
            svg.text(&tick.label, at, Anchor::End, style);
        }
    }
}

/// Writes the names of both axes; `y` is what became of `y_axis`.
pub(crate) fn draw_axis_names(
    svg: &mut SvgWriter,
    x_axis: &Axis,
    y_axis: &Axis,
    y: &ResolvedAxis,
    plot: &Rect,
) {
    draw_x_axis_name(svg, x_axis, plot, plot);
    let style = &theme::AXIS_LABEL;
    if !y_axis.label.is_empty() {
        let name = style.shorten(&y_axis.label, plot.height);
        // The name keeps its distance from the numbers of its own panel, however wide those of
        // the other panels are.
        let at = Point {
            x: plot.x - left_margin(y_axis, y) + style.size,
            y: plot.y + plot.height / 2.0,
        };
        svg.upward_text(&name, at, style);
    }
}

/// Writes the name of the x axis under the middle of `plot`, as far as it stays within the width
/// of `room`.
pub(crate) fn draw_x_axis_name(svg: &mut SvgWriter, axis: &Axis, plot: &Rect, room: &Rect) {
    if axis.label.is_empty() {
        return;
    }
    let style = &theme::AXIS_LABEL;
    let name = style.shorten(&axis.label, room.width);
    let half_width = style.width(&name) / 2.0;
    let middle = plot.x + plot.width / 2.0;
    let at = Point {
        x: middle.min(room.right() - half_width).max(room.x + half_width),
        y: plot.bottom() + bottom_margin(axis) - 0.25 * style.size,
    };
    svg.group(&[("class", "x-name")], |svg| svg.text(&name, at, Anchor::Middle, style));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_from_data_ends_at_ticks() {
        let axis = Axis::linear("x").resolve(Some((0.1, 0.93)), 5);
        assert_eq!((axis.low, axis.high), (0.0, 1.0));
        assert_eq!(axis.ticks.len(), 6);
    }

    #[test]
    fn a_fixed_range_is_kept_and_ticks_stay_inside() {
        let axis = Axis::linear("x").range(0.05, 0.95).resolve(Some((0.0, 7.0)), 5);
        assert_eq!((axis.low, axis.high), (0.05, 0.95));
        assert!(axis.ticks.iter().all(|tick| (0.05..=0.95).contains(&tick.value)));
        assert!(!axis.ticks.is_empty());
    }

    #[test]
    fn a_pinned_axis_ends_with_its_data_unless_a_range_was_asked_for() {
        let pinned = Axis::linear("x").pinned_to(Some((0.5, 30.5))).resolve(None, 5);
        assert_eq!((pinned.low, pinned.high), (0.5, 30.5));
        let asked = Axis::linear("x").range(0.0, 9.0).pinned_to(Some((0.5, 30.5)));
        assert_eq!(asked.fixed_range(), Some((0.0, 9.0)));
        assert_eq!(Axis::linear("x").pinned_to(None).fixed_range(), None);
    }

    #[test]
    fn an_impossible_range_is_ignored() {
        for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert_eq!(Axis::linear("x").range(low, high).fixed_range(), None);
        }
        assert_eq!(Axis::log10("x").range(0.0, 1.0).fixed_range(), None);
    }

    #[test]
    fn a_log_axis_spreads_by_ratio_and_refuses_what_is_not_above_zero() {
        let axis = Axis::log10("x").range(1.0, 100.0).resolve(None, 5);
        assert!((axis.fraction(10.0).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(axis.fraction(0.0), None);
        assert_eq!(axis.fraction(-1.0), None);
        assert_eq!(axis.fraction(f64::NAN), None);
        let labels: Vec<&str> = axis.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["1", "10", "10²"]);
    }

    #[test]
    fn whole_number_ticks_hold_on_both_scales() {
        let linear = Axis::linear("x").integer_ticks().range(0.2, 3.4).resolve(None, 9);
        let values: Vec<f64> = linear.ticks.iter().map(|tick| tick.value).collect();
        assert_eq!(values, [1.0, 2.0, 3.0]);
        let log = Axis::log10("x").integer_ticks().resolve(Some((0.5, 4.0)), 9);
        assert!(log.ticks.iter().all(|tick| tick.value.fract() == 0.0));
    }

    #[test]
    fn without_data_there_are_no_ticks() {
        assert!(Axis::linear("x").resolve(None, 5).ticks.is_empty());
        assert!(Axis::log10("x").resolve(None, 5).ticks.is_empty());
    }

    #[test]
    fn values_far_outside_keep_sane_coordinates() {
        let axis = Axis::linear("x").range(0.0, 1e-200).resolve(None, 5);
        assert!(axis.fraction(f64::MAX).unwrap() <= 1e4);
    }

    #[test]
    fn numbers_along_the_x_axis_have_room() {
        for width in [36.0, 96.0, 276.0, 876.0] {
            let axis = resolve_x(&Axis::linear("x"), Some((0.0, 3e-7)), width);
            let distance = width / (axis.ticks.len() - 1) as f64;
            assert!(axis.ticks.len() == 2 || widest_label(&axis) < distance);
        }
    }

    #[test]
    fn a_wide_name_moves_into_the_room_there_is() {
        let plot = Rect { x: 150.0, y: 0.0, width: 50.0, height: 10.0 };
        let room = Rect { x: 0.0, width: 210.0, ..plot };
        let x_of_name = |label: &str, room: &Rect| {
            let mut svg = SvgWriter::new(10.0, 10.0, "", "");
            draw_x_axis_name(&mut svg, &Axis::linear(label), &plot, room);
            let text =
                svg.finish().lines().find(|line| line.starts_with("<text x")).unwrap().to_owned();
            text.split('"').nth(1).unwrap().parse::<f64>().unwrap()
        };
        assert!((x_of_name("x", &room) - 175.0).abs() < 0.1);
        let moved = x_of_name("a rather long name", &room);
        assert!(moved < 160.0 && moved > 105.0);
        assert!((x_of_name("a rather long name", &plot) - 175.0).abs() < 0.1);
    }

    #[test]
    fn the_left_margin_grows_with_the_numbers() {
        let axis = Axis::linear("y");
        let short = resolve_y(&axis, Some((0.0, 1.0)), 300.0);
        let long = resolve_y(&axis, Some((-1e-12, 1e-12)), 300.0);
        assert!(left_margin(&axis, &long) > left_margin(&axis, &short) + 20.0);
        assert!(left_margin(&axis, &long) > widest_label(&long));
    }
}
