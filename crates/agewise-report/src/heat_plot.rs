//! Drawing a heat map: its axes, its cells and the colour bar.

use crate::axes::{
    TICK_GAP, draw_axis_names, draw_tick_labels, resolve_x, resolve_y, widest_label,
};
use crate::axis::ResolvedAxis;
use crate::color_scale::{LEVELS, color};
use crate::geometry::{Point, Rect};
use crate::heat_cells::{at_half_units, draw_cells, level_of};
use crate::heat_map::{Cells, HeatMap};
use crate::marks::DataArea;
use crate::panel::{DataRange, include};
use crate::plot::{AXIS_STROKE, draw_no_data};
use crate::svg::{Anchor, PathData, SvgWriter};
use crate::theme;

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
    draw_tick_labels(svg, &data, &area);
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
