//! A heat map: a matrix over two axes whose values are shown in colours, beside a colour bar.

use crate::axis::{
    Axis, ResolvedAxis, TICK_GAP, draw_axis_names, draw_x_tick_labels, draw_y_tick_labels,
    resolve_x, resolve_y, widest_label,
};
use crate::geometry::{Point, Rect};
use crate::heat_cells::{at_half_units, draw_cells, level_of};
use crate::panel::{AXIS_STROKE, DataRange, describe_axes, draw_no_data, include};
use crate::series::DataArea;
use crate::svg::{Anchor, PathData, SvgWriter};
use crate::theme::{self, LEVELS, color};

/// A matrix shown in colours, with a colour bar beside it.
///
/// ```
/// use agewise_plot::{Axis, Figure, HeatMap};
///
/// let ages = (0..20).map(|client| (0..100).map(move |round| f64::from((client + round) % 7)));
/// let map = HeatMap::new(
///     "Ages",
///     Axis::linear("round").integer_ticks(),
///     Axis::linear("client").integer_ticks(),
///     Axis::linear("age (rounds)"),
/// )
/// .rows(ages);
/// assert!(Figure::new("Who waits").panel(map).to_svg().contains("age (rounds)"));
/// ```
#[must_use]
#[derive(Clone, Debug)]
pub struct HeatMap {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) value: Axis,
    pub(crate) missing_label: String,
    rows: Vec<Vec<f64>>,
    x_extent: Option<(f64, f64)>,
    y_extent: Option<(f64, f64)>,
}

impl HeatMap {
    /// A heat map without cells. The third axis is that of the values: it gives the colour bar
    /// its label, its ticks, and a linear or logarithmic scale. Set its range to make the colours
    /// of several heat maps comparable; values beyond it get the colours of its ends.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, value: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            value,
            missing_label: "no data".to_owned(),
            rows: Vec::new(),
            x_extent: None,
            y_extent: None,
        }
    }

    /// Sets the cells, row by row; the first row stands at the low end of the y axis. Values that
    /// the scale cannot show (not finite, or a mean not above zero on a logarithmic scale) leave
    /// a light grey cell, and so do the missing ends of shorter rows. Matrices with more cells
    /// than can be seen are drawn with the means of neighbouring cells.
    pub fn rows(mut self, rows: impl IntoIterator<Item = impl IntoIterator<Item = f64>>) -> Self {
        self.rows = rows.into_iter().map(|row| row.into_iter().collect()).collect();
        self
    }

    /// Sets what the outer edges of the matrix stand for on the x axis and on the y axis. Without
    /// it, or where it is not a range of finite numbers, cells are one unit wide and centred on
    /// their index: the edges of n cells are −0.5 and n − 0.5.
    pub fn extent(mut self, x: (f64, f64), y: (f64, f64)) -> Self {
        let sensible = |&(low, high): &(f64, f64)| {
            low.is_finite() && high.is_finite() && low < high && (high - low).is_finite()
        };
        self.x_extent = Some(x).filter(sensible);
        self.y_extent = Some(y).filter(sensible);
        self
    }

    /// Sets what the grey of cells without a value means, otherwise "no data": for counts on a
    /// logarithmic scale it is "none".
    pub fn missing_label(mut self, label: impl Into<String>) -> Self {
        self.missing_label = label.into();
        self
    }

    fn column_count(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The lowest and the highest edge that each axis can show.
    pub(crate) fn edge_ranges(&self) -> (DataRange, DataRange) {
        let grid = self.grid(usize::MAX, usize::MAX);
        let range = |axis: &Axis, edges: &[f64]| {
            let mut range = None;
            for &edge in edges.iter().filter(|&&edge| axis.scale.can_show(edge)) {
                include(&mut range, edge);
            }
            range
        };
        (range(&self.x, &grid.x_edges), range(&self.y, &grid.y_edges))
    }

    /// The edges of at most so many columns and rows, each made of the same number of cells.
    fn grid(&self, most_columns: usize, most_rows: usize) -> Grid {
        let (columns, rows) = (self.column_count(), self.rows.len());
        let column_size = columns.div_ceil(most_columns.max(1)).max(1);
        let row_size = rows.div_ceil(most_rows.max(1)).max(1);
        Grid {
            column_size,
            row_size,
            x_edges: edges(columns, column_size, self.x_extent),
            y_edges: edges(rows, row_size, self.y_extent),
        }
    }

    /// The matrix in at most so many columns and rows, each a mean of the cells it stands for.
    pub(crate) fn aggregate(&self, most_columns: usize, most_rows: usize) -> Cells {
        let Grid { column_size, row_size, x_edges, y_edges } = self.grid(most_columns, most_rows);
        let columns = x_edges.len().saturating_sub(1);
        let rows = self
            .rows
            .chunks(row_size)
            .map(|rows| {
                (0..columns).map(|column| mean(rows, column * column_size, column_size)).collect()
            })
            .collect();
        Cells { x_edges, y_edges, rows }
    }

    /// The heat map in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        let axes = describe_axes(&self.title, &self.x, &self.y);
        let has_data = self.rows.iter().flatten().any(|&value| self.value.scale.can_show(value));
        match (has_data, self.value.label.as_str()) {
            (false, _) => format!("{axes}; no data."),
            (true, "") => format!("{axes}; heat map."),
            (true, label) => format!("{axes}; heat map of {label}."),
        }
    }
}

