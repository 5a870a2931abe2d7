//! The colours of a heat map: an ordered scale from dark to light.
//!
//! The stops were chosen in the CIE L*C*h space: lightness L* rises in equal steps from 14 to
//! 86.5, so that equal differences of values look equally large and a print in grey keeps the
//! order; the hue turns from blue over teal and green to yellow. That path avoids red, so the
//! colours that people with a red-green weakness mix up do not meet on it; they read the scale by
//! its lightness and by the turn from blue to yellow. The chroma is what sRGB allows at that
//! lightness, up to a limit that keeps the middle calm. The lightest colour stays darker than the
//! grey of missing values.

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
    use crate::theme;

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

    #[test]
    fn a_missing_value_is_lighter_than_any_colour() {
        let missing = lightness(channels(theme::MISSING));
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
