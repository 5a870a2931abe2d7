//! How the series of a figure are told apart: by colour, by dashes and by markers.
//!
//! The colours are those of Okabe and Ito, which people with any common form of colour blindness
//! can tell apart, without the yellow and with the pale ones darkened to be readable on white.
//! Dashes and markers carry the same information for prints in grey.

use crate::geometry::Point;
use crate::svg::PathData;

/// Colour, dashes and marker of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
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

impl Look {
    /// The look with this number; numbers beyond the last one start over.
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
            .map(Look::of_slot)
            .map(|look| format!("{} {:?}", look.dash, look.marker))
            .collect();
        assert_eq!(grey.len(), 40);
        let lines: BTreeSet<(&str, &str)> =
            (0..35).map(Look::of_slot).map(|look| (look.color, look.dash)).collect();
        assert_eq!(lines.len(), 35);
    }

    #[test]
    fn neighbouring_slots_differ_in_everything() {
        for slot in 0..40 {
            let (one, next) = (Look::of_slot(slot), Look::of_slot(slot + 1));
            assert!(one.color != next.color && one.dash != next.dash && one.marker != next.marker);
        }
    }
}
