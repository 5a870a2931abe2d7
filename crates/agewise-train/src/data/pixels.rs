//! From the bytes of pixels to the numbers that a model sees.

use super::images::Images;
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How the bytes of pixels become numbers: `unit` or `standardised`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PixelScale {
    /// From 0 to 1.
    Unit,
    /// Mean 0 and deviation 1 in each channel of the training images.
    #[default]
    Standardised,
}

impl FromStr for PixelScale {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "unit" => Ok(Self::Unit),
            "standardised" => Ok(Self::Standardised),
            _ => Err(Error::new("pixels", text, "unit or standardised")),
        }
    }
}

impl fmt::Display for PixelScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unit => "unit",
            Self::Standardised => "standardised",
        })
    }
}

/// The number for each of the 256 bytes, in each channel; without channels by default, for samples without pixels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PixelNormalization {
    channels: Vec<[f32; 256]>,
    /// The factor and the summand that give the numbers of every channel to the bit, where there are such.
    line: Option<(f64, f64)>,
    scalings: Vec<(f64, f64)>,
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl PixelNormalization {
    /// The table of a scale, with the mean and the deviation of these (training) images.
    pub fn new(scale: PixelScale, images: &Images) -> Self {
        let channels = images.shape().channels as usize;
        // Counts of bytes, so that the moments do not depend on an order of summation.
        let mut counts = vec![[0u64; 256]; channels];
        for pixel in images.pixels().chunks_exact(channels) {
            for (count, &byte) in counts.iter_mut().zip(pixel) {
                count[usize::from(byte)] += 1;
            }
        }
        let moments: Vec<(f64, f64)> = counts.iter().map(mean_and_deviation).collect();
        let scaling = |&(mean, deviation): &(f64, f64)| match scale {
            PixelScale::Unit => (0.0, 1.0),
            // A channel without any contrast has nothing to be scaled: only its mean is taken away.
            PixelScale::Standardised if deviation == 0.0 => (mean, 1.0),
            PixelScale::Standardised => (mean, deviation),
        };
        let scalings: Vec<(f64, f64)> = moments.iter().map(scaling).collect();
        let channels: Vec<[f32; 256]> = scalings.iter().map(numbers).collect();
        Self {
            line: line(&channels, &scalings),
            channels,
            scalings,
            means: moments.iter().map(|&(mean, _)| mean).collect(),
            deviations: moments.iter().map(|&(_, deviation)| deviation).collect(),
        }
    }

    /// The table in which a byte b of a channel is (b / 255 - shift) / divisor: as it was found elsewhere in images that
    /// are not here.
    pub fn from_scalings(scalings: &[(f64, f64)]) -> Result<Self> {
        for &(shift, divisor) in scalings {
            if !(shift.is_finite() && divisor.is_finite() && divisor > 0.0) {
                let value = format!("shift {shift}, divisor {divisor}");
                return Err(Error::new("pixels", value, "finite numbers, the divisor above 0"));
            }
        }
        let channels: Vec<[f32; 256]> = scalings.iter().map(numbers).collect();
        Ok(Self {
            line: line(&channels, scalings),
            channels,
            scalings: scalings.to_vec(),
            means: scalings.iter().map(|&(shift, _)| shift).collect(),
            deviations: scalings.iter().map(|&(_, divisor)| divisor).collect(),
        })
    }

    /// What is subtracted in each channel, and by what it is divided then, where pixels are from 0 to 1.
    pub fn scalings(&self) -> &[(f64, f64)] {
        &self.scalings
    }

    /// The numbers of one channel, by byte.
    ///
    /// # Panics
    ///
    /// If there is no such channel.
    pub fn of(&self, channel: usize) -> &[f32; 256] {
        &self.channels[channel]
    }

    /// A factor and a summand, in doubles, that give the numbers of all channels without a table.
    pub(crate) fn line(&self) -> Option<(f64, f64)> {
        self.line
    }

    /// The number of channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// The mean of each channel in the training images, where pixels are from 0 to 1.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// The standard deviation of each channel in the training images, where pixels are from 0 to 1.
    pub fn deviations(&self) -> &[f64] {
        &self.deviations
    }
}

