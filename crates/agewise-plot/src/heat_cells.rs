//! Drawing the cells of a heat map.
//!
//! Cells are vector shapes, not an embedded picture: pictures are smoothed or not when they are
//! enlarged, differently in every viewer and printer, and the PNG renderer is built without
//! picture decoders. To keep the file small, neighbouring cells of one colour in a row are one
//! thick line, all such lines of one colour are one path with relative moves, and edges stand at
//! half units, which are short to write and whole pixels in a PNG of scale two.
//!
//! Smoothed edges of shapes that touch let the paper shine through as a fine mesh. Screens are
//! asked not to smooth them; printers do it anyway, so below the cells lies a coarse copy of them
//! whose shapes overlap: what shines through has about the right colour.

use std::collections::BTreeMap;

use crate::axis::ResolvedAxis;
use crate::geometry::{Point, Rect};
use crate::heat_map::Cells;
use crate::series::DataArea;
use crate::svg::{RunPath, SvgWriter};
use crate::theme;
use crate::theme::{color, level};

/// How many cells of a row share one shape of the coarse copy.
const COARSE_CELLS: usize = 8;
/// How far the shapes of the coarse copy reach over their neighbours.
const OVERLAP: f64 = 1.0;

/// The rectangle with its edges at half units.
pub(crate) fn at_half_units(rect: &Rect) -> Rect {
    let (x, y) = (half_unit(rect.x), half_unit(rect.y));
    Rect { x, y, width: half_unit(rect.right()) - x, height: half_unit(rect.bottom()) - y }
}

fn half_unit(position: f64) -> f64 {
    (2.0 * position).round() / 2.0
}

/// The level of a value in the colour scale, if it has one.
pub(crate) fn level_of(value: f64, scale: &ResolvedAxis) -> Option<usize> {
    scale.fraction(value).map(level)
}

/// Draws all cells inside `data.area`.
pub(crate) fn draw_cells(
    svg: &mut SvgWriter,
    cells: &Cells,
    scale: &ResolvedAxis,
    data: &DataArea,
) {
    let area = &data.area;
    let columns = edge_positions(&cells.x_edges, |edge| {
        data.x_position(edge).map(|x| x.clamp(area.x, area.right()))
    });
    let rows = edge_positions(&cells.y_edges, |edge| {
        data.y_position(edge).map(|y| y.clamp(area.y, area.bottom()))
    });
    let (mut coarse, mut exact) = (RunsByLook::default(), RunsByLook::default());
    for (values, edges) in cells.rows.iter().zip(rows.windows(2)) {
        let [Some(bottom), Some(top)] = *edges else { continue };
        let levels: Vec<Option<usize>> =
            values.iter().map(|&value| level_of(value, scale)).collect();
        let blurred: Vec<Option<usize>> =
            levels.chunks(COARSE_CELLS).flat_map(|chunk| vec![mean(chunk); chunk.len()]).collect();
        for (left, right, level) in runs(&blurred, &columns) {
            let (right, top) = ((right + OVERLAP).min(area.right()), (top - OVERLAP).max(area.y));
            coarse.add(level, &Rect { x: left, y: top, width: right - left, height: bottom - top });
        }
        for (left, right, level) in runs(&levels, &columns) {
            exact.add(level, &Rect { x: left, y: top, width: right - left, height: bottom - top });
        }
    }
    svg.crisp(|svg| {
        coarse.draw(svg);
        exact.draw(svg);
    });
}

fn edge_positions(edges: &[f64], position: impl Fn(f64) -> Option<f64>) -> Vec<Option<f64>> {
    edges.iter().map(|&edge| position(edge).map(half_unit)).collect()
}

/// The mean of the levels that are there.
fn mean(levels: &[Option<usize>]) -> Option<usize> {
    let known = || levels.iter().flatten();
    known().sum::<usize>().checked_div(known().count())
}

/// Left end, right end and level of each run of cells with the same level. `edges` are the borders
/// of the cells, so one more than there are levels.
fn runs(levels: &[Option<usize>], edges: &[Option<f64>]) -> Vec<(f64, f64, Option<usize>)> {
    let mut start = 0;
    levels
        .chunk_by(|one, next| one == next)
        .filter_map(|run| {
            let from = start;
            start += run.len();
            // On a logarithmic axis the first edges may have no place.
            let left = edges.get(from..start)?.iter().copied().flatten().next()?;
            let right = edges.get(start).copied().flatten()?;
            (right > left).then_some((left, right, run[0]))
        })
        .collect()
}

/// Runs of cells that look alike: of one level and one height (in half units).
#[derive(Default)]
struct RunsByLook(BTreeMap<(Option<usize>, i64), RunPath>);

impl RunsByLook {
    fn add(&mut self, level: Option<usize>, place: &Rect) {
        if place.height > 0.0 {
            let path = self.0.entry((level, (2.0 * place.height).round() as i64)).or_default();
            path.add(Point { x: place.x, y: place.y + place.height / 2.0 }, place.width);
        }
    }

    fn draw(&self, svg: &mut SvgWriter) {
        for ((level, height), path) in &self.0 {
            let color = level.map_or_else(|| theme::MISSING.to_owned(), color);
            svg.stroke_runs(path, &color, *height as f64 / 2.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;

    fn drawn(rows: &[&[f64]]) -> String {
        let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let edges = |count: usize| (0..=count).map(|edge| edge as f64).collect::<Vec<f64>>();
        let resolved = |high: usize| Axis::linear("").range(0.0, high as f64).resolve(None, 5);
        let (x, y, scale) = (resolved(columns), resolved(rows.len()), resolved(1));
        let cells = Cells {
            x_edges: edges(columns),
            y_edges: edges(rows.len()),
            rows: rows.iter().map(|row| row.to_vec()).collect(),
        };
        let area = Rect { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };
        let mut svg = SvgWriter::new(100.0, 100.0, "", "");
        draw_cells(&mut svg, &cells, &scale, &DataArea { x: &x, y: &y, area });
        svg.finish()
    }

    #[test]
    fn neighbours_of_one_colour_are_one_shape() {
        let svg = drawn(&[&[0.0, 0.0, 1.0, 1.0], &[1.0, 1.0, 0.0, 0.0]]);
        let exact = svg.lines().filter(|line| line.contains(r#"stroke-width="50""#));
        let paths: Vec<&str> = exact.collect();
        assert!(paths.iter().any(|path| path.contains(r#"d="M0,75h50m0,-50h50""#)), "{svg}");
        assert!(paths.iter().any(|path| path.contains(r#"d="M50,75h50m-100,-50h50""#)), "{svg}");
    }

    #[test]
    fn cells_without_a_value_are_grey() {
        let svg = drawn(&[&[0.0, f64::NAN], &[f64::INFINITY, 1.0]]);
        assert!(svg.contains(theme::MISSING), "{svg}");
    }

    #[test]
    fn the_coarse_copy_stays_inside() {
        let svg = drawn(&[&[0.5; 20], &[0.25; 20]]);
        assert!(svg.contains(r#"d="M0,74.5h100" fill="none""#), "{svg}");
        assert!(svg.contains(r#"stroke-width="51""#), "{svg}");
        assert!(!svg.contains("h101"), "{svg}");
    }

    #[test]
    fn edges_without_a_place_leave_their_cells_out() {
        let levels = [Some(1), Some(1), Some(2), None];
        let edges = [None, Some(1.0), Some(2.0), Some(3.0), None];
        assert_eq!(runs(&levels, &edges), [(1.0, 2.0, Some(1)), (2.0, 3.0, Some(2))]);
        assert!(runs(&levels, &[]).is_empty());
    }
}
