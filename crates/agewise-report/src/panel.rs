//! One chart of a figure: two axes, series, and reference lines.

use crate::axis::Axis;
use crate::series::{Series, SeriesStyle};

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
#[derive(Clone, Debug)]
pub struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) references: Vec<ReferenceLine>,
}

/// The lowest and highest value that an axis has to show, if there is any.
pub(crate) type DataRange = Option<(f64, f64)>;

impl Panel {
    /// A panel without series. The title may be empty.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), references: Vec::new() }
    }

    /// Adds a series; later ones are drawn on top of earlier ones.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a reference line. A range found from the data is extended to include it.
    #[must_use]
    pub fn reference(mut self, line: ReferenceLine) -> Self {
        self.references.push(line);
        self
    }

    /// Whether any point of any series can be shown on the axes.
    pub(crate) fn has_data(&self) -> bool {
        self.series.iter().flat_map(|series| &series.points).any(|&point| self.can_show(point))
    }

    fn can_show(&self, (x, y): (f64, f64)) -> bool {
        self.x.scale.can_show(x) && self.y.scale.can_show(y)
    }

    /// What the x axis and the y axis have to show.
    pub(crate) fn data_ranges(&self) -> (DataRange, DataRange) {
        let (mut x_range, mut y_range) = (None, None);
        let (x_low, x_high) = self.x.fixed_range().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        for series in &self.series {
            // What a fixed x range hides shall not stretch the y axis.
            let visible = |&(x, y): &(f64, f64)| self.can_show((x, y)) && x >= x_low && x <= x_high;
            for (x, y) in series.points.iter().copied().filter(visible) {
                include(&mut x_range, x);
                include(&mut y_range, y);
                if series.style == SeriesStyle::Stems && self.y.scale.can_show(0.0) {
                    include(&mut y_range, 0.0);
                }
            }
        }
        for line in &self.references {
            let (range, axis) = match line.direction {
                Direction::Horizontal => (&mut y_range, &self.y),
                Direction::Vertical => (&mut x_range, &self.x),
            };
            if axis.scale.can_show(line.value) {
                include(range, line.value);
            }
        }
        (x_range, y_range)
    }

    /// The panel in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        let title = match self.title.as_str() {
            "" => "Panel".to_owned(),
            title => format!("Panel \"{title}\""),
        };
        let axes = match (self.x.label.as_str(), self.y.label.as_str()) {
            ("", _) | (_, "") => String::new(),
            (x, y) => format!(": {y} against {x}"),
        };
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
        format!("{title}{axes}{content}.")
    }
}

fn include(range: &mut DataRange, value: f64) {
    *range = Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
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
    fn a_log_axis_has_no_data_at_or_below_zero() {
        let mut panel = panel(&[(0.0, 0.0), (1.0, -2.0)]);
        panel.y = Axis::log10("y");
        assert!(!panel.has_data());
        assert!(panel.description().contains("no data"));
    }
}
