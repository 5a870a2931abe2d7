//! The kinds of charts a figure can hold, behind one face.

use crate::axes::resolve_y;
use crate::axis::{Axis, ResolvedAxis};
use crate::geometry::Rect;
use crate::heat_map::HeatMap;
use crate::heat_plot::draw_heat_map;
use crate::legend::Looks;
use crate::panel::{DataRange, Panel};
use crate::plot::draw_panel;
use crate::series::Series;
use crate::svg::SvgWriter;

/// One chart of a figure. [`Figure::panel`](crate::Figure::panel) makes it from what it is given.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Series over two axes.
    Panel(Panel),
    /// A matrix shown in colours.
    HeatMap(HeatMap),
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

impl Chart {
    /// The title; it may be empty.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Panel(panel) => &panel.title,
            Self::HeatMap(map) => &map.title,
        }
    }

    /// The x axis and the y axis as the caller gave them.
    pub(crate) fn axes(&self) -> (&Axis, &Axis) {
        match self {
            Self::Panel(panel) => (&panel.x, &panel.y),
            Self::HeatMap(map) => (&map.x, &map.y),
        }
    }

    /// The series that belong into the legend.
    pub(crate) fn series(&self) -> &[Series] {
        match self {
            Self::Panel(panel) => &panel.series,
            Self::HeatMap(_) => &[],
        }
    }

    /// What the x axis and the y axis have to show.
    pub(crate) fn data_ranges(&self) -> (DataRange, DataRange) {
        match self {
            Self::Panel(panel) => panel.data_ranges(),
            Self::HeatMap(map) => map.edge_ranges(),
        }
    }

    /// Range and ticks of the y axis for a plot of this height.
    pub(crate) fn resolve_y(&self, range: DataRange, plot_height: f64) -> ResolvedAxis {
        match self {
            Self::Panel(panel) => resolve_y(&panel.y, range, plot_height),
            // Half a cell's worth of nothing beside the cells would look like missing data.
            Self::HeatMap(map) => resolve_y(&map.y.pinned_to(range), range, plot_height),
        }
    }

    /// The chart in words, for readers who cannot see it.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Panel(panel) => panel.description(),
            Self::HeatMap(map) => map.description(),
        }
    }

    /// Draws everything of the chart but its title: the axes around `plot` and what is inside.
    pub(crate) fn draw(
        &self,
        svg: &mut SvgWriter,
        x_range: DataRange,
        y: &ResolvedAxis,
        plot: Rect,
        looks: &Looks,
    ) {
        match self {
            Self::Panel(panel) => draw_panel(svg, panel, x_range, y, plot, looks),
            Self::HeatMap(map) => draw_heat_map(svg, map, x_range, y, plot),
        }
    }
}