/// How the cells of a matrix are grouped.
struct Grid {
    column_size: usize,
    row_size: usize,
    x_edges: Vec<f64>,
    y_edges: Vec<f64>,
}

/// The cells of a heat map as they are drawn.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Borders of the columns on the x axis: one more than there are columns.
    pub(crate) x_edges: Vec<f64>,
    /// Borders of the rows on the y axis: one more than there are rows.
    pub(crate) y_edges: Vec<f64>,
    /// The values; what has none is not a number.
    pub(crate) rows: Vec<Vec<f64>>,
}

/// The borders of groups of `size` of `count` cells; the last group may be smaller.
fn edges(count: usize, size: usize, extent: Option<(f64, f64)>) -> Vec<f64> {
    if count == 0 {
        return Vec::new();
    }
    let (low, high) = extent.unwrap_or((-0.5, count as f64 - 0.5));
    let edge = |index: usize| low + (high - low) * (index as f64 / count as f64);
    (0..count).step_by(size).map(edge).chain([high]).collect()
}

/// The mean of the finite values in `width` columns from `start` on.
fn mean(rows: &[Vec<f64>], start: usize, width: usize) -> f64 {
    let values = || {
        let columns = rows.iter().flat_map(|row| row.iter().skip(start).take(width));
        columns.copied().filter(|value| value.is_finite())
    };
    // Each value is divided before it is added: the sum of huge values may not be finite.
    let count = values().count() as f64;
    if count == 0.0 { f64::NAN } else { values().map(|value| value / count).sum() }
}

/// Cells smaller than this could not be seen; neighbours are then drawn as one.
const SMALLEST_CELL: f64 = 2.5;
/// Most columns and rows, however large the plot is, to keep the file small.
const MOST_COLUMNS: f64 = 300.0;
const MOST_ROWS: f64 = 160.0;
/// Length of the marks at the ticks: cells hide any grid.
const TICK_LENGTH: f64 = 4.0;

const BAR_WIDTH: f64 = 14.0;
/// Distance between the cells and the colour bar.
const BAR_GAP: f64 = 16.0;
/// Distance between the colour bar and the sign for missing values below it.
const MISSING_GAP: f64 = 12.0;