/// The number for each byte, from what is subtracted and the divisor.
fn numbers(&(shift, divisor): &(f64, f64)) -> [f32; 256] {
    std::array::from_fn(|byte| ((byte as f64 / 255.0 - shift) / divisor) as f32)
}

/// The factor and the summand for all channels, if they have the same numbers and these are found to the bit.
fn line(channels: &[[f32; 256]], scalings: &[(f64, f64)]) -> Option<(f64, f64)> {
    let &(shift, divisor) = scalings.first()?;
    let (factor, summand) = (1.0 / (255.0 * divisor), -shift / divisor);
    let is_right = |(byte, number): (u8, &f32)| {
        ((f64::from(byte) * factor + summand) as f32).to_bits() == number.to_bits()
    };
    channels.iter().all(|channel| (0..=255).zip(channel).all(is_right)).then_some((factor, summand))
}

/// Of the bytes with these counts, as numbers from 0 to 1.
fn mean_and_deviation(counts: &[u64; 256]) -> (f64, f64) {
    let weighted = |weight: fn(u128) -> u128| -> u128 {
        (0..).zip(counts).map(|(byte, &count)| weight(byte) * u128::from(count)).sum()
    };
    let (total, sum, squares) = (weighted(|_| 1), weighted(|b| b), weighted(|b| b * b));
    if total == 0 {
        return (0.0, 0.0);
    }
    // n sum(b^2) - (sum b)^2 in whole numbers: nothing cancels, and equal bytes give exactly 0.
    let spread = total * squares - sum * sum;
    let (total, sum) = (total as f64, sum as f64);
    (sum / total / 255.0, (spread as f64).sqrt() / total / 255.0)
}

#[cfg(test)]
mod tests {
    use super::super::images::ImageShape;
    use super::*;

    #[test]
    fn a_table_is_its_scalings() {
        for scale in [PixelScale::Unit, PixelScale::Standardised] {
            let table = PixelNormalization::new(scale, &images(&[0, 7, 255, 7, 9, 7]));
            let again = PixelNormalization::from_scalings(table.scalings()).unwrap();
            assert_eq!(again.channels, table.channels);
        }
        for bad in [(f64::NAN, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, f64::INFINITY)] {
            assert_eq!(PixelNormalization::from_scalings(&[bad]).unwrap_err().field(), "pixels");
        }
    }

    fn images(pixels: &[u8]) -> Images {
        let labels = vec![0; pixels.len() / 2];
        Images::new(ImageShape::new(2, 1, 1), 1, pixels.to_vec(), labels).unwrap()
    }

    #[test]
    fn standardised_pixels_have_mean_0_and_deviation_1() {
        let table = PixelNormalization::new(
            PixelScale::Standardised,
            &images(&[0, 7, 255, 7, 0, 7, 255, 7]),
        );
        assert_eq!((table.means()[0], table.deviations()[0]), (0.5, 0.5));
        assert_eq!((table.of(0)[0], table.of(0)[255]), (-1.0, 1.0));
        // The second channel has no contrast: nothing is divided by 0.
        assert_eq!((table.deviations()[1], table.of(1)[7]), (0.0, 0.0));
        assert!(table.of(1).iter().all(|value| value.is_finite()));
    }

    #[test]
    fn unit_pixels_are_from_0_to_1() {
        let table = PixelNormalization::new(PixelScale::Unit, &images(&[3, 4]));
        assert_eq!((table.of(1)[0], table.of(1)[51], table.of(1)[255]), (0.0, 0.2, 1.0));
        assert_eq!(table.channels(), 2);
    }

    #[test]
    fn no_images_have_a_table_too() {
        let table = PixelNormalization::new(PixelScale::Standardised, &images(&[]));
        assert_eq!((table.means(), table.of(0)[255]), (&[0.0, 0.0][..], 1.0));
    }

    #[test]
    fn scales_parse_and_print_the_same_text() {
        for text in ["unit", "standardised"] {
            assert_eq!(text.parse::<PixelScale>().unwrap().to_string(), text);
        }
        assert_eq!("raw".parse::<PixelScale>().unwrap_err().field(), "pixels");
    }
}
