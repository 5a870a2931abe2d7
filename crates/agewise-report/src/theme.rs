//! Colours, type sizes and spacing: the one place that decides how a figure looks.

use crate::text::{TextStyle, Weight};

/// Paper colour behind everything.
pub(crate) const BACKGROUND: &str = "#ffffff";
/// Colour of the most important text.
pub(crate) const INK: &str = "#1f2933";
/// Colour of supporting text.
pub(crate) const MUTED: &str = "#52606d";
/// Colour of the lines at labelled ticks.
pub(crate) const GRID: &str = "#e4e7eb";
/// Colour of the lines between the decades of a logarithmic axis.
pub(crate) const GRID_MINOR: &str = "#f1f3f5";
/// Colour of the axis lines.
pub(crate) const AXIS: &str = "#9aa5b1";
/// Colour of reference lines.
pub(crate) const REFERENCE: &str = "#7b8794";

/// Colour of heat map cells without a value: lighter than any colour of the scale.
pub(crate) const MISSING: &str = "#eceff2";
/// Colour of the stripes behind the rows of an interval plot: lighter than the grid on them.
pub(crate) const STRIPE: &str = "#f5f7f9";
/// How much of its colour a band shows: enough to survive a print, little enough to see the grid
/// and other bands through it.
pub(crate) const TINT_OPACITY: f64 = 0.2;
/// How much of its colour the outline of a band shows.
pub(crate) const TINT_OUTLINE_OPACITY: f64 = 0.45;

/// Fonts a viewer may use; the measured one comes last because it is also the widest of them, so
/// text laid out for it fits with any of the others.
pub(crate) const FONT_STACK: &str =
    "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/// Figure title.
pub(crate) const TITLE: TextStyle = TextStyle { size: 20.0, weight: Weight::Bold, fill: INK };
/// Line under the figure title.
pub(crate) const SUBTITLE: TextStyle =
    TextStyle { size: 13.5, weight: Weight::Regular, fill: MUTED };
/// Title of one panel.
pub(crate) const PANEL_TITLE: TextStyle = TextStyle { size: 14.0, weight: Weight::Bold, fill: INK };
/// Names of the axes.
pub(crate) const AXIS_LABEL: TextStyle =
    TextStyle { size: 12.5, weight: Weight::Regular, fill: INK };
/// Numbers along the axes.
pub(crate) const TICK_LABEL: TextStyle =
    TextStyle { size: 11.5, weight: Weight::Regular, fill: MUTED };
/// Names in the legend.
pub(crate) const LEGEND: TextStyle = TextStyle { size: 13.0, weight: Weight::Regular, fill: INK };
/// Names of the rows of an interval plot.
pub(crate) const ROW_NAME: TextStyle = TextStyle { size: 12.5, weight: Weight::Regular, fill: INK };
/// Remarks at the right end of the rows of an interval plot.
pub(crate) const ROW_NOTE: TextStyle =
    TextStyle { size: 11.5, weight: Weight::Regular, fill: MUTED };
/// Text under the panels.
pub(crate) const CAPTION: TextStyle =
    TextStyle { size: 12.0, weight: Weight::Regular, fill: MUTED };
/// Names of reference lines.
pub(crate) const REFERENCE_LABEL: TextStyle =
    TextStyle { size: 11.0, weight: Weight::Regular, fill: MUTED };
/// Notice in a panel that has nothing to draw.
pub(crate) const NOTICE: TextStyle = TextStyle { size: 13.0, weight: Weight::Regular, fill: MUTED };

/// White space around the whole figure.
pub(crate) const MARGIN: f64 = 28.0;
/// White space between the blocks of a figure (heading, legend, panels, caption).
pub(crate) const BLOCK_GAP: f64 = 18.0;
/// White space between neighbouring panels.
pub(crate) const PANEL_GAP: f64 = 36.0;
/// Width of data lines.
pub(crate) const LINE_WIDTH: f64 = 2.0;
/// Distance from the centre of a marker to its rim.
pub(crate) const MARKER_RADIUS: f64 = 4.2;
