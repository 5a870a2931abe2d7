//! The trimmed mean by coordinate (Yin et al., 2018): for each parameter the mean of what is left when the smallest and the
//! largest values are cut.

use super::pipeline::Combine;
use super::sorted_columns::mean_of_the_middle;
use super::updates::Updates;
use agewise_core::Result;

/// The trimmed mean.
#[derive(Debug)]
pub(super) struct TrimmedMean {
    /// The share of updates that is cut at each end, from 0 to below 0.5.
    trim: f64,
    mean: Vec<f32>,
}

impl TrimmedMean {
    pub(super) fn new(trim: f64) -> Self {
        Self { trim, mean: Vec::new() }
    }

    /// How many of so many updates are cut at each end. At least one is left.
    fn cut(trim: f64, updates: usize) -> usize {
        // 0.29 of 100 is 29, although the product of the two falls short of it by a rounding.
        let share = trim * updates as f64 * (1.0 + 2.0 * f64::EPSILON);
        (updates.saturating_sub(1) / 2).min(share.floor() as usize)
    }
}

impl Combine for TrimmedMean {
    fn combine(&mut self, updates: &mut Updates<'_>) -> Result<Option<&[f32]>> {
        let trim = self.trim;
        mean_of_the_middle(updates, &mut self.mean, |updates| Self::cut(trim, updates))
    }
}
