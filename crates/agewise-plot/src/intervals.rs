//! An interval plot: named rows, each with a value, an interval around it and the single results.

use crate::axis::{Axis, ResolvedAxis, TICK_GAP, draw_x_axis_name, resolve_x};
use crate::geometry::{Point, Rect};
use crate::interval_marks::RowArea;
use crate::legend::SlotStyles;
use crate::panel::{AXIS_STROKE, DataRange, SIDE_INSET, draw_grids, draw_no_data, include_shown};
use crate::reference::{Direction, ReferenceLine, draw_reference_labels, draw_reference_lines};
use crate::series::DataArea;
use crate::svg::{Anchor, PathData, SvgWriter};
use crate::theme;

/// Named rows over one axis of values, from top to bottom: a forest plot.
///
/// Each row has a colour and a marker of its own; a row and a series of the same name look alike.
/// What lies beyond the ends of the axis, up to infinity, becomes an arrow at that end.
///
/// ```
/// use agewise_plot::{Axis, Figure, IntervalPlot, IntervalRow, ReferenceLine};
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
#[must_use]
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
    pub fn row(mut self, row: IntervalRow) -> Self {
        self.rows.push(row);
        self
    }

    /// Adds an upright reference line. A range found from the data is extended to include it.
    /// Horizontal lines have no place among rows and are left out.
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
#[must_use]
#[derive(Clone, Debug)]
pub struct IntervalRow {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) dots: Vec<f64>,
    pub(crate) slot: Option<usize>,
    pub(crate) note: String,
    series: Option<String>,
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
            series: None,
        }
    }

    /// Says to which series the row belongs, where it has another name: it looks like that series, and a page hides it
    /// with that series.
    pub fn of_series(mut self, name: impl Into<String>) -> Self {
        self.series = Some(name.into());
        self
    }

    /// The series that the row belongs to.
    pub(crate) fn series(&self) -> &str {
        self.series.as_deref().unwrap_or(&self.name)
    }

    /// What the row shows, in numbers.
    fn reading(&self) -> String {
        let value = if self.value.is_nan() { "-".to_owned() } else { short(self.value) };
        let interval =
            self.interval.map(|(low, high)| format!(" [{}, {}]", short(low), short(high)));
        let note = match self.note.trim() {
            "" => String::new(),
            note => format!(" ({note})"),
        };
        format!("{}: {value}{}{note}", self.name, interval.unwrap_or_default())
    }

    /// Sets the interval, shown as a bar with caps. The bounds may be infinite and come in either
    /// order; with a bound that is not a number there is no bar.
    pub fn interval(mut self, low: f64, high: f64) -> Self {
        self.interval = (!low.is_nan() && !high.is_nan()).then(|| (low.min(high), low.max(high)));
        self
    }

    /// Sets the single results, such as one per seed, shown as small dots above and below the bar.
    pub fn dots(mut self, dots: impl IntoIterator<Item = f64>) -> Self {
        self.dots = dots.into_iter().collect();
        self
    }

    /// Fixes which colour and marker the row gets, as [`Series::slot`](crate::Series::slot) does.
    pub fn slot(mut self, slot: usize) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Sets the small grey text at the right end of the row.
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

