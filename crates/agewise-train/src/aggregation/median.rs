//! The median by coordinate (Yin et al., 2018): for each parameter the value in the middle, or the mean of the two there.

use super::pipeline::Combine;
use super::sorted_columns::mean_of_the_middle;
use super::updates::Updates;
use agewise_core::Result;

/// The median.
#[derive(Debug, Default)]
pub(super) struct Median {
    median: Vec<f32>,
}

impl Combine for Median {
    fn combine(&mut self, updates: &mut Updates<'_>) -> Result<Option<&[f32]>> {
        mean_of_the_middle(updates, &mut self.median, |updates| updates.saturating_sub(1) / 2)
    }
}
