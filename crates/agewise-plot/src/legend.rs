//! The legend shared by all panels: which style each series gets, and how the entries are set.

use std::collections::{BTreeMap, BTreeSet};

use crate::chart::Chart;
use crate::geometry::{Point, Rect};
use crate::series::{Series, SeriesStyle};
use crate::svg::{Anchor, PathData, Stroke, SvgWriter};
use crate::theme;
use crate::theme::SlotStyle;

/// Where the legend stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LegendPosition {
    /// Between the heading and the panels.
    #[default]
    Top,
    /// Between the panels and the caption.
    Bottom,
}

/// The style of each name of a figure, be it of series or of the rows of interval plots.
#[derive(Debug)]
pub(crate) struct SlotStyles<'a>(BTreeMap<&'a str, SlotStyle>);

impl<'a> SlotStyles<'a> {
    /// Gives each name its slot: the one asked for, or else the lowest that is still free.
    pub(crate) fn assign(panels: &'a [Chart]) -> Self {
        let mut slots: BTreeMap<&str, usize> = BTreeMap::new();
        let names: Vec<(&str, Option<usize>)> = panels.iter().flat_map(Chart::names).collect();
        for &(name, slot) in &names {
            if let Some(slot) = slot {
                slots.entry(name).or_insert(slot);
            }
        }
        let reserved: BTreeSet<usize> = slots.values().copied().collect();
        let mut free = (0_usize..).filter(|slot| !reserved.contains(slot));
        for (name, _) in names {
            if !slots.contains_key(name) {
                slots.extend(free.next().map(|slot| (name, slot)));
            }
        }
        Self(slots.into_iter().map(|(name, slot)| (name, SlotStyle::of_slot(slot))).collect())
    }

    /// The style of a name; names that were not in the panels get the first one.
    pub(crate) fn of(&self, name: &str) -> SlotStyle {
        self.0.get(name).copied().unwrap_or_else(|| SlotStyle::of_slot(0))
    }
}

/// One series name, with all series that have it.
#[derive(Debug)]
struct Entry<'a> {
    name: &'a str,
    /// The name as far as there is room for it.
    shown_name: String,
    slot_style: SlotStyle,
    series: Vec<&'a Series>,
}

/// The legend of a figure, laid out for its width.
#[derive(Debug)]
pub(crate) struct Legend<'a> {
    entries: Vec<Entry<'a>>,
    columns: usize,
    /// Left end of each entry in a full-width row, or of each column when there are more rows.
    offsets: Vec<f64>,
}

const SAMPLE_WIDTH: f64 = 34.0;
const SAMPLE_GAP: f64 = 8.0;
const BAND_SAMPLE_HEIGHT: f64 = 12.0;
const BAR_SAMPLE_WIDTH: f64 = 22.0;
const BAR_SAMPLE_HEIGHT: f64 = 12.0;
const ENTRY_GAP: f64 = 26.0;
const ROW_HEIGHT: f64 = 22.0;

impl<'a> Legend<'a> {
    /// Merges the series of all panels by name and sets the entries into rows of `width`.
    pub(crate) fn lay_out(panels: &'a [Chart], slot_styles: &SlotStyles, width: f64) -> Self {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        for series in panels.iter().flat_map(Chart::series) {
            if series.name.trim().is_empty() {
                continue;
            }
            match entries.iter_mut().find(|entry| entry.name == series.name) {
                Some(entry) => entry.series.push(series),
                None => entries.push(Entry {
                    name: &series.name,
                    shown_name: theme::LEGEND
                        .shorten(&series.name, width - SAMPLE_WIDTH - SAMPLE_GAP),
                    slot_style: slot_styles.of(&series.name),
                    series: vec![series],
                }),
            }
        }
        let widths: Vec<f64> = entries.iter().map(Entry::width).collect();
        let in_one_row = widths.iter().sum::<f64>() + ENTRY_GAP * widths.len() as f64 - ENTRY_GAP;
        let (columns, offsets) = if in_one_row <= width {
            (entries.len(), running_offsets(&widths))
        } else {
            in_columns(&widths, width)
        };
        Self { entries, columns: columns.max(1), offsets }
    }

    /// Height of the rows; zero without entries.
    pub(crate) fn height(&self) -> f64 {
        self.entries.len().div_ceil(self.columns) as f64 * ROW_HEIGHT
    }

    /// Draws the legend with its upper left corner at `origin`.
    pub(crate) fn draw(&self, svg: &mut SvgWriter, origin: Point) {
        for (index, entry) in self.entries.iter().enumerate() {
            let row = index / self.columns;
            let offset = self.offsets.get(index % self.columns).copied().unwrap_or_default();
            let middle = origin.y + (row as f64 + 0.5) * ROW_HEIGHT;
            svg.group(&[("data-entry", entry.name)], |svg| {
                entry.draw(svg, Point { x: origin.x + offset, y: middle });
            });
        }
    }
}

