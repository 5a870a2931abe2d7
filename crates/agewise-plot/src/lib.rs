//! Figures and reports of agewise: a small chart grammar, drawn as SVG, and as PNG from the same
//! SVG, and pages that hold figures, tables and text in one HTML file.
//!
//! A [`Figure`] holds [`Panel`]s, [`HeatMap`]s and [`IntervalPlot`]s; a panel holds two [`Axis`]
//! and any number of [`Series`], which may have a band of uncertainty. Series of the same name
//! look alike in all panels and share one entry in the legend. Nothing in the data can make
//! drawing fail: what cannot be shown is left out, and a panel without anything to show says so.
//! A [`Page`] is a self-contained report.
//!
//! ```
//! use agewise_plot::{Axis, Figure, Panel, Series, SeriesStyle};
//!
//! let chance = Panel::new(
//!     "Chance to take part, by age",
//!     Axis::linear("age (rounds)").integer_ticks(),
//!     Axis::linear("probability").range(0.0, 1.0),
//! )
//! .series(Series::new("random", SeriesStyle::Line, (0..=10).map(|age| (f64::from(age), 0.15))));
//! let figure = Figure::new("Who takes part").panel(chance).caption("15 of 100 clients a round.");
//! assert!(figure.to_svg().starts_with("<svg"));
//! ```
//!
//! How it works: the layout measures all text with the embedded font, gives every block its
//! room, and writes SVG elements from back to front. The SVG has no ids, so any number of figures
//! can stand in one page. Colours, dashes, markers, sizes and spacing are in one module, `theme`,
//! and the looks of pages in `page.css`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tolerances"))]
#![forbid(unsafe_code)]

mod axis;
mod bars;
mod chart;
mod figure;
mod geometry;
mod heat_cells;
mod heat_map;
mod interval_marks;
mod intervals;
mod legend;
mod page;
mod panel;
mod panel_grid;
mod png;
mod reference;
mod series;
mod svg;
mod text;
mod theme;
mod ticks;

pub use axis::Axis;
pub use chart::Chart;
pub use figure::Figure;
pub use heat_map::HeatMap;
pub use intervals::{IntervalPlot, IntervalRow};
pub use legend::LegendPosition;
pub use page::{
    AxisUnit, Cell, Column, Comparison, KeyFigure, Link, LivePage, LiveState, Matrix, MatrixCell,
    Page, Table,
};
pub use panel::Panel;
pub use png::DrawError;
pub use reference::ReferenceLine;
pub use series::{Series, SeriesStyle};
