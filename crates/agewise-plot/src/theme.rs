//! Colours, type sizes and spacing: the one place that decides how a figure looks.
//!
//! The series of a figure differ in colour, dashes and markers. The colours are those of Okabe and Ito, which people with any common form of colour blindness
//! can tell apart, without the yellow and with the pale ones darkened to be readable on white.
//! Dashes and markers carry the same information for prints in grey.
//!
//! The colours of a heat map are an ordered scale from dark to light. The stops were chosen in the CIE L*C*h space: lightness L* rises in equal steps from 14 to
//! 86.5, so that equal differences of values look equally large and a print in grey keeps the
//! order; the hue turns from blue over teal and green to yellow. That path avoids red, so the
//! colours that people with a red-green weakness mix up do not meet on it; they read the scale by
//! its lightness and by the turn from blue to yellow. The chroma is what sRGB allows at that
//! lightness, up to a limit that keeps the middle calm. The lightest colour stays darker than the
//! grey of missing values.

use crate::geometry::Point;
use crate::svg::PathData;
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
pub(crate) const TINT_OPACITY: f64 = 0.15;
/// How much of its colour the outline of a band shows.
pub(crate) const TINT_OUTLINE_OPACITY: f64 = 0.35;

/// What a page shows in the dark instead of each colour of paper. The colours of heat maps stay: a scale cannot be turned
/// around without changing what it says.
pub(crate) const DARK: [(&str, &str); 16] = [
    (BACKGROUND, "#12171d"),
    (INK, "#e6ebf0"),
    (MUTED, "#b4c0cc"),
    (GRID, "#2c3640"),
    (GRID_MINOR, "#1f272f"),
    (AXIS, "#76828e"),
    (REFERENCE, "#93a0ad"),
    (MISSING, "#3a434d"),
    (STRIPE, "#1a2129"),
    (COLORS[0], "#4fa3e0"),
    (COLORS[1], "#f28a4b"),
    (COLORS[2], "#3dc597"),
    (COLORS[3], "#e391c3"),
    (COLORS[4], "#dba93b"),
    (COLORS[5], "#a5d8f7"),
    (COLORS[6], "#b8c4d0"),
];

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

/// Colour, dashes and marker of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlotStyle {
    pub(crate) color: &'static str,
    pub(crate) dash: &'static str,
    pub(crate) marker: Marker,
}

const COLORS: [&str; 7] =
    ["#0072b2", "#d55e00", "#008f68", "#b5548e", "#b07a00", "#3696cf", "#3e4c59"];

// The numbers of colours, dashes and markers share no factor, so that a combination returns only
// after 280 series, and colour and dashes alone only after 35.
const DASHES: [&str; 5] = ["", "7 3.5", "2 3", "10 3 2 3", "14 4"];

const MARKERS: [Marker; 8] = [
    Marker::Circle,
    Marker::Square,
    Marker::TriangleUp,
    Marker::Diamond,
    Marker::TriangleDown,
    Marker::Plus,
    Marker::Cross,
    Marker::Pentagon,
];

impl SlotStyle {
    /// The style with this number; numbers beyond the last one start over.
    pub(crate) fn of_slot(slot: usize) -> Self {
        Self {
            color: COLORS[slot % COLORS.len()],
            dash: DASHES[slot % DASHES.len()],
            marker: MARKERS[slot % MARKERS.len()],
        }
    }
}

/// Shape of the sign at a data point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    TriangleUp,
    Diamond,
    TriangleDown,
    Plus,
    Cross,
    Pentagon,
}

/// Half the thickness of the arms of a plus or cross, for a marker of radius one.
const ARM: f64 = 0.36;

const SQUARE: [(f64, f64); 4] = [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)];
const TRIANGLE: [(f64, f64); 3] = [(0.0, -1.2), (1.1, 0.75), (-1.1, 0.75)];
const DIAMOND: [(f64, f64); 4] = [(0.0, -1.3), (1.15, 0.0), (0.0, 1.3), (-1.15, 0.0)];
const PLUS: [(f64, f64); 12] = [
    (-ARM, -1.2),
    (ARM, -1.2),
    (ARM, -ARM),
    (1.2, -ARM),
    (1.2, ARM),
    (ARM, ARM),
    (ARM, 1.2),
    (-ARM, 1.2),
    (-ARM, ARM),
    (-1.2, ARM),
    (-1.2, -ARM),
    (-ARM, -ARM),
];
const PENTAGON: [(f64, f64); 5] =
    [(0.0, -1.15), (1.094, -0.355), (0.676, 0.93), (-0.676, 0.93), (-1.094, -0.355)];

impl Marker {
    /// Adds this marker to a path. The shapes differ in extent so that they look equally large.
    pub(crate) fn add_to(self, path: &mut PathData, center: Point, radius: f64) {
        let scaled = |&(dx, dy): &(f64, f64)| (dx * radius, dy * radius);
        match self {
            Self::Circle => path.circle(center, radius),
            Self::Square => path.polygon(center, SQUARE.iter().map(scaled)),
            Self::TriangleUp => path.polygon(center, TRIANGLE.iter().map(scaled)),
            Self::Diamond => path.polygon(center, DIAMOND.iter().map(scaled)),
            Self::TriangleDown => {
                let upside_down = TRIANGLE.map(|(dx, dy)| (dx, -dy));
                path.polygon(center, upside_down.iter().map(scaled));
            }
            Self::Plus => path.polygon(center, PLUS.iter().map(scaled)),
            Self::Cross => {
                let half_turn = std::f64::consts::FRAC_1_SQRT_2;
                let turned = PLUS.map(|(dx, dy)| ((dx - dy) * half_turn, (dx + dy) * half_turn));
                path.polygon(center, turned.iter().map(scaled));
            }
            Self::Pentagon => path.polygon(center, PENTAGON.iter().map(scaled)),
        }
    }
}

