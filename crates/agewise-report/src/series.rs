//! A named series of points and the way it is drawn.

/// How the points of a series are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesStyle {
    /// Straight lines from point to point.
    Line,
    /// Straight lines with a marker at the points.
    LineWithMarkers,
    /// A marker at each point, no lines.
    Markers,
    /// An upright line from the axis to each point, with a marker at its end. Stems of several
    /// series in one panel stand slightly side by side so that none hides another.
    Stems,
    /// Each value holds until the next point, then jumps.
    Steps,
    /// Upright bars from the axis to each point, one unit of x wide: a histogram. Bars of several
    /// series in one panel stand side by side. Where there is no room for single bars, their
    /// outline is drawn instead.
    Bars,
}

impl SeriesStyle {
    /// Whether the points are joined by lines.
    pub(crate) fn has_line(self) -> bool {
        matches!(self, Self::Line | Self::LineWithMarkers | Self::Steps)
    }

    /// Whether the points carry markers.
    pub(crate) fn has_markers(self) -> bool {
        matches!(self, Self::LineWithMarkers | Self::Markers | Self::Stems)
    }

    /// Whether the height above zero is what is read, so that zero has to be in view.
    pub(crate) fn stands_on_zero(self) -> bool {
        matches!(self, Self::Stems | Self::Bars)
    }
}

/// A named series of points.
///
/// Points are joined in the order given. A point that cannot be shown (a coordinate that is not
/// finite, or not above zero on a logarithmic axis) is left out and breaks the line. Long series
/// are thinned to what can be seen; extremes are kept.
#[derive(Clone, Debug)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Places along x with the lower and upper bound there.
    pub(crate) band: Vec<(f64, f64, f64)>,
    pub(crate) style: SeriesStyle,
    pub(crate) slot: Option<usize>,
}

impl Series {
    /// A series drawn in the given style. Series with the same name, in any panel of a figure,
    /// look alike and share one entry in the legend; an empty name has no entry.
    pub fn new(
        name: impl Into<String>,
        style: SeriesStyle,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
            band: Vec::new(),
            style,
            slot: None,
        }
    }

    /// Adds a translucent band from a lower to an upper bound at each x, for example a confidence
    /// interval; it lies behind all lines of the panel. The items are `(x, low, high)`; the order
    /// of the bounds does not matter. An item that is not finite breaks the band; a lower bound
    /// at or below zero reaches down to the end of a logarithmic axis.
    #[must_use]
    pub fn band(mut self, bounds: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        self.band = bounds.into_iter().collect();
        self
    }

    /// Fixes which colour, dashes and marker the series gets, so that it looks the same in
    /// several figures. Without it, names get the free numbers in order of appearance.
    #[must_use]
    pub fn slot(mut self, slot: usize) -> Self {
        self.slot = Some(slot);
        self
    }
}
