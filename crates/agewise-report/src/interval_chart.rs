//! Drawing an interval plot: its axis, the names and notes of its rows, and what is in them.

use crate::axes::{TICK_GAP, draw_tick_labels, draw_x_axis_name, resolve_x};
use crate::axis::ResolvedAxis;
use crate::geometry::{Point, Rect};
use crate::interval_marks::RowArea;
use crate::interval_plot::{IntervalPlot, IntervalRow};
use crate::legend::Looks;
use crate::marks::DataArea;
use crate::panel::DataRange;
use crate::plot::{AXIS_STROKE, SIDE_INSET, draw_grid, draw_no_data};
use crate::references::{draw_reference_labels, draw_reference_lines};
use crate::svg::{Anchor, PathData, SvgWriter};
use crate::theme;

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
    looks: &Looks,
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
    draw_grid(svg, &data, &rows);
    draw_tick_labels(svg, &data, &rows);
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
        let look = looks.of(&row.name);
        RowArea { data: &data, plot: &rows, middle, look }.draw(svg, row);
        let style = &theme::ROW_NAME;
        let start =
            Point { x: stripes.x + STRIPE_PADDING, y: middle + style.half_capital_height() };
        svg.text(&style.shorten(&row.name, name_width), start, Anchor::Start, style);
        notes.draw(svg, index, Point { x: rows.right() + TICK_GAP, y: middle });
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