/// Four digits of a number.
fn short(value: f64) -> String {
    if !value.is_finite() {
        return if value > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let digits = if value == 0.0 { 0.0 } else { libm::log10(value.abs()).floor() };
    let text = format!("{value:.0$}", (3.0 - digits).clamp(0.0, 9.0) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Height of a row where nothing else decides.
const ROW_HEIGHT: f64 = 34.0;
/// Rows beside a taller panel grow up to this height; further apart they would be hard to compare.
const TALLEST_ROW: f64 = 60.0;
/// Height of a plot without rows, for the notice in it.
const EMPTY_HEIGHT: f64 = 80.0;
/// Share of the width of the chart that names may take before they are cut.
const WIDEST_NAMES: f64 = 0.4;
/// Share of the width of the plot that notes may take before they are cut.
const WIDEST_NOTES: f64 = 0.35;
/// Distance between the names and the ends of the stripes behind them.
const STRIPE_PADDING: f64 = 8.0;

/// Height of the plot with rows of the usual height, without title and axis.
pub(crate) fn natural_height(plot: &IntervalPlot) -> f64 {
    match plot.rows.len() {
        0 => EMPTY_HEIGHT,
        count => reference_strip_height(plot) + count as f64 * ROW_HEIGHT,
    }
}

/// Room that the names of the rows need left of the plot.
pub(crate) fn names_margin(plot: &IntervalPlot, chart_width: f64) -> f64 {
    let widest = plot
        .rows
        .iter()
        .map(|row| theme::ROW_NAME.width(&row.name))
        .fold(0.0, f64::max)
        .min(WIDEST_NAMES * chart_width);
    STRIPE_PADDING + widest + TICK_GAP
}

/// Room above the rows for the names of the reference lines, which would hide data in them. Two
/// lines of text have room for lines that are close together.
fn reference_strip_height(plot: &IntervalPlot) -> f64 {
    let labelled = plot.references.iter().filter(|line| !line.label.trim().is_empty()).count();
    labelled.min(2) as f64 * theme::REFERENCE_LABEL.line_height()
}

/// Draws everything of an interval plot but its title. `place` has room for the rows and their
/// notes, `left_margin` left of it for their names.
pub(crate) fn draw_interval_plot(
    svg: &mut SvgWriter,
    plot: &IntervalPlot,
    x_range: DataRange,
    y: &ResolvedAxis,
    place: Rect,
    left_margin: f64,
    slot_styles: &SlotStyles,
) {
    if plot.rows.is_empty() {
        draw_no_data(svg, &place);
        return;
    }
    let notes = Notes::lay_out(&plot.rows, place.width);
    let strip_height = reference_strip_height(plot);
    let row_height =
        ((place.height - strip_height) / plot.rows.len() as f64).clamp(ROW_HEIGHT, TALLEST_ROW);
    let rows = Rect {
        y: place.y + strip_height,
        width: place.width - notes.width(),
        height: row_height * plot.rows.len() as f64,
        ..place
    };
    let stripes = Rect {
        x: place.x - left_margin,
        width: left_margin + place.width,
        height: row_height,
        ..rows
    };
    draw_stripes(svg, stripes, plot.rows.len());

    let area = Rect { x: rows.x + SIDE_INSET, width: rows.width - 2.0 * SIDE_INSET, ..rows };
    let x = resolve_x(&plot.value, x_range, area.width);
    let data = DataArea { x: &x, y, area };
    draw_grids(svg, &data, &rows);
    draw_x_axis_name(svg, &plot.value, &rows, &stripes);
    let strip = Rect { y: place.y, height: strip_height, ..rows };
    let with_strip = Rect { height: strip_height + rows.height, ..strip };
    draw_reference_lines(svg, &plot.references, &data, &with_strip);
    draw_reference_labels(svg, &plot.references, &data, &strip);
    svg.line(
        Point { x: rows.x, y: rows.bottom() },
        Point { x: rows.right(), y: rows.bottom() },
        &AXIS_STROKE,
    );

    let name_width = left_margin - STRIPE_PADDING - TICK_GAP;
    for (index, row) in plot.rows.iter().enumerate() {
        let middle = rows.y + (index as f64 + 0.5) * row_height;
        let slot_style = slot_styles.of(row.series());
        svg.series(row.series(), |svg| {
            svg.tooltip(&row.reading());
            RowArea { data: &data, plot: &rows, middle, slot_style }.draw(svg, row);
            let style = &theme::ROW_NAME;
            let start =
                Point { x: stripes.x + STRIPE_PADDING, y: middle + style.half_capital_height() };
            svg.text(&style.shorten(&row.name, name_width), start, Anchor::Start, style);
            notes.draw(svg, index, Point { x: rows.right() + TICK_GAP, y: middle });
        });
    }
}

/// Draws a faint stripe behind every other row, to lead the eye from its name to its note.
fn draw_stripes(svg: &mut SvgWriter, first_row: Rect, count: usize) {
    let mut path = PathData::default();
    for index in (0..count).step_by(2) {
        path.rect(&Rect { y: first_row.y + index as f64 * first_row.height, ..first_row });
    }
    svg.fill_path(&path, theme::STRIPE, None);
}

/// The notes of all rows, cut to the room there is.
struct Notes(Vec<String>);

impl Notes {
    fn lay_out(rows: &[IntervalRow], plot_width: f64) -> Self {
        let shorten = |row: &IntervalRow| match row.note.trim() {
            "" => String::new(),
            note => theme::ROW_NOTE.shorten(note, WIDEST_NOTES * plot_width),
        };
        Self(rows.iter().map(shorten).collect())
    }

    /// Room right of the rows; none without notes.
    fn width(&self) -> f64 {
        let widest = self.0.iter().map(|note| theme::ROW_NOTE.width(note)).fold(0.0, f64::max);
        if widest > 0.0 { TICK_GAP + widest + STRIPE_PADDING } else { 0.0 }
    }

    /// Writes one note; `at` is its left end, at half height.
    fn draw(&self, svg: &mut SvgWriter, index: usize, at: Point) {
        let style = &theme::ROW_NOTE;
        if let Some(note) = self.0.get(index).filter(|note| !note.is_empty()) {
            let baseline = Point { y: at.y + style.half_capital_height(), ..at };
            svg.text(note, baseline, Anchor::Start, style);
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