/// How many colours there are: more could hardly be told apart, and with fewer of them more
/// neighbouring cells share one and are written as one shape.
pub(crate) const LEVELS: usize = 64;

const STOPS: [[f64; 3]; 6] = [
    [1.0, 32.0, 88.0],
    [2.0, 70.0, 118.0],
    [5.0, 110.0, 142.0],
    [10.0, 154.0, 153.0],
    [121.0, 194.0, 116.0],
    [227.0, 222.0, 61.0],
];

/// The level of a value at this fraction of the scale; values beyond its ends get the end colour.
pub(crate) fn level(fraction: f64) -> usize {
    ((fraction * LEVELS as f64) as usize).min(LEVELS - 1)
}

/// The colour of a level.
pub(crate) fn color(level: usize) -> String {
    let place = level as f64 / (LEVELS - 1) as f64 * (STOPS.len() - 1) as f64;
    let before = (place as usize).min(STOPS.len() - 2);
    let (from, to, share) = (STOPS[before], STOPS[before + 1], place - before as f64);
    let channel = |index: usize| (from[index] + (to[index] - from[index]) * share).round() as u8;
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Contrast against white as defined by the Web Content Accessibility Guidelines.
    fn contrast_on_white(color: &str) -> f64 {
        let channel = |start: usize| {
            let value = f64::from(u8::from_str_radix(&color[start..start + 2], 16).unwrap());
            let value = value / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let luminance = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
        1.05 / (luminance + 0.05)
    }

    #[test]
    fn every_colour_is_readable_on_white() {
        for color in COLORS {
            assert!(contrast_on_white(color) >= 3.0, "{color}: {}", contrast_on_white(color));
        }
    }

    #[test]
    fn series_differ_without_colour() {
        let grey: BTreeSet<String> = (0..40)
            .map(SlotStyle::of_slot)
            .map(|style| format!("{} {:?}", style.dash, style.marker))
            .collect();
        assert_eq!(grey.len(), 40);
        let lines: BTreeSet<(&str, &str)> =
            (0..35).map(SlotStyle::of_slot).map(|style| (style.color, style.dash)).collect();
        assert_eq!(lines.len(), 35);
    }

    #[test]
    fn neighbouring_slots_differ_in_everything() {
        for slot in 0..40 {
            let (one, next) = (SlotStyle::of_slot(slot), SlotStyle::of_slot(slot + 1));
            assert!(one.color != next.color && one.dash != next.dash && one.marker != next.marker);
        }
    }

    fn channels(color: &str) -> [f64; 3] {
        [1, 3, 5].map(|start| {
            let value = f64::from(u8::from_str_radix(&color[start..start + 2], 16).unwrap());
            let value = value / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// The CIE lightness L*.
    fn lightness([red, green, blue]: [f64; 3]) -> f64 {
        116.0 * (0.2126 * red + 0.7152 * green + 0.0722 * blue).cbrt() - 16.0
    }

    #[test]
    fn equal_steps_look_equally_large() {
        let lightness: Vec<f64> =
            (0..LEVELS).map(|level| lightness(channels(&color(level)))).collect();
        for pair in lightness.windows(2) {
            assert!((0.8..1.6).contains(&(pair[1] - pair[0])), "{pair:?}");
        }
        let span = lightness[LEVELS - 1] - lightness[0];
        for (level, value) in lightness.iter().enumerate() {
            let even = lightness[0] + span * level as f64 / (LEVELS - 1) as f64;
            assert!((value - even).abs() < 1.0, "level {level}");
        }
    }

    #[test]
    fn the_order_survives_a_red_green_weakness() {
        // Without one of the two kinds of cones, red and green are seen as one channel.
        for [red_share, green_share] in [[0.11, 0.89], [0.63, 0.37]] {
            let seen = |level: usize| {
                let [red, green, _] = channels(&color(level));
                red_share * red + green_share * green
            };
            assert!((1..LEVELS).all(|level| seen(level) > seen(level - 1)));
        }
    }

    /// Lines and text stay readable on both grounds: at least 3 to 1, as WCAG asks of graphics.
    #[test]
    fn every_series_stands_out_from_both_grounds() {
        let luminance = |color: &str| {
            let [red, green, blue] = channels(color);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let contrast = |one: &str, other: &str| {
            let (one, other) = (luminance(one), luminance(other));
            (one.max(other) + 0.05) / (one.min(other) + 0.05)
        };
        let dark = |light: &str| DARK.iter().find(|(of, _)| *of == light).unwrap().1;
        for color in COLORS {
            assert!(contrast(color, BACKGROUND) >= 3.0, "{color}");
            assert!(contrast(dark(color), dark(BACKGROUND)) >= 3.0, "{color} in the dark");
        }
        for text in [INK, MUTED] {
            assert!(contrast(dark(text), dark(BACKGROUND)) >= 7.0, "{text} in the dark");
        }
    }

    #[test]
    fn a_missing_value_is_lighter_than_any_colour() {
        let missing = lightness(channels(MISSING));
        assert!(missing > lightness(channels(&color(LEVELS - 1))) + 5.0);
    }

    #[test]
    fn every_fraction_has_a_level() {
        assert_eq!(level(0.0), 0);
        assert_eq!(level(1.0), LEVELS - 1);
        assert_eq!(level(-7.0), 0);
        assert_eq!(level(1e4), LEVELS - 1);
        assert_eq!(level(0.5), LEVELS / 2);
    }
}
