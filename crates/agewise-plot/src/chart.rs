//! One chart of a figure, of whatever kind: what the layout asks of it, and how it is drawn.

use crate::axis::{Axis, ResolvedAxis, left_margin, resolve_y};
use crate::geometry::Rect;
use crate::heat_map::{HeatMap, draw_heat_map};
use crate::intervals::{IntervalPlot, draw_interval_plot, names_margin, natural_height};
use crate::legend::SlotStyles;
use crate::panel::{DataRange, Panel, draw_panel};
use crate::series::Series;
use crate::svg::SvgWriter;

/// One chart of a figure. [`Figure::panel`](crate::Figure::panel) makes it from what it is given.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Series over two axes.
    Panel(Panel),
    /// A matrix shown in colours.
    HeatMap(HeatMap),
    /// Named rows with values and intervals.
    IntervalPlot(IntervalPlot),
}

impl From<Panel> for Chart {
    fn from(panel: Panel) -> Self {
        Self::Panel(panel)
    }
}

impl From<HeatMap> for Chart {
    fn from(map: HeatMap) -> Self {
        Self::HeatMap(map)
    }
}

impl From<IntervalPlot> for Chart {
    fn from(plot: IntervalPlot) -> Self {
        Self::IntervalPlot(plot)
    }
}

impl Chart {
    /// The title; it may be empty.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Panel(panel) => &panel.title,
            Self::HeatMap(map) => &map.title,
            Self::IntervalPlot(plot) => &plot.title,
        }
    }

    /// The x axis as the caller gave it.
    pub(crate) fn x_axis(&self) -> &Axis {
        match self {
            Self::Panel(panel) => &panel.x,
            Self::HeatMap(map) => &map.x,
            Self::IntervalPlot(plot) => &plot.value,
        }
    }

    /// Room needed left of the plot; `y` is what became of the y axis.
    pub(crate) fn left_margin(&self, y: &ResolvedAxis, chart_width: f64) -> f64 {
        match self {
            Self::Panel(panel) => left_margin(&panel.y, y),
            Self::HeatMap(map) => left_margin(&map.y, y),
            Self::IntervalPlot(plot) => names_margin(plot, chart_width),
        }
    }

    /// The height of the plot, for charts whose content decides about it.
    pub(crate) fn natural_plot_height(&self) -> Option<f64> {
        match self {
            Self::Panel(_) | Self::HeatMap(_) => None,
            Self::IntervalPlot(plot) => Some(natural_height(plot)),
        }
    }

    /// The names that have a style, each with the slot asked for.
    pub(crate) fn names(&self) -> Vec<(&str, Option<usize>)> {
        match self {
            Self::Panel(panel) => {
                panel.series.iter().map(|series| (series.name.as_str(), series.slot)).collect()
            }
            Self::HeatMap(_) => Vec::new(),
            Self::IntervalPlot(plot) => {
                plot.rows.iter().map(|row| (row.series(), row.slot)).collect()
            }
        }
    }

    /// The series that belong into the legend.
    pub(crate) fn series(&self) -> &[Series] {
        match self {
            Self::Panel(panel) => &panel.series,
            // The rows of an interval plot have their names beside them.
            Self::HeatMap(_) | Self::IntervalPlot(_) => &[],
        }
    }

    /// What the x axis and the y axis have to show.
    pub(crate) fn data_ranges(&self) -> (DataRange, DataRange) {
        match self {
            Self::Panel(panel) => panel.data_ranges(),
            Self::HeatMap(map) => map.edge_ranges(),
            Self::IntervalPlot(plot) => (plot.value_range(), None),
        }
    }

    /// Range and ticks of the y axis for a plot of this height.
    pub(crate) fn resolve_y(&self, range: DataRange, plot_height: f64) -> ResolvedAxis {
        match self {
            Self::Panel(panel) => resolve_y(&panel.y, range, plot_height),
            // Half a cell's worth of nothing beside the cells would look like missing data.
            Self::HeatMap(map) => resolve_y(&map.y.pinned_to(range), range, plot_height),
            // Rows have names, not values: an axis without ticks.
            Self::IntervalPlot(_) => resolve_y(&Axis::linear(""), None, plot_height),
        }
    }

    /// The chart in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Panel(panel) => panel.description(),
            Self::HeatMap(map) => map.description(),
            Self::IntervalPlot(plot) => plot.description(),
        }
    }

    /// Draws everything of the chart but its title: the axes around `plot` and what is inside.
    /// Left of the plot there is room of `left_margin`.
    pub(crate) fn draw(
        &self,
        svg: &mut SvgWriter,
        x_range: DataRange,
        y: &ResolvedAxis,
        plot: Rect,
        left_margin: f64,
        slot_styles: &SlotStyles,
    ) {
        match self {
            Self::Panel(panel) => draw_panel(svg, panel, x_range, y, plot, slot_styles),
            Self::HeatMap(map) => draw_heat_map(svg, map, x_range, y, plot),
            Self::IntervalPlot(intervals) => {
                draw_interval_plot(svg, intervals, x_range, y, plot, left_margin, slot_styles);
            }
        }
    }
}