/// Left ends of entries set one after the other.
fn running_offsets(widths: &[f64]) -> Vec<f64> {
    widths
        .iter()
        .scan(0.0, |next, width| {
            let offset = *next;
            *next += width + ENTRY_GAP;
            Some(offset)
        })
        .collect()
}

/// Number and left ends of columns: as many as fit, with the last row about as full as the others.
fn in_columns(widths: &[f64], available: f64) -> (usize, Vec<f64>) {
    let column_widths = |columns: usize| -> Vec<f64> {
        (0..columns)
            .map(|column| widths.iter().skip(column).step_by(columns).fold(0.0, |a, &b| b.max(a)))
            .collect()
    };
    let most = (1..=widths.len())
        .rev()
        .find(|&columns| {
            let total: f64 = column_widths(columns).iter().sum();
            total + ENTRY_GAP * (columns - 1) as f64 <= available
        })
        .unwrap_or(1);
    let rows = widths.len().div_ceil(most);
    let balanced = widths.len().div_ceil(rows);
    // Fewer columns hold other entries, which may be wider together; then the full rows stay.
    let balanced_widths = column_widths(balanced);
    let total = balanced_widths.iter().sum::<f64>() + ENTRY_GAP * (balanced - 1) as f64;
    if total <= available {
        (balanced, running_offsets(&balanced_widths))
    } else {
        (most, running_offsets(&column_widths(most)))
    }
}

