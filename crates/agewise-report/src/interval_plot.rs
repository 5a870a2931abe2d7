//! An interval plot: named rows, each with a value, an interval around it and the single results.

use crate::axis::Axis;
use crate::panel::{DataRange, Direction, ReferenceLine, include_shown};

/// Named rows over one axis of values, from top to bottom: a forest plot.
///
/// Each row has a colour and a marker of its own; a row and a series of the same name look alike.
/// What lies beyond the ends of the axis, up to infinity, becomes an arrow at that end.
///
/// ```
/// use agewise_report::{Axis, Figure, IntervalPlot, IntervalRow, ReferenceLine};
///
/// let plot = IntervalPlot::new("Rounds to the target", Axis::linear("difference (%)"))
///     .row(
///         IntervalRow::new("oldest-first", -8.2)
///             .interval(-11.0, -5.1)
///             .dots([-9.0, -8.1, -7.3])
///             .note("3 of 3 reached"),
///     )
///     .row(IntervalRow::new("phased", f64::NAN).note("0 of 3 reached"))
///     .reference(ReferenceLine::vertical(0.0, "random"));
/// assert!(Figure::new("Who is faster").panel(plot).to_svg().contains("oldest-first"));
/// ```
#[derive(Clone, Debug)]
pub struct IntervalPlot {
    pub(crate) title: String,
    pub(crate) value: Axis,
    pub(crate) rows: Vec<IntervalRow>,
    pub(crate) references: Vec<ReferenceLine>,
}

impl IntervalPlot {
    /// A plot without rows. The title may be empty; the axis is that of the values.
    pub fn new(title: impl Into<String>, value_axis: Axis) -> Self {
        Self { title: title.into(), value: value_axis, rows: Vec::new(), references: Vec::new() }
    }

    /// Adds a row below the others.
    #[must_use]
    pub fn row(mut self, row: IntervalRow) -> Self {
        self.rows.push(row);
        self
    }

    /// Adds an upright reference line. A range found from the data is extended to include it.
    /// Horizontal lines have no place among rows and are left out.
    #[must_use]
    pub fn reference(mut self, line: ReferenceLine) -> Self {
        if line.direction == Direction::Vertical {
            self.references.push(line);
        }
        self
    }

    /// What the value axis has to show.
    pub(crate) fn value_range(&self) -> DataRange {
        let mut range = None;
        let bounds = self.references.iter().map(|line| line.value);
        for value in self.rows.iter().flat_map(IntervalRow::values).chain(bounds) {
            include_shown(&mut range, value, &self.value);
        }
        range
    }

    /// The plot in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        let title = match self.title.as_str() {
            "" => "Interval plot".to_owned(),
            title => format!("Interval plot \"{title}\""),
        };
        let axis = match self.value.label.as_str() {
            "" => String::new(),
            label => format!(": {label}"),
        };
        let rows: Vec<String> = self.rows.iter().map(IntervalRow::description).collect();
        let rows = if rows.is_empty() { "no data".to_owned() } else { rows.join(", ") };
        format!("{title}{axis}; {rows}.")
    }
}

/// One row of an [`IntervalPlot`].
#[derive(Clone, Debug)]
pub struct IntervalRow {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) dots: Vec<f64>,
    pub(crate) slot: Option<usize>,
    pub(crate) note: String,
}

impl IntervalRow {
    /// A row with its name and its value, shown as a marker; without one where it is not a number.
    pub fn new(name: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            value,
            interval: None,
            dots: Vec::new(),
            slot: None,
            note: String::new(),
        }
    }

    /// Sets the interval, shown as a bar with caps. The bounds may be infinite and come in either
    /// order; with a bound that is not a number there is no bar.
    #[must_use]
    pub fn interval(mut self, low: f64, high: f64) -> Self {
        self.interval = (!low.is_nan() && !high.is_nan()).then(|| (low.min(high), low.max(high)));
        self
    }

    /// Sets the single results, such as one per seed, shown as small dots above and below the bar.
    #[must_use]
    pub fn dots(mut self, dots: impl IntoIterator<Item = f64>) -> Self {
        self.dots = dots.into_iter().collect();
        self
    }

    /// Fixes which colour and marker the row gets, as [`Series::slot`](crate::Series::slot) does.
    #[must_use]
    pub fn slot(mut self, slot: usize) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Sets the small grey text at the right end of the row.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Every number of the row.
    fn values(&self) -> impl Iterator<Item = f64> {
        let bounds = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        [self.value].into_iter().chain(bounds).chain(self.dots.iter().copied())
    }

    fn description(&self) -> String {
        match self.note.trim() {
            "" => self.name.clone(),
            note => format!("{} ({note})", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> IntervalPlot {
        IntervalPlot::new("t", Axis::linear("v"))
    }

    #[test]
    fn the_range_holds_all_that_can_be_shown() {
        let row = IntervalRow::new("a", 2.0).interval(f64::INFINITY, 1.0).dots([-3.0, f64::NAN]);
        assert_eq!(plot().row(row.clone()).value_range(), Some((-3.0, 2.0)));
        let with_reference = plot().row(row).reference(ReferenceLine::vertical(9.0, ""));
        assert_eq!(with_reference.value_range(), Some((-3.0, 9.0)));
        assert_eq!(plot().row(IntervalRow::new("a", f64::NAN)).value_range(), None);
    }

    #[test]
    fn a_log_axis_leaves_zero_out_of_the_range() {
        let row = IntervalRow::new("a", 2.0).interval(0.0, 5.0);
        let plot = IntervalPlot::new("t", Axis::log10("v")).row(row);
        assert_eq!(plot.value_range(), Some((2.0, 5.0)));
    }

    #[test]
    fn intervals_are_put_in_order_and_need_two_numbers() {
        assert_eq!(IntervalRow::new("a", 0.0).interval(3.0, 1.0).interval, Some((1.0, 3.0)));
        assert_eq!(IntervalRow::new("a", 0.0).interval(f64::NAN, 1.0).interval, None);
    }

    #[test]
    fn only_upright_reference_lines_are_kept() {
        let plot = plot().reference(ReferenceLine::horizontal(1.0, "across"));
        assert!(plot.references.is_empty());
    }

    #[test]
    fn rows_are_named_in_words() {
        let rows = plot()
            .row(IntervalRow::new("a", 1.0).note("3 of 5"))
            .row(IntervalRow::new("b", f64::NAN));
        assert_eq!(rows.description(), "Interval plot \"t\": v; a (3 of 5), b.");
        assert!(plot().description().ends_with("no data."));
    }
}
