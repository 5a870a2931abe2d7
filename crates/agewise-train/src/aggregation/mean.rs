//! The weighted mean: FedAvg (McMahan et al., 2017).
//!
//! Updates are added in the order of the cohort, as sums of floats depend on it. The weight of those that cannot be used is
//! shared by the others, and what all weights miss to 1 (the weights of an unbiased policy add up to 1 on average only)
//! stays with the old model.

use super::pipeline::Combine;
use super::updates::{Checked, Updates};
use agewise_core::Result;

/// The weighted mean.
#[derive(Debug, Default)]
pub(super) struct Mean {
    sum: Vec<f32>,
    /// Weight of all members, and of those whose update was taken.
    offered: f64,
    accepted: f64,
}

impl Combine for Mean {
    fn combine(&mut self, updates: &mut Updates<'_>) -> Result<Option<&[f32]>> {
        let mut buffer = updates.buffer(1, updates.global.len())?;
        while let Err((member, why)) = self.try_sum(updates, &mut buffer) {
            updates.reject(member, why);
        }
        if self.accepted <= 0.0 {
            return Ok(None);
        }
        let scale = (self.offered / self.accepted) as f32;
        let rest = (1.0 - self.offered) as f32;
        for (sum, &old) in self.sum.iter_mut().zip(updates.global) {
            *sum = scale * *sum + rest * old;
        }
        Ok(Some(&self.sum))
    }
}

impl Mean {
    /// Sums up in the order of the cohort. Fails if an update goes bad when a part of it has been added; all begins anew
    /// without it.
    fn try_sum(
        &mut self,
        updates: &mut Updates<'_>,
        buffer: &mut Vec<f32>,
    ) -> std::result::Result<(), (usize, String)> {
        self.sum.clear();
        self.sum.resize(updates.global.len(), 0.0);
        (self.offered, self.accepted) = (0.0, 0.0);
        for (member, contribution) in updates.cohort.iter().enumerate() {
            let weight = contribution.weight;
            // One that is no weight was rejected, and does not count at all.
            if weight.is_finite() && weight >= 0.0 {
                self.offered += weight;
            }
            if updates.verdicts[member].is_err() {
                continue;
            }
            match updates.scan(member, buffer) {
                Ok(share) => {
                    self.add(updates, member, share, buffer).map_err(|why| (member, why))?;
                }
                Err(why) => updates.reject(member, why),
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        updates: &mut Updates<'_>,
        member: usize,
        share: f64,
        buffer: &mut Vec<f32>,
    ) -> Checked<()> {
        updates.add(member, share, buffer, &mut self.sum)?;
        self.accepted += updates.cohort[member].weight;
        Ok(())
    }
}