/// Draws everything of a heat map but its title: the axes around the cells, and the colour bar.
/// `plot` has room for all but the numbers and names left of and below it.
pub(crate) fn draw_heat_map(
    svg: &mut SvgWriter,
    map: &HeatMap,
    x_range: DataRange,
    y: &ResolvedAxis,
    plot: Rect,
) {
    let most = |length: f64, limit: f64| (length / SMALLEST_CELL).clamp(1.0, limit) as usize;
    let cells = map.aggregate(most(plot.width, MOST_COLUMNS), most(plot.height, MOST_ROWS));
    let mut value_range = None;
    for &value in cells.rows.iter().flatten().filter(|&&value| map.value.scale.can_show(value)) {
        include(&mut value_range, value);
    }
    if value_range.is_none() {
        draw_no_data(svg, &plot);
        return;
    }
    let bar = ColorBar::lay_out(map, &cells, value_range, plot.height);
    let area = at_half_units(&Rect { width: plot.width - bar.width(), ..plot });
    let x = resolve_x(&map.x.pinned_to(x_range), x_range, area.width);
    let data = DataArea { x: &x, y, area };
    draw_cells(svg, &cells, &bar.scale, &data);
    draw_tick_marks(svg, &data);
    draw_x_tick_labels(svg, &data, &area);
    draw_y_tick_labels(svg, &data, &area);
    draw_axis_names(svg, &map.x, &map.y, y, &area);
    bar.draw(svg, Rect { x: area.right() + BAR_GAP, width: BAR_WIDTH, ..area });
}

/// Draws short lines outside the cells at the ticks of both axes.
fn draw_tick_marks(svg: &mut SvgWriter, data: &DataArea) {
    let area = &data.area;
    let mut marks = PathData::default();
    for x in data.x.ticks.iter().filter_map(|tick| data.x_position(tick.value)) {
        let (from, to) = (area.bottom(), area.bottom() + TICK_LENGTH);
        marks.polyline(&[Point { x, y: from }, Point { x, y: to }]);
    }
    for y in data.y.ticks.iter().filter_map(|tick| data.y_position(tick.value)) {
        let (from, to) = (area.x, area.x - TICK_LENGTH);
        marks.polyline(&[Point { x: from, y }, Point { x: to, y }]);
    }
    svg.stroke_path(&marks, &AXIS_STROKE);
}

/// The colours with their values, right of the cells.
struct ColorBar<'a> {
    scale: ResolvedAxis,
    label: &'a str,
    /// What grey cells mean; nothing when there are none.
    missing_label: Option<String>,
}

impl<'a> ColorBar<'a> {
    fn lay_out(map: &'a HeatMap, cells: &Cells, range: DataRange, height: f64) -> Self {
        const WIDEST_MISSING_LABEL: f64 = 70.0;
        let scale = resolve_y(&map.value, range, height);
        let has_missing =
            cells.rows.iter().flatten().any(|&value| level_of(value, &scale).is_none());
        let label = theme::TICK_LABEL.shorten(&map.missing_label, WIDEST_MISSING_LABEL);
        Self { scale, label: &map.value.label, missing_label: has_missing.then_some(label) }
    }

    /// Room for the numbers, and for what stands in their place below them.
    fn text_width(&self) -> f64 {
        let missing =
            self.missing_label.as_deref().map_or(0.0, |text| theme::TICK_LABEL.width(text));
        widest_label(&self.scale).max(missing)
    }

    /// Room for all of it, with the distance to the cells.
    fn width(&self) -> f64 {
        let name = if self.label.is_empty() { 0.0 } else { theme::AXIS_LABEL.line_height() };
        BAR_GAP + BAR_WIDTH + TICK_GAP + self.text_width() + name
    }