impl Entry<'_> {
    fn width(&self) -> f64 {
        SAMPLE_WIDTH + SAMPLE_GAP + theme::LEGEND.width(&self.shown_name)
    }

    fn has_line(&self) -> bool {
        self.series.iter().any(|series| series.style.has_line())
    }

    fn has_markers(&self) -> bool {
        self.series.iter().any(|series| series.style.has_markers())
    }

    fn has_bars(&self) -> bool {
        self.series.iter().any(|series| series.style == SeriesStyle::Bars)
    }

    fn has_band(&self) -> bool {
        self.series.iter().any(|series| !series.band.is_empty())
    }

    /// Draws sample and name; `at` is the left end, at half height.
    fn draw(&self, svg: &mut SvgWriter, at: Point) {
        let centered = |width: f64, height: f64| {
            let mut path = PathData::default();
            let (x, y) = (at.x + (SAMPLE_WIDTH - width) / 2.0, at.y - height / 2.0);
            path.rect(&Rect { x, y, width, height });
            path
        };
        if self.has_band() {
            svg.tint_path(&centered(SAMPLE_WIDTH, BAND_SAMPLE_HEIGHT), self.slot_style.color);
        }
        if self.has_line() {
            // Drawn from the middle outwards, the dashes are the same on both sides of the marker.
            let middle = Point { x: at.x + SAMPLE_WIDTH / 2.0, ..at };
            let mut sample = PathData::default();
            sample.polyline(&[middle, at]);
            sample.polyline(&[middle, Point { x: at.x + SAMPLE_WIDTH, ..at }]);
            let stroke = Stroke {
                color: self.slot_style.color,
                width: theme::LINE_WIDTH,
                dash: self.slot_style.dash,
            };
            svg.stroke_path(&sample, &stroke);
        }
        if self.has_bars() {
            let rim = Stroke { color: theme::BACKGROUND, width: 2.0, dash: "" };
            svg.fill_path(
                &centered(BAR_SAMPLE_WIDTH, BAR_SAMPLE_HEIGHT),
                self.slot_style.color,
                Some(&rim),
            );
        } else if self.has_markers() {
            let mut path = PathData::default();
            let center = Point { x: at.x + SAMPLE_WIDTH / 2.0, ..at };
            self.slot_style.marker.add_to(&mut path, center, theme::MARKER_RADIUS);
            let rim = Stroke { color: theme::BACKGROUND, width: 1.0, dash: "" };
            svg.fill_path(&path, self.slot_style.color, Some(&rim));
        }
        let text_start = Point {
            x: at.x + SAMPLE_WIDTH + SAMPLE_GAP,
            y: at.y + theme::LEGEND.half_capital_height(),
        };
        svg.text(&self.shown_name, text_start, Anchor::Start, &theme::LEGEND);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use crate::panel::Panel;

    fn panel(series: &[(&str, SeriesStyle, Option<usize>)]) -> Chart {
        let empty = Panel::new("t", Axis::linear("x"), Axis::linear("y"));
        let panel = series.iter().fold(empty, |panel, &(name, style, slot)| {
            let series = Series::new(name, style, [(0.0, 1.0)]);
            panel.series(match slot {
                Some(slot) => series.slot(slot),
                None => series,
            })
        });
        panel.into()
    }

    #[test]
    fn bands_and_bars_join_the_entry_of_their_name() {
        let band = Series::new("a", SeriesStyle::Line, [(0.0, 1.0)]).band([(0.0, 0.0, 1.0)]);
        let with_band = Panel::new("t", Axis::linear("x"), Axis::linear("y")).series(band);
        let panels = [panel(&[("a", SeriesStyle::Bars, None)]), with_band.into()];
        let legend = Legend::lay_out(&panels, &SlotStyles::assign(&panels), 500.0);
        assert_eq!(legend.entries.len(), 1);
        let entry = &legend.entries[0];
        assert!(entry.has_line() && entry.has_bars() && entry.has_band() && !entry.has_markers());
        let mut svg = SvgWriter::new(10.0, 10.0, "", "");
        legend.draw(&mut svg, Point { x: 0.0, y: 0.0 });
        assert_eq!(svg.finish().matches(">a<").count(), 1);
    }

    #[test]
    fn names_are_merged_across_panels() {
        let panels = [
            panel(&[("a", SeriesStyle::Line, None), ("b", SeriesStyle::Line, None)]),
            panel(&[("b", SeriesStyle::Stems, None), ("", SeriesStyle::Line, None)]),
        ];
        let legend = Legend::lay_out(&panels, &SlotStyles::assign(&panels), 500.0);
        assert_eq!(legend.entries.len(), 2);
        assert!(legend.entries[1].has_line() && legend.entries[1].has_markers());
        assert!(!legend.entries[0].has_markers());
        assert!((legend.height() - ROW_HEIGHT).abs() < 1e-9);
    }

    #[test]
    fn slots_asked_for_are_kept_and_the_others_avoid_them() {
        let panels = [
            panel(&[("a", SeriesStyle::Line, None), ("b", SeriesStyle::Line, Some(0))]),
            panel(&[("a", SeriesStyle::Line, None), ("c", SeriesStyle::Line, None)]),
        ];
        let slot_styles = SlotStyles::assign(&panels);
        assert_eq!(slot_styles.of("b"), SlotStyle::of_slot(0));
        assert_eq!(slot_styles.of("a"), SlotStyle::of_slot(1));
        assert_eq!(slot_styles.of("c"), SlotStyle::of_slot(2));
    }

    #[test]
    fn long_legends_wrap_without_overlap() {
        let names: Vec<String> =
            (0..10).map(|index| format!("a rather long series name {index}")).collect();
        let series: Vec<(&str, SeriesStyle, Option<usize>)> =
            names.iter().map(|name| (name.as_str(), SeriesStyle::Line, None)).collect();
        let panels = [panel(&series)];
        let legend = Legend::lay_out(&panels, &SlotStyles::assign(&panels), 700.0);
        assert!(legend.height() > ROW_HEIGHT);
        for (index, entry) in legend.entries.iter().enumerate() {
            let column = index % legend.columns;
            let end = legend.offsets[column] + entry.width();
            let limit = legend.offsets.get(column + 1).copied().unwrap_or(700.0 + ENTRY_GAP);
            assert!(end + ENTRY_GAP <= limit + 1e-6);
        }
    }

    #[test]
    fn a_name_wider_than_the_figure_is_cut() {
        let name = "endless ".repeat(80);
        let panels = [panel(&[(&name, SeriesStyle::Line, None)])];
        let legend = Legend::lay_out(&panels, &SlotStyles::assign(&panels), 300.0);
        assert!(legend.entries[0].width() <= 300.0);
    }

    #[test]
    fn no_series_need_no_room() {
        let legend = Legend::lay_out(&[], &SlotStyles::assign(&[]), 300.0);
        assert!(legend.height().abs() < 1e-9);
    }
}
