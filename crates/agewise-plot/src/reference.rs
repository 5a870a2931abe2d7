//! Reference lines across a panel, and their labels.

use crate::geometry::{Point, Rect};
use crate::series::DataArea;
use crate::svg::{Anchor, Stroke, SvgWriter};
use crate::theme;

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

impl ReferenceLine {
    /// What the script of a page asks where the axis changes: along which axis the line lies.
    fn attributes(&self) -> [(&'static str, &'static str); 1] {
        match self.direction {
            Direction::Horizontal => [("class", "level")],
            Direction::Vertical => [("class", "upright")],
        }
    }
}

const STROKE: Stroke = Stroke { color: theme::REFERENCE, width: 1.2, dash: "4 3" };
/// Distance between a line and its label.
const GAP: f64 = 4.0;

/// Draws the lines that are in view; they lie behind the data.
pub(crate) fn draw_reference_lines(
    svg: &mut SvgWriter,
    lines: &[ReferenceLine],
    data: &DataArea,
    plot: &Rect,
) {
    for line in lines {
        let Some(at) = position(line, data) else { continue };
        let (from, to) = match line.direction {
            Direction::Horizontal => (Point { x: plot.x, y: at }, Point { x: plot.right(), y: at }),
            Direction::Vertical => (Point { x: at, y: plot.y }, Point { x: at, y: plot.bottom() }),
        };
        svg.group(&line.attributes(), |svg| svg.line(from, to, &STROKE));
    }
}

/// Where a line crosses its axis, if that is in view.
fn position(line: &ReferenceLine, data: &DataArea) -> Option<f64> {
    let area = &data.area;
    match line.direction {
        Direction::Horizontal => {
            data.y_position(line.value).filter(|&y| area.contains(Point { x: area.x, y }))
        }
        Direction::Vertical => {
            data.x_position(line.value).filter(|&x| area.contains(Point { x, y: area.y }))
        }
    }
}

/// Names the lines that are in view, on top of the data, each beside its line and clear of the
/// other lines and names.
pub(crate) fn draw_reference_labels(
    svg: &mut SvgWriter,
    lines: &[ReferenceLine],
    data: &DataArea,
    plot: &Rect,
) {
    let style = &theme::REFERENCE_LABEL;
    // A name across another line would look like the name of that one.
    let line_place = |line: &ReferenceLine| {
        position(line, data).map(|at| match line.direction {
            Direction::Horizontal => Rect { y: at, height: 0.0, ..*plot },
            Direction::Vertical => Rect { x: at, width: 0.0, ..*plot },
        })
    };
    let mut taken: Vec<Rect> = lines.iter().filter_map(line_place).collect();
    for line in lines.iter().filter(|line| !line.label.trim().is_empty()) {
        let Some(at) = position(line, data) else { continue };
        let label = style.shorten(&line.label, plot.width / 2.0 - 2.0 * GAP);
        let places = label_places(line.direction, at, style.width(&label), plot);
        let is_inside = |place: &&Rect| {
            place.x >= plot.x
                && place.right() <= plot.right()
                && place.y >= plot.y
                && place.bottom() <= plot.bottom()
        };
        let is_free = |place: &&Rect| !taken.iter().any(|other| other.overlaps(place));
        let place =
            places.iter().filter(is_inside).find(is_free).or_else(|| places.iter().find(is_inside));
        if let Some(place) = place {
            let baseline = Point { x: place.x, y: place.bottom() - 0.25 * style.size };
            svg.group(&line.attributes(), |svg| {
                svg.halo_text(&label, baseline, Anchor::Start, style);
            });
            taken.push(*place);
        }
    }
}

/// Boxes where a label may stand, best first: a horizontal line has its name above or below its
/// right or left end, a vertical one right or left of it, as high as possible.
fn label_places(direction: Direction, at: f64, width: f64, plot: &Rect) -> Vec<Rect> {
    let height = theme::REFERENCE_LABEL.line_height();
    let place = |x: f64, y: f64| Rect { x, y, width, height };
    match direction {
        Direction::Horizontal => {
            let ends = [plot.right() - width - 1.0, plot.x + GAP];
            let heights = [at - height, at + 1.0];
            ends.iter().flat_map(|&x| heights.map(|y| place(x, y))).collect()
        }
        Direction::Vertical => {
            let rows = (plot.height / height) as usize;
            let sides = [at + GAP, at - GAP - width];
            (0..rows)
                .map(|row| plot.y + row as f64 * height)
                .flat_map(|y| sides.map(|x| place(x, y)))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;

    const PLOT: Rect = Rect { x: 0.0, y: 0.0, width: 300.0, height: 200.0 };

    fn drawn(lines: &[ReferenceLine]) -> String {
        let x = Axis::linear("x").range(0.0, 1.0).resolve(None, 5);
        let y = Axis::linear("y").range(0.0, 1.0).resolve(None, 5);
        let data = DataArea { x: &x, y: &y, area: PLOT };
        let mut svg = SvgWriter::new(300.0, 200.0, "", "");
        draw_reference_lines(&mut svg, lines, &data, &PLOT);
        draw_reference_labels(&mut svg, lines, &data, &PLOT);
        svg.finish()
    }

    #[test]
    fn lines_out_of_view_are_not_drawn() {
        let lines = [
            ReferenceLine::horizontal(2.0, "above"),
            ReferenceLine::vertical(-1.0, "left"),
            ReferenceLine::vertical(f64::NAN, "nowhere"),
        ];
        let svg = drawn(&lines);
        assert!(!svg.contains("<line") && !svg.contains("<text"));
    }

    #[test]
    fn a_label_at_the_top_stands_below_its_line() {
        let svg = drawn(&[ReferenceLine::horizontal(1.0, "top")]);
        assert!(svg.contains(">top</text>"));
        assert!(!svg.contains(r#"y="-"#));
    }

    #[test]
    fn labels_of_close_lines_stand_on_their_outer_sides() {
        let svg =
            drawn(&[ReferenceLine::vertical(0.5, "one"), ReferenceLine::vertical(0.52, "two")]);
        let start = |name: &str| {
            let line = svg.lines().find(|line| line.contains(name)).unwrap();
            line.split('"').nth(1).unwrap().parse::<f64>().unwrap()
        };
        assert!(start(">one<") < 150.0 && start(">two<") > 156.0, "{svg}");
    }

    #[test]
    fn labels_of_lines_at_the_same_place_do_not_overlap() {
        let lines: Vec<ReferenceLine> = (0..4)
            .map(|index| ReferenceLine::vertical(0.5, format!("a long label {index}")))
            .collect();
        let svg = drawn(&lines);
        let places: std::collections::BTreeSet<&str> = svg
            .lines()
            .filter(|line| line.starts_with("<text"))
            .filter_map(|line| line.split(" font-size").next())
            .collect();
        assert_eq!(places.len(), 4);
    }
}