    fn draw(&self, svg: &mut SvgWriter, place: Rect) {
        let style = &theme::TICK_LABEL;
        let text_x = place.right() + TICK_GAP;
        let mut bar = place;
        if let Some(label) = &self.missing_label {
            bar.height -= MISSING_GAP + BAR_WIDTH;
            let sign = Rect { y: place.bottom() - BAR_WIDTH, height: BAR_WIDTH, ..place };
            let mut path = PathData::default();
            path.rect(&sign);
            svg.fill_path(&path, theme::MISSING, Some(&AXIS_STROKE));
            let y = sign.y + BAR_WIDTH / 2.0 + style.half_capital_height();
            svg.text(label, Point { x: text_x, y }, Anchor::Start, style);
        }
        for level in 0..LEVELS {
            // Each colour reaches up to the end of the bar, under all later ones: no seams.
            let y = bar.bottom() - bar.height * level as f64 / LEVELS as f64;
            let mut path = PathData::default();
            path.rect(&Rect { height: y - bar.y, ..bar });
            svg.fill_path(&path, &color(level), None);
        }
        let mut marks = PathData::default();
        for tick in &self.scale.ticks {
            let Some(fraction) = self.scale.fraction(tick.value) else { continue };
            let y = bar.bottom() - fraction * bar.height;
            let end = Point { x: bar.right() + TICK_LENGTH, y };
            marks.polyline(&[Point { x: bar.right(), y }, end]);
            let at = Point { x: text_x, y: y + style.half_capital_height() };
            svg.text(&tick.label, at, Anchor::Start, style);
        }
        svg.stroke_path(&marks, &AXIS_STROKE);
        let style = &theme::AXIS_LABEL;
        let name = style.shorten(self.label, place.height);
        let at = Point {
            x: text_x + self.text_width() + style.line_height() - 0.25 * style.size,
            y: place.y + place.height / 2.0,
        };
        if !name.is_empty() {
            svg.upward_text(&name, at, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rows: &[&[f64]]) -> HeatMap {
        HeatMap::new("t", Axis::linear("x"), Axis::linear("y"), Axis::linear("v"))
            .rows(rows.iter().map(|row| row.iter().copied()))
    }

    #[test]
    fn cells_are_centred_on_their_index() {
        let ranges = map(&[&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]]).edge_ranges();
        assert_eq!(ranges, (Some((-0.5, 2.5)), Some((-0.5, 1.5))));
    }

    #[test]
    fn an_extent_moves_the_edges_unless_it_is_nonsense() {
        let extent = |x, y| map(&[&[1.0, 2.0]]).extent(x, y).edge_ranges();
        assert_eq!(extent((0.0, 10.0), (5.0, 6.0)), (Some((0.0, 10.0)), Some((5.0, 6.0))));
        assert_eq!(extent((f64::NAN, 10.0), (6.0, 5.0)), (Some((-0.5, 1.5)), Some((-0.5, 0.5))));
        assert_eq!(extent((f64::MIN, f64::MAX), (0.0, 1.0)).0, Some((-0.5, 1.5)));
    }

    #[test]
    fn a_log_axis_starts_at_its_first_edge_above_zero() {
        let mut map = map(&[&[1.0, 2.0, 3.0]]);
        map.x = Axis::log10("x");
        assert_eq!(map.edge_ranges().0, Some((0.5, 2.5)));
    }

    #[test]
    fn groups_hold_the_mean_of_what_is_there() {
        let cells = map(&[&[1.0, 3.0, 5.0], &[f64::NAN, 5.0], &[f64::INFINITY]]).aggregate(2, 2);
        assert_eq!(cells.x_edges, [-0.5, 1.5, 2.5]);
        assert_eq!(cells.y_edges, [-0.5, 1.5, 2.5]);
        assert_eq!(cells.rows[0], [3.0, 5.0]);
        assert!(cells.rows[1].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn huge_values_have_a_mean() {
        let cells = map(&[&[f64::MAX, f64::MAX]]).aggregate(1, 1);
        assert!(cells.rows[0][0].is_finite());
    }

    #[test]
    fn nothing_has_no_cells() {
        for rows in [&[] as &[&[f64]], &[&[], &[]]] {
            let map = map(rows);
            let cells = map.aggregate(10, 10);
            assert!(cells.x_edges.is_empty());
            assert!(cells.rows.iter().all(Vec::is_empty));
            assert!(map.description().contains("no data"));
        }
    }
}
